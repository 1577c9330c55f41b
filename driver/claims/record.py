"""A claim's record as a value, and its form on disk. Pure.

On disk it is ``{"sha256": "<hex>", "record": {"version": 1, "state": "PrepareCompleted", ...}}``. The hash is over the bytes
of ``record`` as they stand in the file, never over a value written again: a later version's new fields must not make an old
file corrupt (B08). Keys that this version does not know survive a rewrite. ``version`` is raised only when an old reader
would misread the file; new keys alone do not raise it.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from driver.claims import precedence
from driver.claims.model import ClaimRef, PreparedDevice
from driver.claims.plan import ClaimPlan, PlannedDevice
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName
from driver.topology.model import Gpu

VERSION = 1
RECORD_MAX_BYTES = 256 * 1024

_Name = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z", max_length=253)]
_Device = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", max_length=63)]
_Uid = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
_Text = Annotated[str, msgspec.Meta(max_length=253)]
_CdiIds = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=512)], ...], msgspec.Meta(min_length=1, max_length=8)]


class State(enum.Enum):
    """How far a claim has come. A record in any state holds its devices."""

    PREPARE_STARTED = "PrepareStarted"
    PREPARE_COMPLETED = "PrepareCompleted"
    UNPREPARE_STARTED = "UnprepareStarted"


class RecordInvalid(ValueError):
    """The bytes are no record that this version can read; the message says why."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of the parts of a record."""


class RecordedEpoch(_Part, frozen=True, kw_only=True):
    """What hardware facts hang on (R24). An unknown part is ``""`` and says nothing."""

    boot_id: _Text = ""
    driver_version: _Text = ""
    load_marker: _Text = ""


class RecordedDevice(_Part, frozen=True, kw_only=True):
    """One device of the plan, and what the kubelet was told of it."""

    request: _Text
    pool: _Name
    device: _Device
    uuid: _Text
    is_admin: bool = False
    share_id: _Uid | None = msgspec.field(name="shareID", default=None)
    cdi_device_ids: _CdiIds = msgspec.field(name="cdiDeviceIDs")
    """Never none: a container would start without its GPU."""


class ClaimRecord(_Part, frozen=True, kw_only=True):
    """Everything that answering again, repairing and unpreparing need: the plan, and the epoch it was carried out in."""

    version: int = 0
    state: State
    namespace: _Text
    name: _Text
    uid: _Uid
    allocation: _Text = ""
    pod_claim_name: _Text | None = None
    epoch: RecordedEpoch = RecordedEpoch()
    devices: Annotated[tuple[RecordedDevice, ...], msgspec.Meta(max_length=64)]

    def ref(self) -> ClaimRef:
        """Which claim this is."""
        return ClaimRef(namespace=self.namespace, name=self.name, uid=ClaimUID(self.uid))


def build_record(plan: ClaimPlan, epoch: RecordedEpoch, extra_ids: Mapping[str, CDIDeviceID]) -> ClaimRecord:
    """The record of a plan that is carried out.

    ``extra_ids`` (base request to metadata device) go to the first device of each request, as the contract has it.
    """
    devices = []
    waiting = dict(extra_ids)
    for device in plan.devices:
        extra = waiting.pop(precedence.base_request(device.request), None)
        devices.append(_record_device(device, () if extra is None else (extra,)))
    return ClaimRecord(
        version=VERSION,
        state=State.PREPARE_COMPLETED,
        namespace=plan.ref.namespace,
        name=plan.ref.name,
        uid=plan.ref.uid,
        allocation=plan.allocation,
        pod_claim_name=plan.pod_claim_name,
        epoch=epoch,
        devices=tuple(devices),
    )


def build_answer(record: ClaimRecord) -> tuple[PreparedDevice, ...]:
    """What the kubelet is told of a prepared claim: the same each time (B01)."""
    return tuple(
        PreparedDevice(
            requests=(precedence.base_request(device.request),),
            pool=PoolName(device.pool),
            device=DeviceName(device.device),
            cdi_device_ids=tuple(CDIDeviceID(text) for text in device.cdi_device_ids),
            share_id=device.share_id,
        )
        for device in record.devices
    )


