"""Records whose MIG devices have been made, or made anew by somebody else. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from driver.claims.mig_record import RecordedMig
from driver.claims.record import ClaimRecord, RecordedDevice
from driver.names import DeviceName
from driver.topology.mig import MadeInstance, NodeDevice, Partition, find_device


def add_made(record: ClaimRecord, made: Mapping[RecordedMig, MadeInstance]) -> ClaimRecord:
    """The record of a claim whose MIG devices have been made."""

    def add(device: RecordedDevice) -> RecordedDevice:
        instance = made.get(device.mig) if device.mig is not None else None
        return device if instance is None else _with_instance(device, instance)

    return msgspec.structs.replace(record, devices=tuple(add(device) for device in record.devices))


def renew_instances(record: ClaimRecord, devices: Mapping[DeviceName, NodeDevice]) -> ClaimRecord:
    """The record with MIG devices as they are now: somebody else may have made one anew at the same place (B46)."""
    return msgspec.structs.replace(record, devices=tuple(_renew(device, devices) for device in record.devices))


def _renew(device: RecordedDevice, devices: Mapping[DeviceName, NodeDevice]) -> RecordedDevice:
    now = find_device(devices, device.device) if device.mig is not None and not device.mig.is_own else None
    made = now.made if isinstance(now, Partition) else None
    return device if made is None else _with_instance(device, made)


def _with_instance(device: RecordedDevice, made: MadeInstance) -> RecordedDevice:
    if device.mig is None:
        return device
    mig = msgspec.structs.replace(
        device.mig, gpu_instance_id=made.gpu_instance_id, compute_instance_id=made.compute_instance_id
    )
    return msgspec.structs.replace(device, mig=mig, uuid=made.uuid)
