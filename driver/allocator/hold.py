"""The hold rule: what keeps a large claim from starving among small ones.

A large claim needs a whole set of GPUs to come free at one place, and small claims take each GPU as it comes. Two things help,
and nobody who runs is touched:

* *Sparing.* A smaller claim waits for a while before it breaks one of the last whole sets of the largest size that anybody
  asks for. Most claims are short, so often a GPU comes free elsewhere, and the set stays whole.
* *Holding.* Once a claim for several GPUs has waited too long, it holds the node where the fewest have to come free, and
  smaller claims wait for a while before they land there.

Both end with a claim's patience, each by its own wait, so small claims do not starve in turn. ``docs/simulate.md`` has what it
costs and gains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from driver.allocator.decide import anywhere
from driver.allocator.draws import closed_devices, free_gpus, remaining_counters
from driver.allocator.fleet import Fleet
from driver.allocator.problem import Problem
from driver.allocator.search import Found
from driver.allocator.tables import IDEAL_SIZES

_ASK_AGAIN_S = 60.0
_MOST_ASKED = 8
"""Of those that starve, whether some node could serve them: one that none could must not keep the others from holding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRule:
    """How long claims wait for each other's sake."""

    after_s: float = math.inf
    """A claim for several GPUs that waits longer holds a node."""
    hold_patience_s: float = 3600.0
    """So long a smaller claim keeps off the node that is held."""
    spare_patience_s: float = 0.0
    """So long a single does not break one of the last whole sets; a claim for n GPUs waits an n-th of it."""
    spare_sets: int = 1
    """How many whole sets are the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A claim that waits."""

    key: str
    problem: Problem
    count: int
    """GPUs that it asks for."""
    waited_s: float
    priority: int = 0
    may_go: Callable[[str], bool] = field(default=anywhere, compare=False)
    """Whether a node could ever serve it, as far as anything but devices is concerned."""


class Holds:
    """What is held now. Has no clock: a claim says how long it has waited."""

    def __init__(self, rule: HoldRule) -> None:
        self.rule = rule
        self.node: str | None = None
        """The node that is held, if any."""
        self.key: str | None = None
        """Whom it is held for."""
        self._count = self._priority = 0
        self._spared = 0
        self._counted: tuple[int, bool] | None = None
        self._hopeless: dict[str, float] = {}

    def update(self, fleet: Fleet, waiting: Sequence[Waiting]) -> None:
        """Look at the queue anew. The oldest starving claim of the highest priority holds; it keeps its node while it waits."""
        for each in waiting:
            self._spared = max(self._spared, next((size for size in IDEAL_SIZES if size <= each.count), 0))
        starving = [each for each in waiting if each.count > 1 and each.waited_s >= self.rule.after_s]
        starving.sort(key=lambda each: (each.priority, each.waited_s, each.key), reverse=True)
        self._hopeless = {each.key: self._hopeless[each.key] for each in starving if each.key in self._hopeless}
        for each in starving[:_MOST_ASKED]:
            if (each.key == self.key and self.node in fleet.nodes) or self._take(fleet, each):
                return
        self.node = self.key = None

    def _take(self, fleet: Fleet, each: Waiting) -> bool:
        """Hold a node for the claim. False where none could ever serve it, which is not asked all the time."""
        if each.waited_s < self._hopeless.get(each.key, 0.0):
            return False
        node = self.choose_node(fleet, each)
        if node is None:
            self._hopeless[each.key] = each.waited_s + _ASK_AGAIN_S
            return False
        self.node, self.key, self._count, self._priority = node, each.key, each.count, each.priority
        return True

    def choose_node(self, fleet: Fleet, claim: Waiting) -> str | None:
        """The node to be held for a claim, None where none could ever serve it; a benchmark has one that foresees."""
        return choose_soonest(fleet, claim.problem, claim.count, claim.may_go)

    def allows(self, claim: Waiting, node: str) -> bool:
        """False where the node is held for somebody who is no less important, and the claim can still wait (R32).

        Who only looks on takes nothing.
        """
        if node != self.node or claim.key == self.key or claim.priority > self._priority or not claim.count:
            return True
        return claim.count >= self._count or claim.waited_s >= self.rule.hold_patience_s

    def accepts(self, fleet: Fleet, claim: Waiting, found: Found) -> bool:
        """False where the placement breaks one of the last whole sets that larger claims want, and the claim can still wait."""
        if claim.count >= self._spared or claim.waited_s >= self._spare_patience_s(claim):
            return True
        breaks = any(broken for size, broken in zip(IDEAL_SIZES, found.damage, strict=True) if size == self._spared)
        return not breaks or self._has_more(fleet, claim.problem)

    def _has_more(self, fleet: Fleet, problem: Problem) -> bool:
        """Whether more sets are whole than are spared; counted once after each change of the fleet."""
        if self._counted is None or self._counted[0] != fleet.version:
            view = fleet.view(problem)
            whole = 0
            for key, names in view.index.buckets():
                shape, taken = view.index.statics(key).shape, fleet.taken(names[0])
                free = free_gpus(shape, taken.mask, remaining_counters(shape, taken)[0])
                whole += shape.tables.disjoint(free, self._spared) * len(names)
            self._counted = (fleet.version, whole > self.rule.spare_sets)
        return self._counted[1]

    def patience(self, claim: Waiting) -> tuple[bool, bool, bool]:
        """Whether it holds, and which of its patience is used up: what ``allows`` and ``accepts`` go by, beside its count."""
        return (
            claim.key == self.key,
            claim.waited_s >= self.rule.hold_patience_s,
            claim.waited_s >= self._spare_patience_s(claim),
        )

    def _spare_patience_s(self, claim: Waiting) -> float:
        return self.rule.spare_patience_s / max(1, claim.count)

    def next_change_s(self, waiting: Sequence[Waiting]) -> float | None:
        """In how many seconds the rule judges one of them otherwise; None where it never does."""
        delays = (self.rule.after_s, self.rule.hold_patience_s)
        left = [delay - each.waited_s for each in waiting for delay in (*delays, self._spare_patience_s(each))]
        return min((each for each in left if 0 < each < math.inf), default=None)


def choose_soonest(fleet: Fleet, problem: Problem, count: int, may_go: Callable[[str], bool] = anywhere) -> str | None:
    """The node on which the fewest devices have to come free for the claim, by name where several are equal.

    How long that takes is not known: a pod does not say when it ends. None where no node could ever serve the claim.
    """
    view = fleet.view(problem)
    candidates = []
    for key, names in view.index.buckets():
        statics = view.index.statics(key)
        eligible = max(statics.eligible, key=int.bit_count)
        node = next((name for name in names if may_go(name)), None) if eligible.bit_count() >= count else None
        if node is not None:
            free = eligible & ~closed_devices(statics.shape, fleet.taken(node))
            candidates.append((count - free.bit_count(), node))
    return min(candidates)[1] if candidates else None
