"""Leader election: at most one controller writes, as far as a lease can promise that.

A Lease fences nothing: a leader that was stopped for a minute finds its next request ready to be sent. So, besides holding it
(R28):

* The leader asks ``may_write`` before each write. It is true only while more than a request's time-out is left on the lease,
  counted from *before* the last renewal was sent, by a clock that goes on while the process or the machine sleeps.
* Whoever takes the lease from a holder that did not release it writes nothing for a lease and a request's time-out, and then
  lists anew. That holds as well where the lease was deleted by hand.
* A leader that could not renew in time, or finds another holder or no lease, has lost for good: the process ends
  (``LeadershipLost``, exit code 4) and is started again as a stand-by that knows nothing from before, as operators know it of
  Kubernetes' own programs.
* What still slips through is found by ``doubles``.

Clock skew does not matter: a contender times how long the record has *not changed*, by its own clock, as client-go does.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from driver import log
from driver.api.meta_v1 import ObjectMeta
from driver.controller.election.lease import (
    MAX_JITTER,
    ElectionSettings,
    Lease,
    build_first_lease,
    build_released,
    build_renewed,
    build_taken,
)
from driver.controller.election.lease_api import Leases
from driver.errors import ApiError, Conflict, NotFound

_LOG = log.logger(__name__)


class Standing(enum.Enum):
    """What this process is in the election."""

    STANDBY = "standby"
    TAKING_OVER = "taking over"
    """Holds the lease, and waits until nothing of the holder before can still arrive."""
    LEADING = "leading"
    LOST = "lost"
    """Was more than a stand-by and is not any more: nothing may be written ever again."""
    RELEASED = "released"
    """Has stopped by itself."""


_HOLDING = frozenset({Standing.TAKING_OVER, Standing.LEADING})


def read_clock_s() -> float:
    """Seconds that go on while the machine sleeps, which ``time.monotonic`` does not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _read_wall() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Observed:
    """The record as last read, and when it was first read like this."""

    version: str = ""
    holder: str = ""
    since_s: float = 0.0


