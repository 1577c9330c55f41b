"""The best placement of a problem on one node, or the proof that there is none, within a number of steps.

Requests are served one after the other, as kube-scheduler does, with all ways back; what is tried first is what is best for
the request alone. So the first placement found is already good, and for one request the best. The search ends when nothing is
left to try or its steps are used up: a placement that is not proved best is still legal, and "not found in so many steps" is an
answer of its own, never "there is none".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice
from typing import NamedTuple

from driver.allocator.choices import build_classes, split, subsets
from driver.allocator.device_node import Taken
from driver.allocator.draws import affordable_subsets, draw_devices, order_by_draw, remaining_counters
from driver.allocator.objective import Objective, Score
from driver.allocator.problem import Alternative, Constraint, Problem
from driver.allocator.slots import Pick, Slot, build_slots, is_hopeless
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of
from driver.api.resource_v1 import ALLOCATION_RESULTS_MAX

FIND_STEPS = 10_000
"""Steps before the search gives up without a placement. A set that is tried is a step, and so are a few that are judged."""
IMPROVE_STEPS = 2_000
"""Steps that are taken to better a placement."""
_JUDGED_A_STEP = 8
_SORTED_ALONE = 12_870
_SORTED = 512
"""As many choices are judged and tried best first; more are taken as they come. 12,870 are all eights out of 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A placement on a node."""

    score: Score
    picks: tuple[Pick, ...]
    damage: tuple[int, int, int] = (0, 0, 0)
    """Ideal eights, fours and twos that it breaks."""
    is_proved: bool = True
    """No better one exists on this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """No placement: there is none, or the steps did not suffice to tell."""

    is_proved: bool


class _State(NamedTuple):
    """What the requests before have taken."""

    used: int
    of_claim: int
    """Used by the claim at hand."""
    gpus: int
    """Used by the claim at hand, without admin access: what its policy is about."""
    bound: tuple[int, ...]
    """For each constraint 1 + the value that is matched, or the mask of values that are there."""
    counters: tuple[Fraction, ...]
    shares: Mapping[int, Mapping[str, Fraction]]
    orders: tuple[int, ...]
    picks: tuple[Pick, ...]
    sets: tuple[int, ...]
    """``gpus`` of the claims that are done."""


