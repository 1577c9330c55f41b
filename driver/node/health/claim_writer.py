"""Tells claims how their devices are, behind everybody's back: one thread, asleep while nothing is wrong.

Prepare and the passes wait for none of this. A server that is down is asked again ever more seldom, for one claim; a right that
is missing, minutes later. What is written follows from the records and the GPUs' health alone, so that nothing is kept on disk.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from driver import log
from driver.api.claim_status_v1 import DeviceStatus, ReportedClaim
from driver.api.meta_v1 import encode_time
from driver.claims.model import ClaimRef
from driver.claims.record import ClaimRecord
from driver.errors import ApiError, Conflict, DriverError, Forbidden, Invalid, NotFound
from driver.kube.backoff import Backoff
from driver.node.health.claim_book import ClaimHealthBook, build_wanted
from driver.node.health.claim_conditions import Change, Verdicts, plan_report
from driver.resourceslice.diff import PoolIdentity

_LOG = log.logger(__name__)

LOOK_S = 30.0
"""While a device is ill: how often it is looked whether a claim got it since. Reads the records' folder, asks no server."""
REST_S = 0.2
"""After each claim."""
CONFLICT_S = 1.0
REFUSED_S = 600.0
"""After the server found fault with what was written into one claim."""
FORBIDDEN_S = 300.0
"""After the server forbade something: of this claim, by a policy or because it is another node's by now; or of all."""
MISSING_AFTER = 3
"""So many claims in a row that were forbidden for the first time: a right is missing, and the others need not be tried."""


class ClaimStatusApi(Protocol):
    """The claims at the API server. Everything raises ``ApiError``."""

    def read(self, ref: ClaimRef) -> ReportedClaim:
        """The claim of this namespace and name, whatever its uid."""

    def apply(self, claim: ReportedClaim, devices: Sequence[DeviceStatus]) -> ReportedClaim:
        """Say this of the claim's devices, if it is still as it was read; how it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPorts:
    """What it reaches out to."""

    pool: PoolIdentity
    api: ClaimStatusApi
    read_records: Callable[[], tuple[ClaimRecord, ...]]
    """Raises ``StateUnwritable``."""
    tell: Callable[[ReportedClaim, Sequence[Change]], None]
    """Tell the claim's users. Called once for each change."""
    read_now: Callable[[], datetime]
    """The time of day, in UTC."""
    leads: Callable[[], bool] = lambda: True
    """Whether this instance is the one that publishes, or nobody is; another one writes nothing, and looks again later."""


class ClaimHealthWriter:
    """``note`` is called by any thread, ``step`` by its own or by a test."""

    def __init__(self, ports: WriterPorts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ports = ports
        self._clock = clock
        self._book = ClaimHealthBook()
        self._backoff = Backoff(base_s=1.0, cap_s=60.0, random=random.Random())  # noqa: S311  spreads load
        self._not_before_s = 0.0
        self._keeps_none = False
        self._forbidden_in_row = 0
        self._verdicts: Verdicts | None = None
        self._wake = threading.Condition()
        self._is_stopping = False
        self._is_woken = False
        self._thread = threading.Thread(target=self._run, name="claim-health", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def note(self, verdicts: Verdicts) -> None:
        """So the devices are now. Returns at once."""
        with self._wake:
            if verdicts == self._verdicts:
                return
            self._verdicts = verdicts
            self._is_woken = True
            self._wake.notify_all()

    def stop(self) -> None:
        """Write no more."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify_all()

    def step(self) -> float | None:
        """Look at one claim at most; seconds until the next step, None: until something changes.

        Raises:
            DriverError: the records cannot be read.
        """
        with self._wake:
            self._is_woken = False
            verdicts = self._verdicts
        if verdicts is None or self._keeps_none:
            return None
        if not self._ports.leads():
            self._book = ClaimHealthBook()  # what the other one writes is not known
            return LOOK_S
        now_s = self._clock()
        open_ = self._book.list_open(self._ports.read_records(), verdicts)
        if open_ and now_s < self._not_before_s:
            return self._not_before_s - now_s
        due = self._book.list_due(open_, now_s)
        if due:
            self._serve(due[0], verdicts)
            return REST_S
        wait_s = self._book.count_wait_s(open_, now_s)
        if any(verdicts.values()):
            return LOOK_S if wait_s is None else min(wait_s, LOOK_S)
        return wait_s

    def _serve(self, record: ClaimRecord, verdicts: Verdicts) -> None:
        """Look at a claim, and write into it what it does not say yet."""
        now_s = self._clock()
        try:
            is_written = self._report(record, verdicts)
        except NotFound:
            is_written = False
        except Conflict:
            self._book.put_off(record.uid, now_s + CONFLICT_S)
            return
        except Forbidden as err:
            self._note_forbidden(record, err, now_s + FORBIDDEN_S)
            return
        except Invalid as err:  # so the server says, too, that the claim is another node's
            if self._book.put_off(record.uid, now_s + REFUSED_S, is_refused=True):
                log.event(_LOG, log.WARNING, "a claim may not be told of its devices' health", claim=record.ref(), error=err)
            return
        except ApiError as err:
            self._rest(now_s + self._backoff.next_wait_s(at_least_s=err.retry_after_s), err)
            return
        self._backoff.reset()
        self._forbidden_in_row = 0
        self._book.note_settled(record.uid, build_wanted(record, verdicts), now_s, is_written=is_written)

    def _report(self, record: ClaimRecord, verdicts: Verdicts) -> bool:
        """Whether something was written."""
        claim = self._ports.api.read(record.ref())
        if claim.metadata.uid != record.uid:
            return False
        report = plan_report(claim, verdicts, self._ports.pool, now=encode_time(self._ports.read_now()))
        if report is None:
            return False
        if self._book.is_news(record.uid, report.changes):
            self._ports.tell(claim, report.changes)
        stored = self._ports.api.apply(claim, report.devices)
        if not stored.status.devices:
            self._keeps_none = True
            log.event(
                _LOG, log.INFO, "this API server keeps no status of devices in claims; none is written", claim=record.ref()
            )
        return True

    def _note_forbidden(self, record: ClaimRecord, err: ApiError, until_s: float) -> None:
        if not self._book.put_off(record.uid, until_s, is_refused=True):
            return
        self._forbidden_in_row += 1
        if self._forbidden_in_row >= MISSING_AFTER:
            self._rest(until_s, err)
        else:
            log.event(_LOG, log.WARNING, "a claim may not be told of its devices' health", claim=record.ref(), error=err)

    def _rest(self, until_s: float, err: ApiError) -> None:
        self._not_before_s = until_s
        log.event(
            _LOG,
            log.WARNING,
            "claims cannot be told of their devices' health now; trying again",
            in_s=round(until_s - self._clock()),
            error=err,
        )

    def _run(self) -> None:
        while True:
            try:
                wait_s = self.step()
            except DriverError as err:
                log.event(_LOG, log.WARNING, "the claims' records cannot be read now; trying again", error=err)
                wait_s = LOOK_S
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: the next change must be told
                log.event(_LOG, log.ERROR, "telling claims of their devices' health failed", error=err, exc=err)
                wait_s = LOOK_S
            with self._wake:
                least_s = min(wait_s, REST_S) if wait_s is not None else 0.0
                self._wake.wait_for(lambda: self._is_stopping, least_s)
                rest_s = None if wait_s is None else wait_s - least_s
                self._wake.wait_for(lambda: self._is_stopping or self._is_woken, rest_s)
                if self._is_stopping:
                    return
