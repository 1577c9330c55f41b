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
from collections.abc import Sequence
from dataclasses import dataclass

from driver.allocator.fleet import Fleet
from driver.allocator.problem import Problem
from driver.allocator.search import Found
from driver.allocator.tables import IDEAL_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRule:
    """How long claims wait for each other's sake."""

    after_s: float = math.inf
    """A claim for several GPUs that waits longer holds a node."""
    hold_patience_s: float = 3600.0
    """So long a smaller claim keeps off the node that is held."""
    spare_patience_s: float = 0.0
    """So long a smaller claim does not break one of the last whole sets."""
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


class Holds:
    """What is held now. Has no clock: a claim says how long it has waited."""

    def __init__(self, rule: HoldRule) -> None:
        self.rule = rule
        self.node: str | None = None
        """The node that is held, if any."""
        self.key: str | None = None
        """Whom it is held for."""
        self._count = 0
        self._spared = 0
        self._counted: tuple[int, bool] | None = None

    def update(self, fleet: Fleet, waiting: Sequence[Waiting]) -> None:
        """Look at the queue anew. The oldest starving claim of the highest priority holds; it keeps its node while it waits."""
        for each in waiting:
            self._spared = max(self._spared, next((size for size in IDEAL_SIZES if size <= each.count), 0))
        starving = [each for each in waiting if each.count > 1 and each.waited_s >= self.rule.after_s]
        first = max(starving, key=lambda each: (each.priority, each.waited_s, each.key), default=None)
        if first is None:
            self.node = self.key = None
        elif self.key != first.key or self.node not in fleet.nodes:
            self.key, self._count = first.key, first.count
            self.node = choose_soonest(fleet, first.problem, first.count)

    def allows(self, claim: Waiting, node: str) -> bool:
        """False where the node is held for somebody else and the claim can still wait."""
        if node != self.node or claim.key == self.key:
            return True
        return claim.count >= self._count or claim.waited_s >= self.rule.hold_patience_s

    def accepts(self, fleet: Fleet, claim: Waiting, found: Found) -> bool:
        """False where the placement breaks one of the last whole sets that larger claims want, and the claim can still wait."""
        if claim.count >= self._spared or claim.waited_s >= self.rule.spare_patience_s:
            return True
        breaks = any(broken for size, broken in zip(IDEAL_SIZES, found.damage, strict=True) if size == self._spared)
        return not breaks or self._has_more(fleet, claim.problem)

    def _has_more(self, fleet: Fleet, problem: Problem) -> bool:
        """Whether more sets are whole than are spared; counted once after each change of the fleet."""
        if self._counted is None or self._counted[0] != fleet.version:
            view = fleet.view(problem)
            whole = 0
            for key, names in view.index.buckets():
                shape = view.index.statics(key).shape
                whole += shape.tables.disjoint(shape.healthy & ~fleet.taken(names[0]).mask, self._spared) * len(names)
            self._counted = (fleet.version, whole > self.rule.spare_sets)
        return self._counted[1]

    def patience(self, claim: Waiting) -> tuple[bool, bool, bool]:
        """Whether it holds, and which of its patience is used up: what ``allows`` and ``accepts`` go by, beside its count."""
        return (
            claim.key == self.key,
            claim.waited_s >= self.rule.hold_patience_s,
            claim.waited_s >= self.rule.spare_patience_s,
        )

    def next_change_s(self, waiting: Sequence[Waiting]) -> float | None:
        """In how many seconds the rule judges one of them otherwise; None where it never does."""
        delays = (self.rule.after_s, self.rule.hold_patience_s, self.rule.spare_patience_s)
        left = (delay - each.waited_s for each in waiting for delay in delays)
        return min((each for each in left if 0 < each < math.inf), default=None)


def choose_soonest(fleet: Fleet, problem: Problem, count: int) -> str | None:
    """The node on which the fewest devices have to come free for the claim, by name where several are equal.

    How long that takes is not known: a pod does not say when it ends. None where no node could ever serve the claim.
    """
    view = fleet.view(problem)
    candidates = []
    for key, names in view.index.buckets():
        eligible = max(view.index.statics(key).eligible, key=int.bit_count)
        if eligible.bit_count() >= count:
            free = eligible & ~fleet.taken(names[0]).mask
            candidates.append((count - free.bit_count(), names[0]))
    return min(candidates)[1] if candidates else None
