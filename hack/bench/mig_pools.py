"""Pools of GPUs that claims divide, in the form that node plugins publish: one counter set a GPU, a device for each placement.

Made straight from the tables of the mock's boards, so that the allocator can be measured and tested without a node plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from driver.allocator.pools import Pool
from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device
from driver.nvml.mock.catalogue import read_mig_tables
from driver.nvml.mock.document import MigProfileDocument, MigTableDocument

DRIVER = "gpu.nvidia.com"
_ENGINES = {
    "multiprocessors": "sm",
    "copy-engines": "ce",
    "decoders": "dec",
    "encoders": "enc",
    "jpeg-engines": "jpeg",
    "ofa-engines": "ofa",
}


def build_mig_pool(node: str, table: str, gpus: int, *, whole: Sequence[Device] = (), starts_first: bool = False) -> Pool:
    """A pool of so many GPUs with every placement of every profile, and each GPU whole.

    ``whole`` are the whole GPUs' devices where more is to be known of them than their type. ``starts_first`` is NVIDIA's order:
    by name, so that the lowest start comes first; else small ones first, of one profile the last start first.
    """
    found = _build_devices(table, gpus, starts_first)
    devices = [
        Device(
            name=each.name,
            attributes={**own.attributes, **each.attributes},
            capacity=own.capacity,
            taints=own.taints,
            consumes_counters=each.consumes_counters,
        )
        for own, each in zip(whole, found, strict=False)
    ]
    taints = whole[0].taints if whole else ()
    parts = [
        Device(
            name=each.name,
            attributes=each.attributes,
            capacity=each.capacity,
            taints=taints,
            consumes_counters=each.consumes_counters,
        )
        for each in found[gpus:]
    ]
    return Pool(
        driver=DRIVER,
        name=node,
        node=node,
        devices=(*(devices or found[:gpus]), *parts),
        counter_sets=_build_counter_sets(table, gpus),
    )


def text_of(table: str, profile: MigProfileDocument) -> str:
    """The profile's name, as ``1g.10gb``, ``1g.10gb+me``: by compute slices and memory in GiB, rounded up."""
    gib = -(-profile.memory_mib // 1024)
    size = profile.slices, profile.memory_mib
    twins = [each for each in read_mig_tables()[table].profiles if (each.slices, each.memory_mib) == size]
    suffix = "" if twins[0] is profile else f"+{profile.number:x}"
    return f"{profile.slices}g.{gib}gb{suffix}"


@cache
def _build_devices(table: str, gpus: int, starts_first: bool) -> tuple[Device, ...]:
    document = read_mig_tables()[table]
    whole = [
        Device(
            name=f"gpu-{gpu}",
            attributes={"type": Attribute(string="gpu"), "uuid": Attribute(string=f"GPU-{gpu}")},
            consumes_counters=(CounterConsumption(counter_set=f"gpu-{gpu}", counters=_counters(_all(document))),),
        )
        for gpu in range(gpus)
    ]
    profiles = sorted(document.profiles, key=lambda each: (each.slices, each.memory_mib, each.number))
    places = [(each, start) for each in profiles for start in (each.starts if starts_first else reversed(each.starts))]
    return (*whole, *(_build_part(table, gpu, profile, start) for gpu in range(gpus) for profile, start in places))


def _build_part(table: str, gpu: int, profile: MigProfileDocument, start: int) -> Device:
    text = text_of(table, profile)
    drawn = {f"memory-slice-{number}": 1 for number in range(start, start + profile.size)} | _engines(profile)
    return Device(
        name=f"gpu-{gpu}-mig-{text.replace('.', '').replace('+', '-')}-{profile.id}-{start}",
        attributes={
            "type": Attribute(string="mig"),
            "profile": Attribute(string=text),
            "parentUUID": Attribute(string=f"GPU-{gpu}"),
        },
        capacity={"multiprocessors": Capacity(value=str(profile.sm)), "memory": Capacity(value=f"{profile.memory_mib}Mi")},
        consumes_counters=(CounterConsumption(counter_set=f"gpu-{gpu}", counters=_counters(drawn)),),
    )


def _build_counter_sets(table: str, gpus: int) -> tuple[CounterSet, ...]:
    counters = _counters(_all(read_mig_tables()[table]))
    return tuple(CounterSet(name=f"gpu-{gpu}", counters=counters) for gpu in range(gpus))


def _all(document: MigTableDocument) -> dict[str, int]:
    amounts = {f"memory-slice-{number}": 1 for number in range(document.memory_slices)}
    for profile in document.profiles:
        for name, amount in _engines(profile).items():
            amounts[name] = max(amounts.get(name, 0), amount)
    return amounts


def _engines(profile: MigProfileDocument) -> dict[str, int]:
    amounts = {name: int(getattr(profile, field)) for name, field in _ENGINES.items()}
    return {name: amount for name, amount in amounts.items() if amount}


def _counters(amounts: dict[str, int]) -> dict[str, Counter]:
    return {name: Counter(value=str(amount)) for name, amount in amounts.items()}
