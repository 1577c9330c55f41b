"""The hold rule: what keeps a large claim from starving among small ones.

A large claim needs a whole set of GPUs to come free at one place, and small claims take each GPU as it comes. So once a large
claim has waited too long, it *holds* the node where it will fit soonest, and smaller claims wait for some time before they land
there, or break what the large claim needs anywhere else. They do not wait for ever: after ``patience_s`` they take what there
is. Nothing is taken from anybody who runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.allocator.fleet import Fleet
from driver.allocator.problem import Problem
from driver.allocator.search import Found
from driver.allocator.tables import IDEAL_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRule:
    """When the rule sets in, and how long it lasts."""

    after_s: float
    """A claim for several GPUs that waits longer starves."""
    patience_s: float
    """So long a smaller claim leaves to a starving one what that needs."""
    memory_s: float
    """So long after a claim starved such sets are spared: where one starved the next one will."""


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
    """What is held now. Has no clock: each call is told the time."""

    def __init__(self, rule: HoldRule) -> None:
        self._rule = rule
        self.node: str | None = None
        """The node that is held, if any."""
        self.key: str | None = None
        """Whom it is held for."""
        self._size = 0
        self._spared = 0
        self._starved_s = float("-inf")

    def update(self, fleet: Fleet, waiting: Sequence[Waiting], now_s: float) -> None:
        """Look at the queue anew. The oldest starving claim of the highest priority holds; it keeps its node while it waits."""
        starving = [each for each in waiting if each.count > 1 and each.waited_s >= self._rule.after_s]
        first = max(starving, key=lambda each: (each.priority, each.waited_s, each.key), default=None)
        if first is None:
            self.node = self.key = None
            return
        self._starved_s = now_s
        self._size = first.count
        self._spared = next((size for size in IDEAL_SIZES if size <= first.count), 0)
        if self.key != first.key or self.node not in fleet.nodes:
            self.key, self.node = first.key, choose_soonest(fleet, first.problem, first.count)

    def allows(self, claim: Waiting, node: str) -> bool:
        """False where the node is held for somebody else and the claim can still wait."""
        return node != self.node or claim.key == self.key or self._is_past(claim)

    def accepts(self, claim: Waiting, found: Found, now_s: float) -> bool:
        """False where the placement breaks a set that starving claims need and the claim can still wait."""
        if self._is_past(claim) or claim.key == self.key or now_s - self._starved_s > self._rule.memory_s:
            return True
        return not any(
            broken for size, broken in zip(IDEAL_SIZES, found.damage, strict=True) if claim.count < size <= self._size
        )

    def _is_past(self, claim: Waiting) -> bool:
        return claim.count >= self._size or claim.waited_s >= self._rule.patience_s


def choose_soonest(fleet: Fleet, problem: Problem, count: int) -> str | None:
    """The node on which the fewest devices have to come free for the claim, by name where several are equal.

    How long that takes is not known: a pod does not say when it ends. None where no node could ever serve the claim.
    """
    view = fleet.view(problem)
    candidates = []
    for key, names in view.buckets():
        eligible = max(view.statics(key).eligible, key=int.bit_count)
        if eligible.bit_count() >= count:
            free = eligible & ~fleet.taken(names[0]).mask
            candidates.append((count - free.bit_count(), names[0]))
    return min(candidates)[1] if candidates else None
