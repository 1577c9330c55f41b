"""The node's GPUs as devices of a pool, in the order in which they are to be given out, cut into slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from driver.api.fence import ALLOCATOR_KEY, FENCE_EFFECT
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
from driver.resourceslice.partitions import (
    LEFTOVER_TAINT_KEY,
    build_consumption,
    build_counter_set,
    build_partition_facts,
    is_drawable,
    order_partitions,
    overlaps_any,
)
from driver.resourceslice.shares import NO_SHARES, ShareSetting, share_device
from driver.topology.mig import Footprint, Partition
from driver.topology.mig_offer import GpuOffer, MigSetting, OfferInputs, build_offers
from driver.topology.model import Gpu, Topology

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDevices:
    """The devices in order of allocation, and what is worth saying once about those that are missing or cut short."""

    devices: tuple[Device, ...]
    notes: tuple[str, ...]
    counter_sets: tuple[CounterSet, ...] = ()
    """One for each GPU that claims divide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whose:
    """What all devices of the node have in common."""

    topology: Topology
    node_uid: str
    allocator: Allocator
    leftovers: Collection[Footprint]
    shares: ShareSetting


def build_devices(
    topology: Topology,
    *,
    node_uid: str,
    allocator: Allocator,
    offers: Sequence[GpuOffer] | None = None,
    leftovers: Collection[Footprint] = (),
    shares: ShareSetting = NO_SHARES,
) -> BuiltDevices:
    """Everything that can be given out: whole GPUs first, then MIG devices, GPU by GPU.

    A GPU in MIG mode is not offered whole beside its MIG devices, unless counters keep them apart (B46). Partitions are made
    from the GPUs that whole ones are taken from last. Without ``offers`` there are no MIG devices. ``leftovers`` is what
    instances take that are still to be removed: nothing new is to be put there.
    """
    if offers is None:
        offers = build_offers(topology, OfferInputs(setting=MigSetting.OFF, has_counters=False))
    whose = _Whose(topology=topology, node_uid=node_uid, allocator=allocator, leftovers=leftovers, shares=shares)
    by_gpu = {offer.gpu.name: offer for offer in offers}
    order = [by_gpu[gpu.name] for gpu in _order_for_first_fit(topology.gpus)]
    counter_sets = {offer.gpu.name: build_counter_set(offer) for offer in order if offer.is_dynamic}
    notes = [offer.note for offer in offers if offer.note]
    notes += shares.find_trouble(topology.gpus)
    whole, parts = [], []
    for offer in order:
        if offer.is_whole:
            whole.append(_build_whole(whose, offer, counter_sets.get(offer.gpu.name), notes))
    for offer in reversed(order):
        counter_set = counter_sets.get(offer.gpu.name)
        for partition in order_partitions(offer.partitions):
            if counter_set is None or is_drawable(counter_set, partition):
                parts.append(_build_part(whose, partition, counter_set, notes))
    drawn = {each.counter_set for device in (*whole, *parts) for each in device.consumes_counters}
    return BuiltDevices(
        devices=(*whole, *parts),
        notes=tuple(dict.fromkeys(notes)),
        counter_sets=tuple(counter_sets[offer.gpu.name] for offer in offers if offer.gpu.name in drawn),
    )


def _build_whole(whose: _Whose, offer: GpuOffer, counter_set: CounterSet | None, notes: list[str]) -> Device:
    gpu = offer.gpu
    facts = _build_gpu_facts(whose, gpu, is_divided=counter_set is not None)
    spent = spend_budget([(fact,) for fact in build_facts(facts)])
    if spent.left_out:
        notes.append(f"{gpu.name} has too many attributes; left out: {', '.join(spent.left_out)}")
    if legal_text(gpu.reading.product_name) != gpu.reading.product_name:
        notes.append(f"{gpu.name} has a product name that no attribute can hold whole; it is cut at 64 bytes")
    device = Device(
        name=gpu.name,
        attributes=spent.attributes,
        capacity=spent.capacity,
        consumes_counters=() if counter_set is None else build_consumption(counter_set, None),
        taints=_build_taints(whose, Footprint(gpu=gpu.name)),
    )
    if not whose.shares.covers(gpu):
        return device
    shared = share_device(device)
    if shared is None:
        notes.append(f"{gpu.name} is not divided by memory: NVML does not say how much it has")
    return shared or device


def _build_part(whose: _Whose, partition: Partition, counter_set: CounterSet | None, notes: list[str]) -> Device:
    spent = build_partition_facts(_build_gpu_facts(whose, partition.gpu, is_divided=counter_set is not None), partition)
    if spent.left_out:
        notes.append(f"{partition.name} has too many attributes; left out: {', '.join(spent.left_out)}")
    return Device(
        name=partition.name,
        attributes=spent.attributes,
        capacity=spent.capacity,
        consumes_counters=() if counter_set is None else build_consumption(counter_set, partition),
        taints=_build_taints(whose, partition.footprint),
    )


def _build_gpu_facts(whose: _Whose, gpu: Gpu, *, is_divided: bool) -> GpuFacts:
    return GpuFacts(topology=whose.topology, gpu=gpu, node_uid=whose.node_uid, allocator=whose.allocator, is_divided=is_divided)


def _build_taints(whose: _Whose, footprint: Footprint) -> tuple[Taint, ...]:
    """The fence first, always."""
    is_taken = overlaps_any(footprint, whose.leftovers)
    leftover = (Taint(key=LEFTOVER_TAINT_KEY, effect=FENCE_EFFECT),) if is_taken else ()
    return (*build_fence_taints(whose.allocator), *leftover)


def build_fence_taints(allocator: Allocator) -> tuple[Taint, ...]:
    """The taint that keeps kube-scheduler away from devices of the controller. The first of a device's taints, always."""
    if allocator is Allocator.SCHEDULER:
        return ()
    return (Taint(key=ALLOCATOR_KEY, value=allocator.value, effect=FENCE_EFFECT),)


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
