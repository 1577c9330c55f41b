"""MIG devices as devices of a pool: what they say of themselves, and the counters that keep overlapping ones apart.

The attributes and capacities are NVIDIA's, under the same names and in the same form; of ours there is room for two (R1). Each
GPU that claims divide has one counter set: its memory slices, its multiprocessors, and those of its engines that devices side
by side could overdraw. A device draws what its profile has, the whole GPU draws everything, so the counters forbid what the
hardware would refuse, and nothing else. Memory has no counter of its own: whoever has the slices has their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterConsumption, CounterSet
from driver.nvml.library import GpuInstanceProfileInfo, Placement
from driver.nvml.readings import MigProfile
from driver.resourceslice.attributes import WHOLE_GPU_ROWS, GpuFacts, Row, legal_text
from driver.resourceslice.budget import Budgeted, Fact, spend_budget
from driver.topology.mig import Footprint, Partition
from driver.topology.mig_offer import GpuOffer
from driver.topology.model import Gpu

LEFTOVER_TAINT_KEY = "gpu.nvidia.com/mig-leftover"
"""On what overlaps an instance whose claim is gone, and that could not be removed yet (R29)."""

_MIB = 1 << 20

_ALWAYS = "multiprocessors"
_ENGINES: Mapping[str, Callable[[GpuInstanceProfileInfo], int]] = {
    _ALWAYS: lambda info: info.multiprocessor_count,
    "compute-slices": lambda info: info.slice_count,
    "copy-engines": lambda info: info.copy_engine_count,
    "decoders": lambda info: info.decoder_count,
    "encoders": lambda info: info.encoder_count,
    "jpeg-engines": lambda info: info.jpeg_count,
    "ofa-engines": lambda info: info.ofa_count,
}
"""What a GPU has beside its memory slices: as much as the profile that has most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One attribute or capacity of a MIG device; see ``attributes.Row``."""

    name: str
    type: str
    is_nvidias: bool
    meaning: str
    example: str
    read: Callable[[GpuFacts, Partition], Attribute | Capacity | None]


def build_partition_facts(facts: GpuFacts, partition: Partition) -> Budgeted:
    """Everything that a MIG device says of itself, within the budget: memory slices last, all or none."""
    values = ((row.name, row.read(facts, partition)) for row in PARTITION_ROWS)
    groups: list[Sequence[Fact]] = [((name, value),) for name, value in values if value is not None]
    if partition.made is not None:
        slices = range(partition.placement.start, partition.placement.start + partition.placement.size)
        groups.append(tuple((f"memorySlice{number}", Capacity(value="1")) for number in slices))
    return spend_budget(groups)


def build_counter_set(offer: GpuOffer) -> CounterSet:
    """The counters of a GPU that claims divide: all that there is, less what others' instances take."""
    profiles = _profiles_of(offer.gpu)
    slices = max((place.start + place.size for each in profiles for place in each.placements), default=0)
    left = {f"memory-slice-{number}": 1 for number in range(slices)}
    left |= {name: amounts.total for name, amounts in _list_counters(profiles).items()}
    for each in offer.foreign:
        for name, amount in _draw(profiles, each.profile_id, each.placement).items():
            left[name] = max(0, left.get(name, 0) - amount)
    return CounterSet(name=offer.gpu.name, counters=_as_counters(left))


def build_consumption(counter_set: CounterSet, partition: Partition | None) -> tuple[CounterConsumption, ...]:
    """What a MIG device draws, or the whole GPU where it is None: everything."""
    drawn = counter_set.counters if partition is None else _as_counters(_draw_of(partition))
    return (CounterConsumption(counter_set=counter_set.name, counters=dict(drawn)),)


def is_drawable(counter_set: CounterSet, partition: Partition) -> bool:
    """Whether the counters could ever give the device out."""
    there = {name: int(counter.value) for name, counter in counter_set.counters.items()}
    return all(amount <= there.get(name, 0) for name, amount in _draw_of(partition).items())


def _draw_of(partition: Partition) -> dict[str, int]:
    return _draw(_profiles_of(partition.gpu), partition.profile.info.id, partition.placement)


def order_partitions(partitions: Collection[Partition]) -> list[Partition]:
    """The MIG devices of one GPU in the order in which kube-scheduler's first fit strands least.

    Small ones first, for requests that say no profile. Of one profile the last placement first: the upper end of a GPU is the
    worse one (the highest slice is of use to few profiles, and four compute slices fit at the lower end alone), so small
    devices gather there, and the large ones stay possible.
    """

    def key(each: Partition) -> tuple[int, ...]:
        info = each.profile.info
        return info.slice_count, info.memory_size_mib, each.profile.number, -each.placement.start

    return sorted(partitions, key=lambda each: (key(each), each.name))


def overlaps_any(footprint: Footprint, others: Collection[Footprint]) -> bool:
    """Whether one of ``others`` takes a part of it."""
    return any(footprint.overlaps(other) for other in others)


def _draw(profiles: tuple[MigProfile, ...], profile_id: int, placement: Placement) -> dict[str, int]:
    """What an instance takes of each counter; one of an unknown profile at least its memory slices."""
    drawn = {f"memory-slice-{number}": 1 for number in range(placement.start, placement.start + placement.size)}
    for name, amounts in _list_counters(profiles).items():
        if amounts.by_profile.get(profile_id):
            drawn[name] = amounts.by_profile[profile_id]
    return drawn


