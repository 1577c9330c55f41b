"""What is being written: claims that nobody else may be told to write, and pools that no node may leave with meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from driver.api.resource_v1 import AllocationResult
from driver.controller.writing.fence import PoolWrites
from driver.controller.writing.writer import AcknowledgeJob, ClaimJob, Job, PlaceJob, ResolveJob, TakeBackJob, list_claims

_RESOLVE_FIRST_S = 1.0
_RESOLVE_MAX_S = 30.0


@dataclass(slots=True)
class _Doubt:
    """A placement of which nobody knows what became."""

    job: ResolveJob
    due_s: float
    wait_s: float
    is_asked: bool = False


class InFlight:
    """For the decision thread. Times are of the steady clock."""

    def __init__(self, driver: str, submit: Callable[[Job], None], pools: PoolWrites) -> None:
        self._driver = driver
        self._submit = submit
        self._pools = pools
        self._busy: dict[str, ClaimJob] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._acknowledging: set[str] = set()
        self.places = 0
        self.take_backs = 0

    def is_busy(self, claim_uid: str) -> bool:
        """Whether the claim is being written, or in doubt."""
        return claim_uid in self._busy or claim_uid in self._doubts

    def is_taking_back(self, claim_uid: str) -> bool:
        """Whether it is we who free the claim now."""
        return isinstance(self._busy.get(claim_uid), TakeBackJob)

    def begin(self, job: ClaimJob) -> None:
        """Have it written."""
        for claim in list_claims(job):
            self._busy[claim.metadata.uid] = job
        self.places += isinstance(job, PlaceJob)
        self.take_backs += isinstance(job, TakeBackJob)
        if not isinstance(job, ResolveJob):
            for pool in self._list_pools(job):
                self._pools.begin(pool)
        self._submit(job)

    def acknowledge(self, job: AcknowledgeJob) -> None:
        """Have a node told that it may leave, unless that is under way."""
        if job.acknowledgement.node not in self._acknowledging:
            self._acknowledging.add(job.acknowledgement.node)
            self._submit(job)

    def end_acknowledge(self, job: AcknowledgeJob) -> None:
        """The node was told, or could not be."""
        self._acknowledging.discard(job.acknowledgement.node)

    def end(self, job: ClaimJob, now_s: float) -> None:
        """It was. What is in doubt goes on with ``doubt``, to be called before."""
        for claim in list_claims(job):
            self._busy.pop(claim.metadata.uid, None)
        self.places -= isinstance(job, PlaceJob)
        self.take_backs -= isinstance(job, TakeBackJob)
        if isinstance(job, ResolveJob):
            self._end_resolve(job, now_s)
            return
        for pool in self._list_pools(job):
            self._pools.end(pool, now_s)

    def doubt(self, job: ResolveJob, now_s: float) -> None:
        """Nobody knows what became of it: find out in a moment, and again until it is known."""
        uid = job.placing.claim.metadata.uid
        known = self._doubts.get(uid)
        wait_s = _RESOLVE_FIRST_S if known is None else min(_RESOLVE_MAX_S, known.wait_s * 2)
        if known is None:
            for pool in self._list_pools(job):
                self._pools.begin(pool)
        self._doubts[uid] = _Doubt(job, now_s + wait_s, wait_s)

    def resolve_due(self, now_s: float) -> None:
        """Ask what became of those whose time has come."""
        for doubt in self._doubts.values():
            if not doubt.is_asked and doubt.due_s <= now_s:
                doubt.is_asked = True
                self.begin(doubt.job)

    def next_resolve_s(self, now_s: float) -> float | None:
        """In how many seconds there is something to ask."""
        return min((max(0.0, each.due_s - now_s) for each in self._doubts.values() if not each.is_asked), default=None)

    def _end_resolve(self, job: ResolveJob, now_s: float) -> None:
        uid = job.placing.claim.metadata.uid
        doubt = self._doubts.get(uid)
        if doubt is not None and doubt.is_asked:  # not put off again: it is known
            del self._doubts[uid]
            for pool in self._list_pools(job):
                self._pools.end(pool, now_s)

    def _list_pools(self, job: ClaimJob) -> Iterator[str]:
        """The pools of ours that a job gives devices of, or takes them back, each once."""
        yield from dict.fromkeys(each.pool for each in _list_results(job) if each.driver == self._driver)


def _list_results(job: ClaimJob) -> Iterable[AllocationResult]:
    if isinstance(job, PlaceJob):
        return [result for each in job.placings for result in each.allocation.devices.results]
    if isinstance(job, ResolveJob):
        return job.placing.allocation.devices.results
    allocation = job.claim.status.allocation if isinstance(job, TakeBackJob) else None
    return () if allocation is None else allocation.devices.results