class NodeSearch:
    """One problem on one kind of node with so much taken."""

    def __init__(self, problem: Problem, statics: Statics, taken: Taken, *, first_fit: tuple[int, ...] | None = None) -> None:
        self._problem = problem
        self._statics = statics
        self._taken = taken
        self._objective = Objective(statics.shape)
        self._slots = build_slots(problem)
        self._constraints = [(c, each) for c, claim in enumerate(problem.claims) for each in claim.constraints]
        self._classes = build_classes(statics, taken.mask) if first_fit is None else tuple(1 << at for at in first_fit)
        self._is_first_fit = first_fit is not None
        self._counters = remaining_counters(statics, taken)
        self._by_draw = order_by_draw(statics) if statics.shape.counters else ()
        self._usable = self._objective.usable(taken.mask, self._counters)
        self.steps = 0
        self._best: Found | None = None
        self._is_cut = False
        self._is_truncated = False

    def run(self) -> Found | NotFound:
        """Searches."""
        start = _State(
            used=0,
            of_claim=0,
            gpus=0,
            bound=(0,) * len(self._constraints),
            counters=self._counters,
            shares=self._taken.shares,
            orders=(),
            picks=(),
            sets=(),
        )
        if not is_hopeless(self._slots, self._constraints, self._statics, self._taken.mask):
            self._extend(0, start)
        if self._best is None:
            return NotFound(is_proved=not self._is_cut)
        # More choices than are judged: where the first that fits is taken, a later one might have been better.
        is_first_taken = self._is_truncated and len(self._slots) == 1
        return replace(self._best, is_proved=not (self._is_cut or is_first_taken))

    def _is_over(self) -> bool:
        if self._best is not None and (self._is_first_fit or len(self._slots) == 1):
            return True
        if self.steps >= (FIND_STEPS if self._best is None else IMPROVE_STEPS):
            self._is_cut = True
        return self._is_cut

    def _extend(self, at: int, state: _State) -> None:
        if at == len(self._slots):
            self._finish(state)
            return
        slot = self._slots[at]
        for order, (flat, alternative) in enumerate(slot.alternatives):
            if self._best is not None and sum(state.orders) + order > self._least_orders():
                return
            for mask in self._choose(slot, flat, alternative, state):
                if self._is_over():
                    return
                self.steps += 1
                taken = self._take(slot, Pick(slot.claim, slot.request, alternative, flat, mask), order, state)
                if taken is not None:
                    self._extend(at + 1, taken)

    def _least_orders(self) -> int:
        score = self._best.score[0] if self._best is not None else 0
        return score if isinstance(score, int) else 0

    def _choose(self, slot: Slot, flat: int, alternative: Alternative, state: _State) -> Iterable[int]:
        """The sets that could serve an alternative now, best first."""
        free = self._statics.eligible[flat] & ~(state.of_claim if alternative.is_admin else state.used | self._taken.mask)
        room = ALLOCATION_RESULTS_MAX - sum(pick.mask.bit_count() for pick in state.picks if pick.claim == slot.claim)
        if alternative.is_all:
            wanted = self._statics.matching[flat]
            return [wanted] if wanted and not wanted & ~free and wanted.bit_count() <= room else []
        if alternative.count > min(room, free.bit_count()):
            return []
        groups, distinct = [free], []
        for number, constraint in self._covering(slot.claim, alternative):
            pattern, bound = self._statics.patterns[number], state.bound[number]
            if constraint.is_distinct:
                groups = [_without_values(mask, pattern, bound) for mask in groups]
                distinct.append(pattern)
            else:
                groups = [_with_value(mask, pattern, bound - 1) for mask in groups] if bound else split(groups, pattern)
        groups = [mask for mask in groups if mask.bit_count() >= alternative.count]
        found = chain.from_iterable(self._subsets(mask, alternative, distinct, state) for mask in groups)
        return found if self._is_first_fit or alternative.is_admin else self._sorted(found, slot, state)

    def _subsets(self, mask: int, alternative: Alternative, distinct: Sequence[Sequence[int]], state: _State) -> Iterator[int]:
        if alternative.is_admin:
            # It may also have what this pod's other claims take, which is not like the rest.
            classes = [part for each in self._classes for part in (each & state.used, each & ~state.used) if part]
            return subsets(mask, alternative.count, classes, distinct)
        if self._statics.shape.counters:
            positions = [at for at in self._by_draw if mask >> at & 1]
            return affordable_subsets(self._statics, positions, alternative.count, state.counters)
        return subsets(mask, alternative.count, self._classes, distinct)

    def _covering(self, claim: int, alternative: Alternative) -> Iterator[tuple[int, Constraint]]:
        for number, (owner, constraint) in enumerate(self._constraints):
            if owner == claim and constraint.covers(alternative):
                yield number, constraint

    def _sorted(self, found: Iterator[int], slot: Slot, state: _State) -> Iterable[int]:
        limit = _SORTED_ALONE if len(self._slots) == 1 else _SORTED
        first = list(islice(found, limit))
        self._is_truncated = self._is_truncated or len(first) == limit
        policy = self._problem.claims[slot.claim].policy
        if len(first) > 1:
            self.steps += len(first) // _JUDGED_A_STEP if len(self._slots) > 1 else 0
            free = self._usable & ~state.used

            def key(mask: int) -> tuple[object, ...]:
                together = state.gpus | mask
                damage = self._objective.damage(free, free & ~mask)
                rest = self._objective.links_lost(free, free & ~mask), self._objective.span(together), mask
                return self._objective.loss(policy, together), damage, *rest

            first.sort(key=key)
        return first if len(first) < limit else chain(first, found)

    def _take(self, slot: Slot, pick: Pick, order: int, state: _State) -> _State | None:
        bound = self._bind(slot.claim, pick, state.bound)
        drawn = draw_devices(self._statics, pick, (state.counters, state.shares))
        if bound is None or drawn is None:
            return None
        counters, shares = drawn
        alone = pick.mask & ~self._statics.shape.shared
        gpus = state.gpus if pick.alternative.is_admin else state.gpus | pick.mask
        if slot.ends_claim and not self._objective.is_met(self._problem.claims[slot.claim].policy, gpus):
            return None
        return _State(
            used=state.used | alone,
            of_claim=0 if slot.ends_claim else state.of_claim | alone,
            gpus=0 if slot.ends_claim else gpus,
            bound=bound,
            counters=counters,
            shares=shares,
            orders=(*state.orders, order),
            picks=(*state.picks, pick),
            sets=(*state.sets, gpus) if slot.ends_claim else state.sets,
        )

    def _bind(self, claim: int, pick: Pick, bound: tuple[int, ...]) -> tuple[int, ...] | None:
        """What constraints are bound to with the pick; None where it breaks one (only a request for all devices can)."""
        values = list(bound)
        for number, constraint in self._covering(claim, pick.alternative):
            for at in positions_of(pick.mask):
                value = self._statics.patterns[number][at]
                if constraint.is_distinct:
                    if value < 0 or values[number] >> value & 1:
                        return None
                    values[number] |= 1 << value
                elif value < 0 or values[number] not in (0, value + 1):
                    return None
                else:
                    values[number] = value + 1
        return tuple(values)

    def _finish(self, state: _State) -> None:
        taken = 0
        for mask in state.sets:
            taken |= mask
        left = self._objective.usable(self._taken.mask | taken, state.counters)
        damage = self._objective.damage(self._usable, left)
        score = () if self._is_first_fit else self._score(state, taken, left, damage)
        if self._best is None or score < self._best.score:
            self._best = Found(score=score, picks=state.picks, damage=damage)

    def _score(self, state: _State, taken: int, left: int, damage: tuple[int, int, int]) -> Score:
        judge = self._objective
        losses = [judge.loss(claim.policy, mask) for claim, mask in zip(self._problem.claims, state.sets, strict=True)]
        free = self._usable.bit_count()
        return (
            sum(state.orders),
            state.orders,
            *(sum(loss[part] for loss in losses) for part in range(3)),
            *(judge.ring_loss(taken) if len(state.sets) > 1 else (0, 0)),
            *damage[:2],
            -free if self._problem.packing_is_spread else free,
            damage[2],
            (self._usable & ~left).bit_count(),
            judge.links_lost(self._usable, left),
            sum(judge.span(mask) for mask in state.sets),
        )


def _with_value(mask: int, pattern: tuple[int, ...], value: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] == value)


def _without_values(mask: int, pattern: tuple[int, ...], values: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] >= 0 and not values >> pattern[at] & 1)