@dataclass(frozen=True, slots=True)
class _Amounts:
    """One counter: what there is, and what an instance of each profile takes."""

    total: int
    by_profile: Mapping[int, int]


@lru_cache(maxsize=64)
def _list_counters(profiles: tuple[MigProfile, ...]) -> Mapping[str, _Amounts]:
    """The counters that a GPU with these profiles needs beside its memory slices."""
    counters = {}
    for name, read in _ENGINES.items():
        by_profile = {each.info.id: read(each.info) for each in profiles}
        amounts = _Amounts(max(by_profile.values(), default=0), by_profile)
        if amounts.total and (name == _ALWAYS or _sum_most(profiles, by_profile) > amounts.total):
            counters[name] = amounts
    for profile in profiles:
        number, most = profile.info.id, profile.info.instance_count
        is_kept = any(each.by_profile[number] * (most + 1) > each.total for each in counters.values())
        if not is_kept and _sum_most((profile,), {number: 1}) > most:
            counters[f"profile-{number}"] = _Amounts(most, {number: 1})
    return counters


def _sum_most(profiles: tuple[MigProfile, ...], weights: Mapping[int, int]) -> int:
    """The most that instances side by side, none sharing a memory slice, can come to together."""
    places = [(place.start + place.size, place.start, weights[each.info.id]) for each in profiles for place in each.placements]
    best = [0] * (max((end for end, _, _ in places), default=0) + 1)
    for slices in range(1, len(best)):
        ending = (best[start] + weight for end, start, weight in places if end == slices)
        best[slices] = max(best[slices - 1], *ending, 0)
    return best[-1]


def _profiles_of(gpu: Gpu) -> tuple[MigProfile, ...]:
    return gpu.reading.mig.profiles if gpu.reading.mig is not None else ()


def _as_counters(amounts: Mapping[str, int]) -> dict[str, Counter]:
    return {name: Counter(value=str(amount)) for name, amount in amounts.items()}


def _own(
    name: str, type_: str, meaning: str, example: str, read: Callable[[GpuFacts, Partition], Attribute | Capacity | None]
) -> PartitionRow:
    return PartitionRow(name=name, type=type_, is_nvidias=True, meaning=meaning, example=example, read=read)


def _of_gpu(row: Row) -> PartitionRow:
    return PartitionRow(
        name=row.name,
        type=row.type,
        is_nvidias=row.is_nvidias,
        meaning=row.meaning,
        example=row.example,
        read=lambda facts, _: row.read(facts),
    )


def _amount(read: Callable[[Partition], int]) -> Callable[[GpuFacts, Partition], Capacity]:
    return lambda _, partition: Capacity(value=str(read(partition)))


def _memory(_: GpuFacts, partition: Partition) -> Capacity:
    return Capacity(value=f"{partition.profile.info.memory_size_mib}Mi")


def _uuid(_: GpuFacts, partition: Partition) -> Attribute | None:
    return Attribute(string=legal_text(partition.made.uuid)) if partition.made is not None and partition.made.uuid else None


_GPUS = {row.name: row for row in WHOLE_GPU_ROWS}
_STANDARD = ("resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
_SHARED = (
    "productName",
    "brand",
    "architecture",
    "cudaComputeCapability",
    "driverVersion",
    "cudaDriverVersion",
    "addressingMode",
    *_STANDARD,
)

PARTITION_ROWS: tuple[PartitionRow, ...] = (
    _own("type", "string", "What the device is: `mig` for a MIG device.", "mig", lambda *_: Attribute(string="mig")),
    _own("uuid", "string", "NVML's UUID of the MIG device; absent where the claim makes it.", "MIG-…", _uuid),
    _own(
        "parentUUID",
        "string",
        "NVML's UUID of the GPU: `matchAttribute` on it asks for MIG devices of one GPU.",
        "GPU-…",
        lambda facts, _: Attribute(string=facts.gpu.reading.uuid),
    ),
    _own(
        "profile",
        "string",
        "NVIDIA's word for the profile. Drivers rename profiles: `multiprocessors` and `memory` are safer to select by.",
        "1g.10gb",
        lambda _, partition: Attribute(string=legal_text(partition.text)),
    ),
    *(_of_gpu(_GPUS[name]) for name in _SHARED),
    _own("memory", "quantity", "The MIG device's memory.", "9984Mi", _memory),
    _own(
        "multiprocessors",
        "quantity",
        "Its multiprocessors.",
        "16",
        _amount(lambda partition: partition.multiprocessors),
    ),
    _own("copyEngines", "quantity", "Its copy engines.", "1", _amount(lambda each: each.profile.info.copy_engine_count)),
    _own("decoders", "quantity", "Its video decoders.", "1", _amount(lambda each: each.profile.info.decoder_count)),
    _own("encoders", "quantity", "Its video encoders.", "0", _amount(lambda each: each.profile.info.encoder_count)),
    _own("jpegEngines", "quantity", "Its JPEG engines.", "1", _amount(lambda each: each.profile.info.jpeg_count)),
    _own("ofaEngines", "quantity", "Its optical-flow engines.", "0", _amount(lambda each: each.profile.info.ofa_count)),
    _of_gpu(_GPUS["driverVersionText"]),
    _of_gpu(_GPUS["allocator"]),
)
"""The order in which the budget is spent; ``memorySlice<i>`` of a MIG device that is there comes last."""
