"""Troubles as taints on the devices that they concern. Pure.

One taint a key: of several troubles of a kind the first counts, which is the oldest of the heaviest sort, so that younger ones
come and go without moving ``timeAdded``, from which eviction counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from driver.api.fence import ALLOCATOR_KEY, FENCE_EFFECT
from driver.api.meta_v1 import encode_time
from driver.api.resource_v1 import Device, Taint
from driver.health.model import Health, Instance, Kind, Trouble
from driver.nvml.library import Placement
from driver.topology.mig import Partition, is_overlap
from driver.topology.mig_names import parse_gpu_of_device, parse_mig_name
from driver.topology.names import gpu_device_name

KEY_PREFIX = "gpu.nvidia.com/"
AWAY_TAINT_KEY = "gpu.nvidia.com/driver-away"
MAX_TAINTS = 16
"""Of a device, from Kubernetes 1.35 on."""
MAX_TAINTS_BEFORE = 4

_ORDER = {"NoExecute": 0, "NoSchedule": 1, "None": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRules:
    """What the administrator wants, and what the API server takes."""

    evicts: frozenset[Kind] = frozenset()
    """Kinds whose pods are evicted; never those that only warn."""
    keeps_taints: bool = True
    """The server keeps taints at all. Where it does not, a device that is not to be given out is not published: there is no
    other way to keep kube-scheduler from it."""
    keeps_warnings: bool = True
    """The server takes the effect ``None``."""
    limit: int = MAX_TAINTS


def taint_devices(
    devices: Iterable[Device], health: Health, partitions: Mapping[str, Partition], rules: TaintRules
) -> tuple[Device, ...]:
    """The devices with what is wrong with each, beside the taints that they have.

    Args:
        devices: as they are to be published, lost ones too.
        health: of the node.
        partitions: the MIG devices among them, by name.
        rules: see there.
    """
    by_gpu: dict[str, list[Trouble]] = {}
    for trouble in health.troubles:
        by_gpu.setdefault(trouble.device, []).append(trouble)
    if not by_gpu:
        return tuple(devices)
    found = ((device, list_troubles(device.name, by_gpu, partitions)) for device in devices)
    if not rules.keeps_taints:
        return tuple(device for device, troubles in found if all(trouble.is_warning for trouble in troubles))
    return tuple(_taint(device, troubles, rules) for device, troubles in found)


def mark_away(devices: Iterable[Device], rules: TaintRules) -> tuple[Device, ...]:
    """The devices of a node whose driver has not answered for long: what runs goes on, and nothing new can be prepared.

    Where the server keeps no taints they stay as they are: no empty slice replaces a good one (B31).
    """
    if not rules.keeps_taints:
        return tuple(devices)
    taint = Taint(key=AWAY_TAINT_KEY, effect=FENCE_EFFECT)
    return tuple(
        msgspec.structs.replace(device, taints=(*device.taints, taint)) if len(device.taints) < rules.limit else device
        for device in devices
    )


def list_troubles(
    name: str, by_gpu: Mapping[str, Sequence[Trouble]], partitions: Mapping[str, Partition]
) -> tuple[Trouble, ...]:
    """The troubles that concern the device of this name, in their order."""
    pci = parse_gpu_of_device(name)
    own = () if pci is None else by_gpu.get(gpu_device_name(pci), ())
    concerns = _build_concern(name, partitions.get(name))
    return tuple(trouble for trouble in own if concerns(trouble))


def _build_concern(name: str, partition: Partition | None) -> Callable[[Trouble], bool]:
    """Whether a trouble of the device's GPU is the device's."""
    is_whole = parse_mig_name(name) is None

    def concerns(trouble: Trouble) -> bool:
        instance = trouble.instance
        if instance is None or is_whole:
            return True
        return partition is not None and _is_in(instance, partition)

    return concerns


def _is_in(instance: Instance, partition: Partition) -> bool:
    """Where the instance lay decides: numbers are given out again."""
    made = partition.made
    if instance.start is not None and instance.size is not None:
        if not is_overlap(partition.placement, Placement(start=instance.start, size=instance.size)):
            return False
        if made is None:
            return True
    if made is None or made.gpu_instance_id != instance.gpu_instance_id:
        return False
    return partition.compute is None or instance.compute_instance_id in (None, made.compute_instance_id)


def _taint(device: Device, troubles: Sequence[Trouble], rules: TaintRules) -> Device:
    taints: dict[str, Taint] = {}
    for trouble in troubles:
        taint = build_taint(trouble, rules)
        if taint.effect != "None" or rules.keeps_warnings:
            taints.setdefault(taint.key, taint)
    if not taints:
        return device
    kept = [taint for taint in device.taints if taint.key not in taints]
    ordered = sorted([*kept, *taints.values()], key=lambda each: (each.key != ALLOCATOR_KEY, _ORDER.get(each.effect, 3)))
    return msgspec.structs.replace(device, taints=tuple(ordered[: rules.limit]))


def build_taint(trouble: Trouble, rules: TaintRules) -> Taint:
    """The taint of one trouble."""
    effect = "None" if trouble.is_warning else "NoExecute" if trouble.kind in rules.evicts else "NoSchedule"
    time_added = encode_time(trouble.since)
    return Taint(key=f"{KEY_PREFIX}{trouble.kind.value}", value=trouble.value, effect=effect, time_added=time_added)
