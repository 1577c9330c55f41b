"""The best placement of a problem on one node, or the proof that there is none, within a number of steps.

Requests are served one after the other, as kube-scheduler does, with all ways back; what is tried first is what is best for
the request alone. So the first placement found is already good, and for one request the best. The search ends when nothing is
left to try or its steps are used up: a placement that is not proved best is still legal, and "not found in so many steps" is an
answer of its own, never "there is none".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from driver.allocator.choosing import SetChooser, State
from driver.allocator.counting import breaks_constraints, has_no_room
from driver.allocator.device_node import Taken
from driver.allocator.draws import draw_devices, shared_rest
from driver.allocator.objective import Harm, Objective, Score
from driver.allocator.problem import Problem
from driver.allocator.slots import Pick, Slot, build_slots
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of

FIND_STEPS = 10_000
"""Steps before the search gives up without a placement. A set that is tried is a step, and so are a few that are judged."""
IMPROVE_STEPS = 2_000
"""Steps that are taken to better a placement."""
IMPROVE_PARTS_STEPS = 400
"""The same where devices draw on counters, where a step is longer."""
_JUDGED_A_STEP = 8


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


class NodeSearch:
    """One problem on one kind of node with so much taken."""

    def __init__(self, problem: Problem, statics: Statics, taken: Taken, *, first_fit: tuple[int, ...] | None = None) -> None:
        self._problem = problem
        self._statics = statics
        self._taken = taken
        self._is_first_fit = first_fit is not None
        self._objective = Objective(statics.shape)
        self._slots = build_slots(problem)
        self._constraints = [(c, each) for c, claim in enumerate(problem.claims) for each in claim.constraints]
        self._chooser = SetChooser(problem, statics, taken, first_fit)
        in_use = sum(1 << at for at in taken.shares)
        self._room = self._objective.room(taken.mask | in_use, self._chooser.lefts)
        self._improve_steps = IMPROVE_PARTS_STEPS if statics.shape.groups else IMPROVE_STEPS
        self._tried = 0
        self._best: Found | None = None
        self._is_cut = False

    @property
    def steps(self) -> int:
        """Steps that were taken; of one request the sets that were compared do not count."""
        return self._tried + (self._chooser.judged // _JUDGED_A_STEP if len(self._slots) > 1 else 0)

    def run(self) -> Found | NotFound:
        """Searches."""
        start = State(
            used=0,
            of_claim=0,
            gpus=0,
            bound=(0,) * len(self._constraints),
            lefts=self._chooser.lefts,
            shares=self._taken.shares,
            orders=(),
            picks=(),
            sets=(),
        )
        gone = self._taken.mask | self._chooser.blocked
        if not breaks_constraints(self._slots, self._constraints, self._statics, gone):
            self._extend(0, start)
        if self._best is None:
            return NotFound(is_proved=not (self._is_cut or self._chooser.is_cut))
        # More choices than are judged: where the first that fits is taken, a later one might have been better.
        is_first_taken = self._chooser.is_truncated and len(self._slots) == 1
        return replace(self._best, is_proved=not (self._is_cut or self._chooser.is_cut or is_first_taken))

    def _is_over(self) -> bool:
        if self._best is not None and (self._is_first_fit or len(self._slots) == 1):
            return True
        if self.steps >= (FIND_STEPS if self._best is None else self._improve_steps):
            self._is_cut = True
        return self._is_cut

    def _extend(self, at: int, state: State) -> None:
        if at == len(self._slots):
            self._finish(state)
            return
        gone = self._taken.mask | state.used | self._chooser.blocked
        if len(self._slots) > 1 and has_no_room(self._slots[at:], self._statics, state.lefts, gone):
            return
        slot = self._slots[at]
        for order, (flat, alternative) in enumerate(slot.alternatives):
            if self._best is not None and sum(state.orders) + order > self._least_orders():
                return
            for mask in self._chooser.choose(slot, flat, alternative, state):
                if self._is_over():
                    return
                self._tried += 1
                taken = self._take(slot, Pick(slot.claim, slot.request, alternative, flat, mask), order, state)
                if taken is not None:
                    self._extend(at + 1, taken)

    def _least_orders(self) -> int:
        score = self._best.score[0] if self._best is not None else 0
        return score if isinstance(score, int) else 0

    def _take(self, slot: Slot, pick: Pick, order: int, state: State) -> State | None:
        bound = self._bind(slot.claim, pick, state.bound)
        drawn = draw_devices(self._statics, pick, (state.lefts, state.shares))
        if bound is None or drawn is None:
            return None
        lefts, shares = drawn
        alone = pick.mask & ~self._statics.shape.shared
        gpus = state.gpus if pick.alternative.is_admin else state.gpus | pick.mask
        if slot.ends_claim and not self._objective.is_met(self._problem.claims[slot.claim].policy, gpus):
            return None
        return State(
            used=state.used | alone,
            of_claim=0 if slot.ends_claim else state.of_claim | alone,
            gpus=0 if slot.ends_claim else gpus,
            bound=bound,
            lefts=lefts,
            shares=shares,
            orders=(*state.orders, order),
            picks=(*state.picks, pick),
            sets=(*state.sets, gpus) if slot.ends_claim else state.sets,
        )

    def _bind(self, claim: int, pick: Pick, bound: tuple[int, ...]) -> tuple[int, ...] | None:
        """What constraints are bound to with the pick; None where it breaks one (only a request for all devices can)."""
        values = list(bound)
        for number, constraint in self._chooser.covering(claim, pick.alternative):
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

    def _finish(self, state: State) -> None:
        taken = 0
        for mask in state.sets:
            taken |= mask
        harm = self._objective.harm(self._room, self._objective.room(self._room.gone | taken, state.lefts))
        score = () if self._is_first_fit else self._score(state, taken, harm)
        if self._best is None or score < self._best.score:
            self._best = Found(score=score, picks=state.picks, damage=harm.damage)

    def _score(self, state: State, taken: int, harm: Harm) -> Score:
        judge = self._objective
        losses = [judge.loss(claim.policy, mask) for claim, mask in zip(self._problem.claims, state.sets, strict=True)]
        free = self._room.free.bit_count()
        return (
            sum(state.orders),
            state.orders,
            *(sum(loss[part] for loss in losses) for part in range(3)),
            *(judge.ring_loss(taken) if len(state.sets) > 1 else (0, 0)),
            *harm.damage[:2],
            harm.unusable,
            harm.drawn,
            harm.partitions,
            -free if self._problem.packing_is_spread else free,
            harm.damage[2],
            harm.links,
            sum(judge.span(mask) for mask in state.sets),
            harm.rest + shared_rest(self._statics, state.shares, taken),
        )
