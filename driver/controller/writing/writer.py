"""What is written: a placement, what became of it, guards and marks that go, an allocation taken back, a node let go.

A job is given to a thread, and its report comes back as a value; nothing is decided here but the next step of a claim. A demand
is one job: its claims are written one after the other, guarded where there are several (R6). Whatever happens in between, the
claims say enough for the next leader to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from driver import log
from driver.controller.books.demands import Demand
from driver.controller.objects.life import format_time
from driver.controller.objects.model import Claim, Consumer
from driver.controller.objects.ownership import is_pod
from driver.controller.writing.attempt import Attempt, Attempts
from driver.controller.writing.claim_steps import (
    End,
    Placing,
    Step,
    build_allocated,
    build_cleared,
    build_mark,
    build_reserved,
    build_tidied,
    build_unmark,
    choose_clearing_step,
    choose_placing_step,
    choose_settling_step,
    choose_tidying_step,
    choose_unmarking_step,
    choose_withdrawing_step,
    is_in_use,
    plan_settled,
    plan_withdrawn,
)
from driver.controller.writing.fence import Acknowledgement
from driver.errors import ApiError

_LOG = log.logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceJob:
    """A demand's claims, to be written in this order. ``guarded``: claims of it that were written before and have a guard."""

    demand: Demand
    node: str
    placings: tuple[Placing, ...]
    guarded: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveJob:
    """A placement that was given up in doubt: find out what became of it."""

    placing: Placing


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleJob:
    """A guard that nobody needs any more. ``users`` are the pods that shall be reserved."""

    claim: Claim
    users: tuple[Consumer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBackJob:
    """An allocation of ours that nobody uses."""

    claim: Claim
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmarkJob:
    """A claim that was to be allocated and is not, and that nobody waits for any more."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeJob:
    """A node that wants to leave the controller may."""

    acknowledgement: Acknowledgement


ClaimJob: TypeAlias = PlaceJob | ResolveJob | SettleJob | TakeBackJob | UnmarkJob
Job: TypeAlias = ClaimJob | AcknowledgeJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of one claim. ``claim`` is as the server said last."""

    claim: Claim
    end: End
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of a job. Claims of a placement that are not there were not begun."""

    job: Job
    written: tuple[Written, ...]
    is_refused: bool = False
    """Of an acknowledgement: the server did not take it."""


def list_claims(job: ClaimJob) -> tuple[Claim, ...]:
    """The claims that a job writes to."""
    if isinstance(job, PlaceJob):
        return (*(each.claim for each in job.placings), *job.guarded)
    return (job.placing.claim if isinstance(job, ResolveJob) else job.claim,)


class Writer:
    """Runs jobs, one in each thread that calls ``run``."""

    def __init__(
        self,
        attempts: Attempts,
        acknowledge: Callable[[Acknowledgement], None],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._attempts = attempts
        self._api = attempts.api
        self._acknowledge = acknowledge
        self._wall = wall

    def run(self, job: Job) -> Report:
        """Do it, and say what became of it. Does not raise ``ApiError``."""
        if isinstance(job, PlaceJob):
            written = self._place(job)
        elif isinstance(job, ResolveJob):
            written = (self._resolve(job.placing),)
        elif isinstance(job, SettleJob):
            written = (self._settle(job.claim, job.users),)
        elif isinstance(job, TakeBackJob):
            written = (self._take_back(job.claim),)
        elif isinstance(job, UnmarkJob):
            written = (self._unmark(job.claim),)
        else:
            return Report(job=job, written=(), is_refused=not self._let_go(job.acknowledgement))
        return Report(job=job, written=written)

    def _let_go(self, acknowledgement: Acknowledgement) -> bool:
        """Once; the loop asks again while the node waits. False where the server did not take it."""
        if not self._attempts.wait_may_write(self._attempts.clock()):
            return True
        try:
            self._acknowledge(acknowledgement)
        except ApiError as err:
            log.event(_LOG, log.WARNING, "a draining node was not acknowledged", node=acknowledgement.node, error=err)
            return False
        return True

    def _place(self, job: PlaceJob) -> tuple[Written, ...]:
        stamp = format_time(self._wall())
        placed: list[Written] = []
        for each in job.placings:
            allocation = msgspec.structs.replace(each.allocation, allocation_timestamp=stamp)
            written = self._write(replace(each, allocation=allocation))
            placed.append(written)
            if written.end is not End.DONE:
                return tuple(placed)
        for claim in job.guarded:
            self._settle(claim, ())
        return tuple(self._unguard(each, placing) for each, placing in zip(placed, job.placings, strict=True))

    def _write(self, placing: Placing) -> Written:
        attempt = self._attempts.begin(placing.claim)

        def act(step: Step, claim: Claim) -> Claim:
            if step is Step.MARK:
                return self._api.patch(claim, build_mark(claim, placing.digest))
            return self._api.put_status(claim, build_allocated(claim, placing))

        end = attempt.run(lambda claim: choose_placing_step(claim, placing), act)
        if end is End.TAKEN:
            attempt.run(choose_tidying_step, lambda _, claim: self._api.patch(claim, build_tidied(claim)))
        return _report(attempt, end)

    def _resolve(self, placing: Placing) -> Written:
        attempt = self._attempts.begin(placing.claim)
        return _report(attempt, attempt.resolve(lambda claim: choose_placing_step(claim, placing)))

    def _unguard(self, placed: Written, placing: Placing) -> Written:
        """A guard that stays because the API is in trouble is found by the loop; the claim is placed all the same."""
        if not placing.is_guarded:
            return placed
        return replace(placed, claim=self._settle(placed.claim, ()).claim)

    def _settle(self, claim: Claim, users: Iterable[Consumer]) -> Written:
        attempt = self._attempts.begin(claim)
        end = attempt.run(
            lambda now: choose_settling_step(now, claim),
            lambda _, now: self._api.patch_status(now, build_reserved(now, plan_settled(now, users))),
        )
        return _report(attempt, end)

    def _unmark(self, claim: Claim) -> Written:
        attempt = self._attempts.begin(claim)
        end = attempt.run(choose_unmarking_step, lambda _, now: self._api.patch(now, build_unmark(now)))
        return _report(attempt, end)

    def _take_back(self, before: Claim) -> Written:
        attempt = self._attempts.begin(before)
        pods = tuple(each for each in before.status.reserved_for if is_pod(each))
        try:
            there = self._read_unbound(before, pods)
            if there is None:
                return _report(attempt, End.IN_USE)
            if there:
                end = self._withdraw(attempt, before)
                if end is not End.DONE:
                    return _report(attempt, end)
                self._attempts.pause(self._attempts.pace.withdraw_s)
                there = self._read_unbound(before, there)
        except ApiError as err:
            attempt.text = str(err)
            return _report(attempt, End.GIVEN_UP)
        gone = frozenset(each.uid for each in pods) - frozenset(each.uid for each in there or ())
        end = End.IN_USE if there is None else self._clear(attempt, before, gone)
        if end is End.IN_USE:
            return replace(self._settle(attempt.claim, pods), end=End.IN_USE)
        return _report(attempt, end)

    def _withdraw(self, attempt: Attempt, before: Claim) -> End:
        return attempt.run(
            lambda claim: choose_withdrawing_step(claim, before),
            lambda _, claim: self._api.patch_status(claim, build_reserved(claim, plan_withdrawn(claim))),
        )

    def _clear(self, attempt: Attempt, before: Claim, gone: frozenset[str]) -> End:
        def act(step: Step, claim: Claim) -> Claim:
            if step is Step.CLEAR:
                return self._api.patch_status(claim, build_cleared(claim))
            return self._api.patch(claim, build_unmark(claim))

        return attempt.run(lambda claim: choose_clearing_step(claim, before, gone), act)

    def _read_unbound(self, claim: Claim, pods: Iterable[Consumer]) -> tuple[Consumer, ...] | None:
        """Those of the pods that are there; None where one is bound."""
        there = []
        for each in pods:
            pod = self._api.read_pod(claim.metadata.namespace, each.name)
            if is_in_use(pod, each.uid):
                return None
            if pod is not None and pod.metadata.uid == each.uid:
                there.append(each)
        return tuple(there)


def _report(attempt: Attempt, end: End) -> Written:
    return Written(claim=attempt.claim, end=end, text=attempt.text)
