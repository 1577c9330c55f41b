"""The sets of devices that could serve one request of a search, best first: what the requests before have taken is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import NamedTuple

from driver.allocator.choices import build_classes, split, subsets
from driver.allocator.device_node import Taken
from driver.allocator.draws import affordable_subsets, remaining_counters, shared_rest
from driver.allocator.objective import Objective, Room
from driver.allocator.part_sets import Effort, PartSets
from driver.allocator.partitions import Lefts
from driver.allocator.problem import Alternative, Constraint, Problem
from driver.allocator.slots import Pick, Slot
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of
from driver.api.resource_v1 import ALLOCATION_RESULTS_MAX

_SORTED_ALONE = 12_870
_SORTED = 512
"""As many choices are judged and tried best first; more are taken as they come. 12,870 are all eights out of 16."""
_SORTED_PARTS = 256
"""Where devices draw on counters, of two kinds each."""

Patterns = Sequence[Sequence[int]]
Judge = Callable[[int], tuple[object, ...]]


class State(NamedTuple):
    """What the requests before have taken."""

    used: int
    of_claim: int
    """Used by the claim at hand."""
    gpus: int
    """Used by the claim at hand, without admin access: what its policy is about."""
    bound: tuple[int, ...]
    """For each constraint 1 + the value that is matched, or the mask of values that are there."""
    lefts: Lefts
    shares: Mapping[int, Mapping[str, Fraction]]
    orders: tuple[int, ...]
    picks: tuple[Pick, ...]
    sets: tuple[int, ...]
    """``gpus`` of the claims that are done."""


class SetChooser:
    """Answers what could serve a request on one kind of node with so much taken."""

    def __init__(self, problem: Problem, statics: Statics, taken: Taken, first_fit: tuple[int, ...] | None) -> None:
        self._problem = problem
        self._statics = statics
        self._taken = taken
        self._first_fit = first_fit
        self._objective = Objective(statics.shape)
        self._constraints = [(c, each) for c, claim in enumerate(problem.claims) for each in claim.constraints]
        self.lefts, self.blocked = remaining_counters(statics.shape, taken)
        self._everything = (1 << statics.shape.size) - 1
        self._plain = self._everything
        for group in statics.shape.groups:
            self._plain &= ~group.mask
        self._classes: dict[int, tuple[int, ...]] = {}
        self._effort = Effort()
        self._is_alone = sum(len(claim.requests) for claim in problem.claims) == 1
        self.judged = 0
        """Sets that were compared."""
        self.is_truncated = False
        """There were more than are compared: the first that comes need not be the best."""

    @property
    def is_cut(self) -> bool:
        """Not all sets were looked at."""
        return self._effort.is_spent

    def choose(self, slot: Slot, flat: int, alternative: Alternative, state: State) -> Iterable[int]:
        """The sets that could serve an alternative now, best first."""
        gone = state.of_claim if alternative.is_admin else state.used | self._taken.mask | self.blocked
        free = self._statics.eligible[flat] & ~gone
        room = ALLOCATION_RESULTS_MAX - sum(pick.mask.bit_count() for pick in state.picks if pick.claim == slot.claim)
        if alternative.is_all:
            wanted = self._statics.matching[flat]
            return [wanted] if wanted and not wanted & ~free and wanted.bit_count() <= room else []
        if alternative.count > min(room, free.bit_count()):
            return []
        masks, distinct = [free], []
        for number, constraint in self.covering(slot.claim, alternative):
            pattern, bound = self._statics.patterns[number], state.bound[number]
            if constraint.is_distinct:
                masks = [_without_values(mask, pattern, bound) for mask in masks]
                distinct.append(pattern)
            else:
                masks = [_with_value(mask, pattern, bound - 1) for mask in masks] if bound else split(masks, pattern)
        masks = [mask for mask in masks if mask.bit_count() >= alternative.count]
        if self._first_fit is not None:
            return chain.from_iterable(self._in_order(self._first_fit, mask, alternative, state) for mask in masks)
        if alternative.is_admin:
            return chain.from_iterable(self._admin_sets(mask, alternative.count, distinct, state) for mask in masks)
        return self._sorted(masks, alternative, distinct, slot, state)

    def _in_order(self, order: Sequence[int], mask: int, alternative: Alternative, state: State) -> Iterator[int]:
        positions = [at for at in order if mask >> at & 1]
        if alternative.is_admin:
            return subsets(mask, alternative.count, [1 << at for at in positions], ())
        return affordable_subsets(self._statics.shape, positions, alternative.count, state.lefts)

    def _admin_sets(self, mask: int, count: int, distinct: Patterns, state: State) -> Iterator[int]:
        """It may also have what this pod's other claims take, which is not like the rest."""
        parts = ((each & state.used, each & ~state.used) for each in self._alike(self._everything))
        return subsets(mask, count, [part for both in parts for part in both if part], distinct)

    def _alike(self, among: int) -> tuple[int, ...]:
        known = self._classes.get(among)
        if known is None:
            known = self._classes[among] = build_classes(self._statics, self._taken.mask, among)
        return known

    def covering(self, claim: int, alternative: Alternative) -> Iterator[tuple[int, Constraint]]:
        """The constraints that an alternative falls under, by their numbers over the whole problem."""
        for number, (owner, constraint) in enumerate(self._constraints):
            if owner == claim and constraint.covers(alternative):
                yield number, constraint

    def _sorted(
        self, masks: Sequence[int], alternative: Alternative, distinct: Patterns, slot: Slot, state: State
    ) -> Iterable[int]:
        """The sets without an overdrawn counter, best first."""
        plain, count = self._alike(self._plain), alternative.count
        if self._statics.shape.groups:
            parts = PartSets(self._statics, plain, self._room(state), distinct, self._effort)
            return self._sorted_parts(parts, masks, count, slot, state)
        found = chain.from_iterable(subsets(mask, count, plain, distinct) for mask in masks)
        limit = _SORTED_ALONE if self._is_alone else _SORTED
        first = list(islice(found, limit))
        self.is_truncated = self.is_truncated or len(first) == limit
        self._sort(first, slot, state)
        return first if len(first) < limit else chain(first, found)

    def _sorted_parts(self, parts: PartSets, masks: Sequence[int], count: int, slot: Slot, state: State) -> Iterable[int]:
        """For one request alone the best set is among the best of each GPU; beside others, another may leave more to them."""
        found = chain.from_iterable(parts.sets(mask, count) for mask in masks)
        best = chain.from_iterable(parts.best_sets(mask, count) for mask in masks)
        first = list(dict.fromkeys(islice(best, _SORTED_PARTS)))
        self.is_truncated = self.is_truncated or len(first) == _SORTED_PARTS or not parts.is_exact
        if not self._is_alone or not parts.is_exact:
            first = list(dict.fromkeys(chain(first, islice(found, _SORTED_PARTS))))
        self._sort(first, slot, state)
        return chain(first, found)

    def _sort(self, sets: list[int], slot: Slot, state: State) -> None:
        self.judged += len(sets)
        if len(sets) > 1:
            sets.sort(key=self._judge(slot, state))

    def _room(self, state: State) -> Room:
        in_use = sum(1 << at for at in state.shares)
        return self._objective.room(self._taken.mask | state.used | in_use, state.lefts)

    def _judge(self, slot: Slot, state: State) -> Judge:
        """What sets are compared by: in the order of the score, as far as it depends on the set."""
        judge, policy, before = self._objective, self._problem.claims[slot.claim].policy, self._room(state)

        def key(mask: int) -> tuple[object, ...]:
            together = state.gpus | mask
            harm = judge.harm(before, judge.take(before, mask, state.shares))
            return (
                judge.loss(policy, together),
                harm.damage[:2],
                harm.unusable,
                harm.drawn,
                harm.partitions,
                harm.damage[2],
                harm.links,
                judge.span(together),
                harm.rest + shared_rest(self._statics, state.shares, mask),
                mask,
            )

        return key


def _with_value(mask: int, pattern: tuple[int, ...], value: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] == value)


def _without_values(mask: int, pattern: Sequence[int], values: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] >= 0 and not values >> pattern[at] & 1)