class Elector:
    """The election without a thread: ``step`` reads or writes the lease once, ``next_wait_s`` says when to do so again.

    One thread steps; ``may_write`` and ``standing`` may be asked by any.
    """

    def __init__(
        self,
        leases: Leases,
        settings: ElectionSettings,
        *,
        clock: Callable[[], float] = read_clock_s,
        wall: Callable[[], datetime] = _read_wall,
        rng: random.Random | None = None,
    ) -> None:
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._rng = rng or random.Random()  # noqa: S311  spreads load, keeps no secret
        self._observed = _Observed()
        self._lease = Lease(metadata=ObjectMeta())
        self._renewed_s = 0.0
        self._writes_from_s = 0.0
        self._has_tried = False
        self._standing = Standing.STANDBY
        self.trouble = ""
        """Why the lease could not be read or written the last time; empty where it could."""

    @property
    def standing(self) -> Standing:
        """What this process is now. A leader whose lease ran out has lost, also where no step has noticed it yet."""
        standing = self._standing
        if standing in _HOLDING and self._left_s() <= 0:
            return Standing.LOST
        return standing

    @property
    def holder(self) -> str:
        """Who held the lease when it was last read; empty where nobody did."""
        return self._observed.holder

    def may_write(self) -> bool:
        """Whether a write that is sent now is over before anybody else can lead."""
        return self._standing is Standing.LEADING and self._left_s() > self._settings.request_timeout_s

    def step(self) -> None:
        """Ask for the lease, or renew it. Failures of the API are waited out."""
        if self._standing is not Standing.LOST:
            self.trouble = ""
        try:
            if self._standing is Standing.STANDBY:
                self._contend()
            elif self._standing in _HOLDING:
                self._keep()
        except ApiError as err:
            self.trouble = str(err)
            log.event(_LOG, log.WARNING, "the lease could not be read or written", standing=self.standing.value, error=err)

    def next_wait_s(self) -> float:
        """Seconds until the next step: contenders drift apart, a leader is never late for its own deadline."""
        retry_s = self._settings.retry_s
        if self._standing is Standing.STANDBY:
            return retry_s * (1 + self._rng.random() * MAX_JITTER)
        if self._standing not in _HOLDING:
            return 0.0
        now_s = self._clock()
        waits_s = [retry_s, self._renewed_s + self._settings.renew_s - now_s]
        if self._standing is Standing.TAKING_OVER:
            waits_s.append(self._writes_from_s - now_s)
        return max(0.0, min(waits_s))

    def release(self) -> None:
        """Give the lease back: for a process that writes nothing any more. A failure is logged, the lease then just ends.

        One that was still taking over keeps it until it ends: the next one must wait for the holder before us as well.
        """
        was = self.standing
        if was is Standing.LOST:
            return
        self._standing = Standing.RELEASED
        if was is not Standing.LEADING:
            return
        try:
            self._leases.replace(build_released(self._lease, self._wall()))
            log.event(_LOG, log.INFO, "released the lease", lease=self._settings.name)
        except ApiError as err:
            log.event(_LOG, log.WARNING, "the lease could not be released; it ends by itself", error=err)

    def _left_s(self) -> float:
        return self._renewed_s + self._settings.lease_s - self._clock()

    def _contend(self) -> None:
        try:
            lease = self._leases.read()
        except NotFound:
            self._take(build_first_lease(self._settings, self._wall()), self._settings.takeover_wait_s)
            return
        self._observe(lease)
        holder = lease.spec.holder_identity
        if not holder:
            self._take(lease, 0.0)
        elif holder == self._settings.identity and not self._has_tried:
            # our pod's container before: it is gone, its requests may not be
            self._take(lease, self._settings.request_timeout_s)
        elif holder == self._settings.identity or self._has_ended(lease):
            self._take(lease, self._settings.takeover_wait_s)

    def _observe(self, lease: Lease) -> None:
        if self._observed.version != lease.metadata.resource_version:
            self._observed = _Observed(lease.metadata.resource_version, lease.spec.holder_identity, self._clock())

    def _has_ended(self, lease: Lease) -> bool:
        """The record has not changed for the time that its holder claims."""
        duration_s = lease.spec.lease_duration_seconds or self._settings.lease_s
        return self._clock() >= self._observed.since_s + duration_s

    def _take(self, lease: Lease, wait_s: float) -> None:
        self._has_tried = True
        sent_s = self._clock()
        try:
            if lease.metadata.resource_version:
                taken = self._leases.replace(build_taken(lease, self._settings, self._wall()))
            else:
                taken = self._leases.create(lease)
        except Conflict:
            return  # somebody was quicker; the next step reads who
        self._note_renewed(taken, sent_s)
        self._writes_from_s = self._clock() + wait_s
        self._standing = Standing.TAKING_OVER
        log.event(_LOG, log.INFO, "took the lease", lease=self._settings.name, first_write_in_s=round(wait_s, 1))
        self._lead_when_due()

    def _lead_when_due(self) -> None:
        if self._standing is Standing.TAKING_OVER and self._clock() >= self._writes_from_s:
            self._standing = Standing.LEADING

    def _keep(self) -> None:
        late_s = self._clock() - self._renewed_s
        if late_s >= self._settings.renew_s:
            self._lose(f"it was not renewed for {late_s:.1f} s")
            return
        try:
            self._renew(self._lease)
        except (Conflict, NotFound):
            self._renew_again()
        self._lead_when_due()

    def _renew(self, lease: Lease) -> None:
        sent_s = self._clock()
        self._note_renewed(self._leases.replace(build_renewed(lease, self._wall())), sent_s)

    def _renew_again(self) -> None:
        """Somebody wrote the lease: a label by an administrator, our own request that was thought lost, or another holder."""
        try:
            lease = self._leases.read()
        except NotFound:
            self._lose("it was deleted")
            return
        self._observe(lease)
        if lease.spec.holder_identity != self._settings.identity:
            self._lose(f"{lease.spec.holder_identity or 'nobody'} holds it now")
            return
        self._lease = lease
        self._renew(lease)

    def _note_renewed(self, lease: Lease, sent_s: float) -> None:
        self._lease, self._renewed_s = lease, sent_s
        self._observe(lease)

    def _lose(self, why: str) -> None:
        self._standing = Standing.LOST
        self.trouble = f"lost the lease {self._settings.namespace}/{self._settings.name}: {why}"
        log.event(_LOG, log.ERROR, "lost the lease", lease=self._settings.name, why=why)