def is_same_epoch(recorded: RecordedEpoch, now: RecordedEpoch) -> bool:
    """False once hardware facts are void. A part that either side does not know decides nothing (B12: stamped, not dropped)."""
    pairs = (
        (recorded.boot_id, now.boot_id),
        (recorded.driver_version, now.driver_version),
        (recorded.load_marker, now.load_marker),
    )
    return all(not then or not today or then == today for then, today in pairs)


def is_known(epoch: RecordedEpoch) -> bool:
    """True when every part of the epoch is known."""
    return bool(epoch.boot_id and epoch.driver_version and epoch.load_marker)


def find_swapped(record: ClaimRecord, devices: Mapping[DeviceName, Gpu]) -> tuple[RecordedDevice, ...]:
    """The record's devices in whose slot another card sits now (R24). A device that is not there is not swapped."""
    there = ((device, devices.get(DeviceName(device.device))) for device in record.devices)
    return tuple(device for device, gpu in there if gpu is not None and gpu.reading.uuid != device.uuid)


def encode_record(record: ClaimRecord, onto: Mapping[str, Any] | None = None) -> bytes:
    """The file's bytes. Keys of ``onto`` (an earlier body) that this version does not know are kept.

    Raises:
        RecordInvalid: nobody could read it again. A record that is unreadable blocks every device of the node, so none is made.
    """
    body = encode_body(record, onto)
    decode_body(body)
    return b'{"sha256":"%s","record":%s}\n' % (hashlib.sha256(body).hexdigest().encode(), body)


def encode_body(record: ClaimRecord, onto: Mapping[str, Any] | None = None) -> bytes:
    """The record alone, as it also stands in the annotation of the claim's CDI file."""
    if onto is None:
        return msgspec.json.encode(record)
    return msgspec.json.encode(_merge(record, onto))


def decode_record(data: bytes) -> tuple[ClaimRecord, Mapping[str, Any]]:
    """A file's bytes as a record, and the body as it stands for ``encode_record``'s ``onto``.

    Raises:
        RecordInvalid: too long, no JSON, another hash, a later version, a missing or malformed field.
    """
    if len(data) > RECORD_MAX_BYTES:
        raise RecordInvalid(f"{len(data)} bytes are too many, at most {RECORD_MAX_BYTES}")
    try:
        outer = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError, ValueError) as err:
        raise RecordInvalid(str(err)) from err
    body = bytes(outer.record)
    if hashlib.sha256(body).hexdigest() != outer.sha256:
        raise RecordInvalid("the hash does not fit the content")
    return decode_body(body)


def decode_body(body: bytes) -> tuple[ClaimRecord, Mapping[str, Any]]:
    """``decode_record`` for the record alone."""
    if len(body) > RECORD_MAX_BYTES:
        raise RecordInvalid(f"{len(body)} bytes are too many, at most {RECORD_MAX_BYTES}")
    try:
        whole = msgspec.json.decode(body, type=dict[str, Any])
        record = msgspec.convert(whole, type=ClaimRecord)
    except (msgspec.MsgspecError, RecursionError, ValueError) as err:
        raise RecordInvalid(str(err)) from err
    if not 0 <= record.version <= VERSION:
        raise RecordInvalid(f"version {record.version} is of a later driver, this one reads up to {VERSION}")
    return record, whole


class _File(msgspec.Struct, frozen=True):
    sha256: str
    record: msgspec.Raw


def _record_device(device: PlannedDevice, extra: Iterable[CDIDeviceID]) -> RecordedDevice:
    return RecordedDevice(
        request=device.request,
        pool=device.pool,
        device=device.device,
        uuid=device.uuid,
        is_admin=device.is_admin,
        share_id=device.share_id,
        cdi_device_ids=(device.cdi_device_id, *extra),
    )


def _merge(record: ClaimRecord, onto: Mapping[str, Any]) -> dict[str, Any]:
    merged = _add_unknown(msgspec.to_builtins(record), onto, ClaimRecord)
    earlier = onto.get("devices")
    if isinstance(earlier, list) and len(earlier) == len(record.devices):
        pairs = zip(merged["devices"], earlier, strict=True)
        merged["devices"] = [
            _add_unknown(new, old, RecordedDevice) if old.get("device") == new["device"] else new for new, old in pairs
        ]
    return merged


def _add_unknown(new: dict[str, Any], old: Mapping[str, Any], known: type[msgspec.Struct]) -> dict[str, Any]:
    names = known.__struct_encode_fields__
    return {**{key: value for key, value in old.items() if key not in names}, **new}
