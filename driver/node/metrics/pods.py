"""Which pods use the claims that are prepared here: their names stand in ``status.reservedFor``.

A prepare reads the claim anyway, so most names cost no request. What is left is asked for in the background, once a scraper
has shown that somebody looks: claims that were prepared before this process began, and now and then those that several pods
may use. A claim that was made for a pod from a template never has another one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from driver import log
from driver.api.resource_v1 import ResourceClaim
from driver.claims.effects import ClaimReader
from driver.claims.model import ClaimRef
from driver.claims.record import ClaimRecord
from driver.errors import ApiError, ClaimError

_LOG = log.logger(__name__)

MOST_PODS = 8
"""Of one claim. A shared one may have 256, which would all be the same figures again."""
AGAIN_S = 60.0
MOST_AT_ONCE = 32
"""Claims that are asked for after one scrape: the rest after the next."""


class ClaimPods:
    """A ``ClaimReader`` that remembers the pods of each claim that it reads. Safe to use from several threads."""

    def __init__(
        self,
        reader: ClaimReader,
        *,
        clock: Callable[[], float] = time.monotonic,
        run_behind: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """``run_behind`` runs work while nobody waits: by default in a thread of its own."""
        self._reader = reader
        self._clock = clock
        self._run_behind = run_behind or _run_in_thread
        self._lock = threading.Lock()
        self._pods: dict[str, tuple[str, ...]] = {}
        self._asked_s: dict[str, float] = {}
        self._is_asking = False

    def read_claim(self, ref: ClaimRef) -> ResourceClaim:
        """``ClaimReader.read_claim``; what it raises is raised."""
        claim = self._reader.read_claim(ref)
        if claim.metadata.uid == ref.uid:
            self._note(ref.uid, claim)
        return claim

    def names(self, uid: str) -> tuple[str, ...]:
        """The pods of a claim, as far as they are known: sorted, at most ``MOST_PODS``."""
        with self._lock:
            return self._pods.get(uid, ())

    def follow(self, records: Sequence[ClaimRecord]) -> None:
        """These claims are held, and no others: forget those, and ask behind the caller's back for what may be stale."""
        held = {record.uid for record in records}
        now_s = self._clock()
        with self._lock:
            for uid in self._asked_s.keys() - held:
                self._pods.pop(uid, None)
                del self._asked_s[uid]
            due = [record.ref() for record in records if self._is_due(record, now_s)][:MOST_AT_ONCE]
            if not due or self._is_asking:
                return
            self._is_asking = True
        self._run_behind(lambda: self._ask(due))

    def _is_due(self, record: ClaimRecord, now_s: float) -> bool:
        asked_s = self._asked_s.get(record.uid)
        if asked_s is None:
            return True
        may_change = record.pod_claim_name is None or not self._pods.get(record.uid)
        return may_change and now_s - asked_s >= AGAIN_S

    def _note(self, uid: str, claim: ResourceClaim) -> None:
        names = sorted({each.name for each in claim.status.reserved_for if each.resource == "pods" and not each.api_group})
        with self._lock:
            self._pods[uid] = tuple(names[:MOST_PODS])
            self._asked_s[uid] = self._clock()

    def _ask(self, refs: Sequence[ClaimRef]) -> None:
        try:
            for ref in refs:
                with self._lock:
                    self._asked_s[ref.uid] = self._clock()  # a claim that cannot be read is not asked for at each scrape
                try:
                    self.read_claim(ref)
                except ClaimError as err:
                    log.event(_LOG, log.DEBUG, "the pods of a claim are not known", claim=str(ref), error=err)
        except ApiError as err:
            log.event(_LOG, log.DEBUG, "the pods of claims are not known: the API server does not answer", error=err)
        finally:
            with self._lock:
                self._is_asking = False


def _run_in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="claim-pods", daemon=True).start()
