"""What drivers say of a claim's devices: ``status.devices``, and as much of the claim as is needed to say it."""

from __future__ import annotations

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import GROUP_VERSION, Allocation, Consumer, Wire

REASON_MAX = 128
"""We cut here; the server takes 1024."""
MESSAGE_MAX_BYTES = 4096
"""We cut here; the server takes 32 KiB."""


class Condition(Wire, frozen=True, kw_only=True):
    """A condition of a device."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class DeviceStatus(Wire, frozen=True, kw_only=True):
    """One entry: of a device that the claim was allocated. ``data`` and ``networkData`` are not ours to read or write."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[Condition, ...] = ()


class ReportedStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


class ReportedClaim(Wire, frozen=True, kw_only=True):
    """A claim as somebody reads it who reports about its devices."""

    metadata: ObjectMeta
    status: ReportedStatus = ReportedStatus()


class AppliedStatus(Wire, frozen=True, kw_only=True):
    """All that one field manager says of the claim."""

    devices: tuple[DeviceStatus, ...]


class AppliedClaim(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The body of a server-side apply, which names its kind."""

    api_version: str = GROUP_VERSION
    kind: str = "ResourceClaim"
    metadata: ObjectMeta
    status: AppliedStatus
