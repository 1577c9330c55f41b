"""Claims that have nothing here any more are released, slowly: their object is gone, or is not allocated on this node.

The kubelet does this itself; what is left are claims that it forgot (B04, B05). Releasing too early would give a GPU away under
a running container, so three things must agree: the API server says so in two passes ten minutes apart, the kubelet's own
state file does not know the uid all the while, and both could really be asked (R10). A kubelet that lost its state file never
asks for the unprepare of what it had prepared before; a named claim outlives its pods, and would hold its devices for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from driver import files, log
from driver.claims.effects import ClaimReader
from driver.claims.model import ClaimRef, Deadline
from driver.claims.store import Stored
from driver.claims.work import ClaimWork
from driver.errors import ApiError, ClaimError, ClaimNotFound
from driver.names import ClaimUID

_LOG = log.logger(__name__)

GONE_FOR_S = 600.0
KUBELET_STATE_MAX_BYTES = 64 * 1024 * 1024
_LOCK_S = 5.0


@dataclass(slots=True)
class Cleanup:
    """Call ``run_pass`` every few minutes. ``kubelet_state`` is ``<kubelet root>/dra_manager_state``."""

    work: ClaimWork
    reader: ClaimReader
    kubelet_state: Path
    now_s: Callable[[], float] = time.monotonic
    _gone_since: dict[ClaimUID, float] = field(default_factory=dict)

    def run_pass(self) -> tuple[ClaimUID, ...]:
        """Look at every record once; the claims that were released.

        Raises:
            StateUnwritable: the records cannot be read.
        """
        self.work.make_folders()
        self.work.ended.cut()
        state = self._read_kubelet_state()
        if state is None:
            return ()
        # Claims that the kubelet knows are not asked about: with thousands of nodes that would be a load.
        forgotten = [ref for ref in self._list_refs() if ref.uid.encode() not in state]
        gone = [ref for ref in forgotten if self._is_gone(ref)]
        now_s = self.now_s()
        self._gone_since = {ref.uid: self._gone_since.get(ref.uid, now_s) for ref in gone}
        due = [ref for ref in gone if now_s - self._gone_since[ref.uid] >= GONE_FOR_S]
        return tuple(ref.uid for ref in due if self._is_still_forgotten(ref) and self._release(ref))

    def _list_refs(self) -> list[ClaimRef]:
        """The claims with a record; of a corrupt one, as its CDI file has it."""
        refs = []
        for uid, found in self.work.index.read_all().items():
            stored = found if isinstance(found, Stored) else self.work.carrier.read_granted(uid)
            if stored is None:
                log.event(_LOG, log.WARNING, "a corrupt record cannot be looked up in the API server", claim_uid=uid)
                continue
            refs.append(stored.record.ref())
        return refs

    def _is_gone(self, ref: ClaimRef) -> bool:
        """True when the API server says that no claim of this name and uid has devices here; False when it cannot be asked."""
        try:
            claim = self.reader.read_claim(ref)
        except ClaimNotFound:
            return True
        except (ApiError, ClaimError) as err:
            log.event(_LOG, log.WARNING, "claims are kept: the API server cannot be asked", claim=str(ref), error=err)
            return False
        here = self.work.identity
        results = () if claim.status.allocation is None else claim.status.allocation.devices.results
        return claim.metadata.uid != ref.uid or all((each.driver, each.pool) != (here.driver, here.pool) for each in results)

    def _is_still_forgotten(self, ref: ClaimRef) -> bool:
        """The kubelet may have taken the claim up again while the API server was asked."""
        state = self._read_kubelet_state()
        return state is not None and ref.uid.encode() not in state

    def _read_kubelet_state(self) -> bytes | None:
        """The bytes of the kubelet's file, of which no format is assumed; None when it cannot be read whole."""
        try:
            state = files.read_bounded(self.kubelet_state, KUBELET_STATE_MAX_BYTES)
        except OSError as err:
            log.event(_LOG, log.WARNING, "claims are kept: the kubelet's state is unreadable", error=err)
            return None
        if len(state) > KUBELET_STATE_MAX_BYTES:
            log.event(_LOG, log.WARNING, "claims are kept: the kubelet's state is too long", path=self.kubelet_state)
            return None
        return state

    def _release(self, ref: ClaimRef) -> bool:
        try:
            deadline = Deadline(_LOCK_S)
            with self.work.locks.hold_claim(ref, deadline, "cleanup:begin") as hold:
                self.work.unprepare_held(ref, deadline, hold)
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "a claim that is gone could not be released now", claim=str(ref), error=err)
            return False
        log.event(_LOG, log.INFO, "released a claim that is gone, or has nothing here any more", claim=str(ref))
        return True
