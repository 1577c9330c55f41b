"""What was published before, against what the node has now.

A device is never just dropped: a claim may hold it, and a running pod's device that vanishes from the slices can be neither
seen nor evicted. It stays with its last facts and a taint until nobody holds it (R23).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import (
    DEVICE_ATTRIBUTE_MAX_VALUE_BYTES,
    DEVICE_MAX_DOMAIN_BYTES,
    DEVICE_MAX_ID_BYTES,
    RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE,
    Attribute,
    Device,
    Taint,
)
from driver.api.versions import parse_version
from driver.names import DeviceName
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_fence_taints
from driver.resourceslice.shares import share_device
from driver.topology.mig_names import MigIdentity, parse_mig_name
from driver.topology.names import parse_device_name

LOST_TAINT_KEY = "gpu.nvidia.com/gpu-lost"
INVENTORY_VERSION = 1
INVENTORY_MAX_BYTES = 4 * 1024 * 1024
INVENTORY_MAX_DEVICES = 4096

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_ID = rf"[A-Za-z_][A-Za-z0-9_]{{0,{DEVICE_MAX_ID_BYTES - 1}}}"
_KEY = re.compile(rf"(?:(?=[^/]{{1,{DEVICE_MAX_DOMAIN_BYTES}}}/){_LABEL}(?:\.{_LABEL})*/)?{_ID}", re.ASCII)

_STANDARD_FORMS = {
    "resource.kubernetes.io/pciBusID": re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"),
    "resource.kubernetes.io/pcieRoot": re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}"),
    "resource.kubernetes.io/numaNode": re.compile(r"[0-9]+"),
}
"""Other drivers' claims are matched with ours by these: a damaged one would pair a GPU with the wrong device."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The devices as last published. On disk as JSON.

    Without taints, what they draw (a lost one draws nothing), and the policies of shares (which follow from the memory).
    """

    version: int = INVENTORY_VERSION
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedInventory:
    """What a text holds. Where ``fault`` says why it is unusable, the inventory is empty and the text is to be set aside."""

    inventory: Inventory
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReplaced:
    """Another card stands in the slot: the name is the same, and nothing that was known of the old one holds (R24)."""

    name: DeviceName
    old_uuid: str
    new_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedDevices:
    """What to publish, what to remember, and what is worth saying."""

    devices: tuple[Device, ...]
    inventory: Inventory
    lost: tuple[DeviceName, ...]
    """Published with the taint: the node does not have them now, and somebody holds them or may."""
    withdrawn: tuple[DeviceName, ...]
    """No longer published: the node does not have them, and nobody holds them."""
    replaced: tuple[GpuReplaced, ...]


def merge_inventory(
    before: Inventory, now: Sequence[Device], *, held: Collection[str] | None, allocator: Allocator
) -> MergedDevices:
    """``now`` in its order, then what was published before and is missing from it.

    Args:
        before: what was remembered.
        now: what the node can give out, as ``build_devices`` made it.
        held: names of the devices that a record or an allocation holds; None while that cannot be known, and then all stay.
        allocator: who may allocate; a lost device says it too, and stays fenced.
    """
    present = {device.name for device in now}
    missing = [device for device in before.devices if device.name not in present]
    stays = [device for device in missing if held is None or device.name in held]
    devices = (*now, *(_as_lost(device, allocator) for device in stays))
    known = [_to_remember(device) for device in devices]
    return MergedDevices(
        devices=devices,
        inventory=Inventory(devices=tuple(known)),
        lost=tuple(DeviceName(device.name) for device in stays),
        withdrawn=tuple(DeviceName(device.name) for device in missing if device not in stays),
        replaced=_find_replaced(before, now),
    )


def read_mig_names(inventory: Inventory) -> dict[MigIdentity, DeviceName]:
    """What MIG devices are called in the slices: they keep their names when the driver renames their profiles (R2)."""
    named = ((parse_mig_name(device.name), DeviceName(device.name)) for device in inventory.devices)
    return {identity: name for identity, name in named if identity is not None}


def encode_inventory(inventory: Inventory) -> bytes:
    """The JSON text of an inventory; the same bytes for the same devices."""
    return msgspec.json.format(msgspec.json.encode(inventory), indent=1)


def decode_inventory(text: bytes) -> DecodedInventory:
    """Reads what ``encode_inventory`` wrote, and trusts nothing: one illegal device would cost the node its whole slice."""
    if len(text) > INVENTORY_MAX_BYTES:
        return _unusable(f"{len(text)} bytes are more than {INVENTORY_MAX_BYTES}")
    try:
        inventory = msgspec.json.decode(text, type=Inventory)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        return _unusable(str(err))
    if inventory.version != INVENTORY_VERSION:
        return _unusable(f"version {inventory.version} is not {INVENTORY_VERSION}")
    if len(inventory.devices) > INVENTORY_MAX_DEVICES:
        return _unusable(f"{len(inventory.devices)} devices are more than {INVENTORY_MAX_DEVICES}")
    names = {device.name for device in inventory.devices}
    if len(names) != len(inventory.devices):
        return _unusable("a device occurs twice")
    fault = next((fault for device in inventory.devices if (fault := _device_fault(device)) is not None), None)
    return DecodedInventory(inventory=inventory) if fault is None else _unusable(fault)


def _unusable(fault: str) -> DecodedInventory:
    return DecodedInventory(inventory=Inventory(), fault=fault)


def _device_fault(device: Device) -> str | None:
    """Why this device may not be published, if so."""
    try:
        parse_device_name(device.name)
        for capacity in device.capacity.values():
            parse_quantity(capacity.value)
    except ValueError as err:
        return str(err)
    if device.taints or device.consumes_counters or any(capacity.request_policy for capacity in device.capacity.values()):
        return f"{device.name} has parts that are never remembered"
    if "allocator" not in device.attributes:
        return f"{device.name} says nothing of its allocator, so it was not written here"
    if len(device.attributes) + len(device.capacity) > RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE:
        return f"{device.name} has too many attributes"
    bad_key = next((key for key in (*device.attributes, *device.capacity) if _KEY.fullmatch(key) is None), None)
    if bad_key is not None:
        return f"{device.name} has an attribute {bad_key[:80]!r}"
    bad_value = next((key for key, value in device.attributes.items() if not _is_legal(key, value)), None)
    return f"{device.name} has an illegal value of {bad_value}" if bad_value is not None else None


def _is_legal(key: str, attribute: Attribute) -> bool:
    values = [value for value in (attribute.int_, attribute.bool_, attribute.string, attribute.version) if value is not None]
    if len(values) != 1:
        return False
    value = values[0]
    if isinstance(value, str) and not 0 < len(value.encode(errors="replace")) <= DEVICE_ATTRIBUTE_MAX_VALUE_BYTES:
        return False
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return False
    form = _STANDARD_FORMS.get(key)
    if form is not None and form.fullmatch(str(value)) is None:
        return False
    return attribute.version is None or parse_version(attribute.version) == attribute.version


def _as_lost(device: Device, allocator: Allocator) -> Device:
    taint = Taint(key=LOST_TAINT_KEY, effect="NoSchedule")
    device = (share_device(device) if device.allow_multiple_allocations else None) or device
    attributes = device.attributes | {"allocator": Attribute(string=allocator.value)}
    return msgspec.structs.replace(device, attributes=attributes, taints=(*build_fence_taints(allocator), taint))


def _to_remember(device: Device) -> Device:
    capacity = {name: msgspec.structs.replace(each, request_policy=None) for name, each in device.capacity.items()}
    return msgspec.structs.replace(device, taints=(), consumes_counters=(), capacity=capacity)


def _find_replaced(before: Inventory, now: Sequence[Device]) -> tuple[GpuReplaced, ...]:
    old_uuids = {device.name: _uuid(device) for device in before.devices}
    pairs = ((device.name, old_uuids.get(device.name), _uuid(device)) for device in now)
    return tuple(
        GpuReplaced(name=DeviceName(name), old_uuid=old, new_uuid=new)
        for name, old, new in pairs
        if old is not None and new is not None and old != new
    )


def _uuid(device: Device) -> str | None:
    attribute = device.attributes.get("uuid")
    return attribute.string if attribute is not None else None
