"""The best placement of a problem on one node, or the proof that there is none, within a number of steps.

Requests are served one after the other, as kube-scheduler does, with all ways back; what is tried first is what is best for
the request alone. So the first placement found is already good, and for one request the best. The search ends when nothing is
left to try or its steps are used up: a placement that is not proved best is still legal, and "not found in so many steps" is an
answer of its own, never "there is none".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice
from typing import NamedTuple

from driver.allocator.choices import build_classes, split, subsets
from driver.allocator.device_node import Taken
from driver.allocator.objective import Objective, Score
from driver.allocator.problem import Alternative, Constraint, Problem
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


class Pick(NamedTuple):
    """The devices of one request."""

    claim: int
    request: int
    alternative: Alternative
    flat: int
    """The alternative's number over the whole problem."""
    mask: int


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


class _Slot(NamedTuple):
    claim: int
    request: int
    alternatives: tuple[tuple[int, Alternative], ...]
    ends_claim: bool


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
        self._slots = _build_slots(problem)
        self._constraints = [(c, each) for c, claim in enumerate(problem.claims) for each in claim.constraints]
        self._classes = build_classes(statics, taken.mask) if first_fit is None else tuple(1 << at for at in first_fit)
        self._is_first_fit = first_fit is not None
        self._counters = remaining_counters(statics, taken)
        self._usable = self._objective.usable(taken.mask, self._counters)
        self.steps = 0
        self._best: Found | None = None
        self._is_cut = False

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
        if not self._is_hopeless():
            self._extend(0, start)
        if self._best is None:
            return NotFound(is_proved=not self._is_cut)
        return replace(self._best, is_proved=not self._is_cut)

    def _is_hopeless(self) -> bool:
        """True where counting alone says that there is no placement: what would make a search try everything in vain."""
        for number, (owner, constraint) in enumerate(self._constraints):
            pattern = self._statics.patterns[number]
            need = reachable = 0
            for slot in self._slots:
                covered = [slot.claim == owner and constraint.covers(each) for _, each in slot.alternatives]
                if all(covered):
                    need += min(each.count or 1 for _, each in slot.alternatives)
                    for flat, each in slot.alternatives:
                        reachable |= self._statics.eligible[flat] & ~(0 if each.is_admin else self._taken.mask)
            if not constraint.is_distinct and reachable & self._statics.shape.shared:
                continue  # one device may serve several requests
            groups = split([reachable], pattern)
            most = len(groups) if constraint.is_distinct else max((group.bit_count() for group in groups), default=0)
            if need > most:
                return True
        return False

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

    def _choose(self, slot: _Slot, flat: int, alternative: Alternative, state: _State) -> Iterable[int]:
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
        found = chain.from_iterable(
            subsets(mask, alternative.count, self._classes, distinct)
            for mask in groups
            if mask.bit_count() >= alternative.count
        )
        return found if self._is_first_fit or alternative.is_admin else self._sorted(found, slot, state)

    def _covering(self, claim: int, alternative: Alternative) -> Iterator[tuple[int, Constraint]]:
        for number, (owner, constraint) in enumerate(self._constraints):
            if owner == claim and constraint.covers(alternative):
                yield number, constraint

    def _sorted(self, found: Iterator[int], slot: _Slot, state: _State) -> Iterable[int]:
        limit = _SORTED_ALONE if len(self._slots) == 1 else _SORTED
        first = list(islice(found, limit))
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

    def _take(self, slot: _Slot, pick: Pick, order: int, state: _State) -> _State | None:
        bound = self._bind(slot.claim, pick, state.bound)
        drawn = self._draw(pick, state)
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

    def _draw(self, pick: Pick, state: _State) -> tuple[tuple[Fraction, ...], Mapping[int, Mapping[str, Fraction]]] | None:
        """Counters and shares with the pick; None where one is overdrawn.

        Admin access draws nothing on counters, but for the first share of a shared device: later shares go by it.
        """
        shape = self._statics.shape
        shares = state.shares
        counters = list(state.counters)
        for at in positions_of(pick.mask):
            is_shared = shape.shared >> at & 1
            if at not in shares if is_shared else not pick.alternative.is_admin:
                for counter, amount in shape.draws[at]:
                    counters[counter] -= amount
                    if counters[counter] < 0:
                        return None
            if is_shared:
                total = _draw_share(self._statics, pick.flat, at, shares)
                if total is None:
                    return None
                shares = {**shares, at: total}
        return tuple(counters), shares

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


def remaining_counters(statics: Statics, taken: Taken) -> tuple[Fraction, ...]:
    """What is left of each counter; below zero where more is taken than there is."""
    shape = statics.shape
    counters = list(shape.counters)
    if counters:
        shared = sum(1 << at for at in taken.shares)
        for at in positions_of(taken.mask | shared):
            for counter, amount in shape.draws[at]:
                counters[counter] -= amount
    return tuple(counters)


def _draw_share(
    statics: Statics, flat: int, at: int, shares: Mapping[int, Mapping[str, Fraction]]
) -> dict[str, Fraction] | None:
    drawn = dict(next(amounts for position, amounts in statics.draws[flat] if position == at))
    totals = dict(next(amounts for position, amounts in statics.totals if position == at))
    held = shares.get(at, {})
    together = {name: held.get(name, Fraction(0)) + amount for name, amount in drawn.items()}
    return together if all(amount <= totals[name] for name, amount in together.items()) else None


def _build_slots(problem: Problem) -> tuple[_Slot, ...]:
    slots: list[_Slot] = []
    flat = 0
    for c, claim in enumerate(problem.claims):
        for r, request in enumerate(claim.requests):
            numbered = tuple(enumerate(request.alternatives, flat))
            flat += len(numbered)
            slots.append(_Slot(c, r, numbered, r == len(claim.requests) - 1))
    return tuple(slots)


def _with_value(mask: int, pattern: tuple[int, ...], value: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] == value)


def _without_values(mask: int, pattern: tuple[int, ...], values: int) -> int:
    return sum(1 << at for at in positions_of(mask) if pattern[at] >= 0 and not values >> pattern[at] & 1)
