"""The node's GPUs as devices of a pool, in the order in which they are to be given out, cut into slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from driver.api.resource_v1 import (
    RESOURCE_SLICE_MAX_COUNTER_SETS,
    RESOURCE_SLICE_MAX_DEVICES_WITH_TAINTS_OR_COUNTERS,
    CounterSet,
    Device,
    Taint,
)
from driver.resourceslice.attributes import Allocator, GpuFacts, build_facts, legal_text
from driver.resourceslice.budget import spend_budget
from driver.resourceslice.content import SliceContent
from driver.topology.model import Gpu, Topology

T = TypeVar("T")

ALLOCATOR_TAINT_KEY = "gpu.nvidia.com/allocator"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDevices:
    """The devices in order of allocation, and what is worth saying once about those that are missing or cut short."""

    devices: tuple[Device, ...]
    notes: tuple[str, ...]


def build_devices(topology: Topology, *, node_uid: str, allocator: Allocator) -> BuiltDevices:
    """Every whole GPU that can be given out.

    A GPU in MIG mode is not: it and its partitions would be offered at the same time (B46).
    """
    whole = [gpu for gpu in topology.gpus if not gpu.reading.is_mig_enabled]
    notes = [
        f"{gpu.name} is in MIG mode and not published as a whole GPU" for gpu in topology.gpus if gpu.reading.is_mig_enabled
    ]
    devices = []
    for gpu in _order_for_first_fit(whole):
        facts = build_facts(GpuFacts(topology=topology, gpu=gpu, node_uid=node_uid, allocator=allocator))
        spent = spend_budget([(fact,) for fact in facts])
        devices.append(
            Device(name=gpu.name, attributes=spent.attributes, capacity=spent.capacity, taints=build_fence_taints(allocator))
        )
        if spent.left_out:
            notes.append(f"{gpu.name} has too many attributes; left out: {', '.join(spent.left_out)}")
        if legal_text(gpu.reading.product_name) != gpu.reading.product_name:
            notes.append(f"{gpu.name} has a product name that no attribute can hold whole; it is cut at 64 bytes")
    return BuiltDevices(devices=tuple(devices), notes=tuple(notes))


def build_fence_taints(allocator: Allocator) -> tuple[Taint, ...]:
    """The taint that keeps kube-scheduler away from devices of the controller. The first of a device's taints, always."""
    if allocator is Allocator.SCHEDULER:
        return ()
    return (Taint(key=ALLOCATOR_TAINT_KEY, value=allocator.value, effect="NoSchedule"),)


def build_slice_contents(devices: Sequence[Device], counter_sets: Sequence[CounterSet] = ()) -> tuple[SliceContent, ...]:
    """Cuts a pool into slices: counters apart from devices, 8 counter sets or 64 devices in each, at least one slice.

    64 and not the 128 that devices without taints may have: a taint set later must not move devices from slice to slice. A pool
    without devices is one empty slice, since no slice at all means that nobody manages the pool.
    """
    contents = [SliceContent(shared_counters=part) for part in _cut(counter_sets, RESOURCE_SLICE_MAX_COUNTER_SETS)]
    contents += [SliceContent(devices=part) for part in _cut(devices, RESOURCE_SLICE_MAX_DEVICES_WITH_TAINTS_OR_COUNTERS)]
    return tuple(contents) or (SliceContent(),)


def _order_for_first_fit(gpus: Sequence[Gpu]) -> list[Gpu]:
    """kube-scheduler takes the first devices that fit, so the order is what packs.

    Small islands first, so that single GPUs do not break large ones. Each island, quad and pair stands together. Within an
    island what is in no quad comes first, then the quads with the weakest GPU, and in the same way for pairs.
    """
    quad_sizes = Counter(gpu.quad for gpu in gpus)
    pair_sizes = Counter(gpu.pair for gpu in gpus)
    island_sizes = Counter(gpu.island for gpu in gpus)
    weakest: dict[int, int] = {}
    for gpu in gpus:
        weakest[gpu.quad] = min(weakest.get(gpu.quad, gpu.nvlink_count), gpu.nvlink_count)

    def key(gpu: Gpu) -> tuple[object, ...]:
        in_quad = quad_sizes[gpu.quad] > 1
        quad = (weakest[gpu.quad], gpu.quad) if in_quad else (0, -1)
        return island_sizes[gpu.island], gpu.island, in_quad, quad, pair_sizes[gpu.pair], gpu.pair, gpu.reading.pci

    return sorted(gpus, key=key)


def _cut(items: Sequence[T], size: int) -> list[tuple[T, ...]]:
    return [tuple(items[start : start + size]) for start in range(0, len(items), size)]
