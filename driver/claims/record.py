"""A claim's record as a value, and its form on disk. Pure.

On disk it is ``{"sha256": "<hex>", "record": {"version": 1, "state": "PrepareCompleted", ...}}``. The hash is over the bytes
of ``record`` as they stand in the file, never over a value written again: a later version's new fields must not make an old
file corrupt (B08). Keys that this version does not know survive a rewrite. ``version`` is raised only when an old reader
would misread the file; new keys alone do not raise it.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from driver.claims import precedence
from driver.claims.mig_record import RecordedMig, build_recorded_mig
from driver.claims.model import ClaimRef, PreparedDevice
from driver.claims.plan import ClaimPlan, PlannedDevice
from driver.claims.sharing_plan import DeviceSharing
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName
from driver.topology.mig import Footprint, NodeDevice, find_device, gpu_of

VERSION = 2
"""The latest that is read. Only records with MIG devices are written with it: an older driver would take these for GPUs."""
_PLAIN_VERSION = 1
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
    sharing: DeviceSharing | None = None
    consumed_bytes: int | None = None
    """Memory that the allocation gives to a share of a device."""
    mig: RecordedMig | None = None

    @property
    def gpu(self) -> DeviceName:
        """The card: the device itself, or the one that it is a part of."""
        return DeviceName(self.device if self.mig is None else self.mig.gpu)

    @property
    def card_uuid(self) -> str:
        """The card's own UUID."""
        return self.uuid if self.mig is None else self.mig.gpu_uuid

    @property
    def has_own_instance(self) -> bool:
        """Whether a MIG device was made for the claim."""
        return self.mig is not None and self.mig.is_own

    @property
    def footprint(self) -> Footprint:
        """What no other claim may have at the same time."""
        return Footprint(gpu=self.gpu) if self.mig is None else self.mig.footprint


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

    def own_instances(self) -> tuple[RecordedMig, ...]:
        """The MIG devices that are made for the claim and removed with it."""
        return tuple(device.mig for device in self.devices if device.mig is not None and device.has_own_instance)

    def is_sharing(self) -> bool:
        """True where something is set on a GPU, or a daemon runs."""
        return any(device.sharing is not None for device in self.devices)


def build_record(plan: ClaimPlan, epoch: RecordedEpoch) -> ClaimRecord:
    """The record of a plan that is carried out."""
    return ClaimRecord(
        version=_PLAIN_VERSION if all(device.partition is None for device in plan.devices) else VERSION,
        state=State.PREPARE_COMPLETED,
        namespace=plan.ref.namespace,
        name=plan.ref.name,
        uid=plan.ref.uid,
        allocation=plan.allocation,
        pod_claim_name=plan.pod_claim_name,
        epoch=epoch,
        devices=tuple(_record_device(device) for device in plan.devices),
    )


def add_ids(record: ClaimRecord, extra_ids: Mapping[str, CDIDeviceID]) -> ClaimRecord:
    """With metadata devices, by base request: each goes to the first device of its request, as the contract has it."""
    waiting = dict(extra_ids)

    def add(device: RecordedDevice) -> RecordedDevice:
        extra = waiting.pop(precedence.base_request(device.request), None)
        ids = device.cdi_device_ids if extra is None else (*device.cdi_device_ids, extra)
        return msgspec.structs.replace(device, cdi_device_ids=ids)

    return msgspec.structs.replace(record, devices=tuple(add(device) for device in record.devices))


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


def find_swapped(record: ClaimRecord, devices: Mapping[DeviceName, NodeDevice]) -> tuple[RecordedDevice, ...]:
    """The record's devices in whose slot another card sits now (R24). A device that is not there is not swapped."""
    there = ((device, find_device(devices, device.device)) for device in record.devices)
    return tuple(device for device, now in there if now is not None and gpu_of(now).reading.uuid != device.card_uuid)


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


def _record_device(device: PlannedDevice) -> RecordedDevice:
    return RecordedDevice(
        request=device.request,
        pool=device.pool,
        device=device.device,
        uuid=device.uuid,
        is_admin=device.is_admin,
        share_id=device.share_id,
        cdi_device_ids=(device.cdi_device_id,),
        sharing=device.sharing,
        consumed_bytes=device.consumed_bytes,
        mig=None if device.partition is None else build_recorded_mig(device.partition),
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
