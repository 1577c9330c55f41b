"""What the kubelet asks and is answered, in no version's words, and how long an answer may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from driver.errors import DriverError
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """Which claim the kubelet means. For unprepare this is all there is: the object may be gone."""

    namespace: str
    name: str
    uid: ClaimUID

    def __str__(self) -> str:
        return f"claim {self.namespace}/{self.name} (uid {self.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One device of a prepared claim, as the kubelet is told."""

    requests: tuple[str, ...]
    """Top-level request names (``/subrequest`` cut off)."""
    pool: PoolName
    device: DeviceName
    cdi_device_ids: tuple[CDIDeviceID, ...]
    share_id: str | None = None


PrepareAnswers: TypeAlias = Mapping[ClaimUID, tuple[PreparedDevice, ...] | DriverError]
UnprepareAnswers: TypeAlias = Mapping[ClaimUID, DriverError | None]


class Deadline:
    """A moment on the monotonic clock after which nobody listens to the answer any more."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._at - time.monotonic())

    def is_past(self) -> bool:
        """True when the call that set this deadline is over."""
        return self.remaining_s() == 0.0


class CallContext(Protocol):
    """The call that a prepare or unprepare serves."""

    def deadline(self) -> Deadline:
        """When the call ends."""

    def is_active(self) -> bool:
        """False once the caller has gone: a prepare then must take no effect (design section 5, R8)."""


class ClaimService(Protocol):
    """What the kubelet's gRPC services stand on: one entry for each claim asked, whatever happens; safe to call again."""

    def prepare(self, claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        """Prepare each claim apart from the others and side by side; an error is that claim's own answer."""

    def unprepare(self, claims: Sequence[ClaimRef], call: CallContext) -> UnprepareAnswers:
        """Release each claim from its record alone; a claim that is not known is success."""
