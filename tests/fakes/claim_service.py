"""A ``ClaimService`` that prepares nothing: one device a claim, and whatever else a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from driver.claims.model import CallContext, ClaimRef, PrepareAnswers, PreparedDevice, UnprepareAnswers
from driver.errors import ClaimBusy, DriverError
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName

POOL = PoolName("node-a")


def make_claim(number: int = 1, *, name: str | None = None) -> ClaimRef:
    """The claim ``default/claim-<number>``, with a uid of its own."""
    return ClaimRef(namespace="default", name=name or f"claim-{number}", uid=make_uid(number))


def make_uid(number: int) -> ClaimUID:
    """A uid for each number."""
    return ClaimUID(f"00000000-0000-4000-8000-{number:012x}")


def build_devices(uid: ClaimUID) -> tuple[PreparedDevice, ...]:
    """What this service gives to a claim: always the same."""
    cdi_id = CDIDeviceID(f"k8s.gpu.nvidia.com/claim={uid}-gpu-0")
    return (PreparedDevice(requests=("gpu",), pool=POOL, device=DeviceName("gpu-0"), cdi_device_ids=(cdi_id,)),)


class ScriptedClaimService:
    """Prepares and releases at once; ``answers`` and ``prepare_with`` change what it says."""

    def __init__(
        self,
        *,
        answers: Mapping[ClaimUID, tuple[PreparedDevice, ...] | DriverError] | None = None,
        prepare_with: Callable[[Sequence[ClaimRef], CallContext], PrepareAnswers] | None = None,
    ) -> None:
        self._answers = answers or {}
        self._prepare_with = prepare_with
        self._lock = threading.Lock()
        self.prepared: set[ClaimUID] = set()
        self.asked: list[tuple[ClaimRef, ...]] = []
        self.deadlines_s: list[float] = []

    def prepare(self, claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        """The scripted answer of each claim, else a device."""
        with self._lock:
            self.asked.append(tuple(claims))
            self.deadlines_s.append(call.deadline().remaining_s())
        if self._prepare_with is not None:
            return self._prepare_with(claims, call)
        with self._lock:
            self.prepared |= {claim.uid for claim in claims if claim.uid not in self._answers}
        return {claim.uid: self._answers.get(claim.uid, build_devices(claim.uid)) for claim in claims}

    def unprepare(self, claims: Sequence[ClaimRef], call: CallContext) -> UnprepareAnswers:
        """Released; a scripted error stays one."""
        with self._lock:
            self.asked.append(tuple(claims))
            self.prepared -= {claim.uid for claim in claims}
        return {claim.uid: _only_error(self._answers.get(claim.uid)) for claim in claims}


class SlowClaimService(ScriptedClaimService):
    """A prepare that goes on until ``finish`` is set, or until its call is over, and then takes no effect (R8)."""

    def __init__(self) -> None:
        super().__init__(prepare_with=self._prepare_slowly)
        self.finish = threading.Event()
        self.begun = threading.Semaphore(0)
        self.rolled_back: set[ClaimUID] = set()

    def _prepare_slowly(self, claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        uids = {claim.uid for claim in claims}
        self.begun.release()
        while not self.finish.wait(0.01):
            if not call.is_active() or call.deadline().is_past():
                self.rolled_back |= uids
                return {uid: ClaimBusy("the call ended first; undone") for uid in uids}
        self.prepared |= uids
        return {uid: build_devices(uid) for uid in uids}


def _only_error(answer: tuple[PreparedDevice, ...] | DriverError | None) -> DriverError | None:
    return answer if isinstance(answer, DriverError) else None
