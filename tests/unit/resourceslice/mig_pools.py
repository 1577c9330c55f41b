"""Pools of machines with MIG, and kube-scheduler's first fit on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from driver.api.resource_v1 import CounterSet, Device
from driver.nvml.readings import GpuReading, MigReading
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import BuiltDevices, build_devices
from driver.topology.build import build_topology
from driver.topology.mig import Footprint, OwnedInstance
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.unit.topology.machines import gpu, machine, mig_profiles

NODE_UID = "1f0c22d4-a9b8-4c6e-9d1a-2b3c4d5e6f70"
TABLES = {"a100-40gb": 40960, "a100-80gb": 81920, "h100-80gb": 81559, "h200-141gb": 143771, "b200": 183359, "a30": 24576}
TABLES |= {"rtx-pro-6000": 97887, "h100-94gb": 95830, "gb200": 189471, "b300": 275040}
"""Memory in MiB by MIG table."""


def divisible(position: int, table: str, mig: MigReading | None = None, **facts: Any) -> GpuReading:
    """A GPU whose MIG mode may be switched, or that is in MIG mode already."""
    off = MigReading(is_enabled=False, is_enabled_after_reset=False, profiles=mig_profiles(table))
    more: dict[str, Any] = {"cuda_compute_capability": (9, 0), "memory_bytes": TABLES[table] << 20, "mig": mig or off}
    return gpu(position, **{**more, **facts})


def built(
    gpus: Iterable[GpuReading],
    setting: MigSetting = MigSetting.DYNAMIC,
    *,
    owned: Collection[OwnedInstance] = frozenset(),
    leftovers: Collection[Footprint] = (),
    allocator: Allocator = Allocator.SCHEDULER,
) -> BuiltDevices:
    """What a node of these GPUs publishes."""
    topology = build_topology(machine(gpus))
    offers = build_offers(topology, OfferInputs(setting=setting, has_counters=True, owned=owned))
    return build_devices(topology, node_uid=NODE_UID, allocator=allocator, offers=offers, leftovers=leftovers)


def profile_of(device: Device) -> str:
    """The profile's text; ``whole`` for a GPU."""
    found = device.attributes.get("profile")
    return (found.string or "") if found is not None else "whole"


@dataclass
class Scheduler:
    """kube-scheduler's allocator, as far as it matters here: the first device that fits, in the order of the slices."""

    devices: Sequence[Device]
    sets: Sequence[CounterSet]
    taken: dict[str, Device] = field(default_factory=dict)
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)
    _there: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._there = {(one.name, name): int(counter.value) for one in self.sets for name, counter in one.counters.items()}

    def allocate(self, profile: str) -> Device | None:
        """The device that a claim for ``profile`` gets; None where it waits."""
        for device in self.devices:
            if profile_of(device) == profile and self.can_have(device):
                self.take(device)
                return device
        return None

    def can_have(self, device: Device) -> bool:
        """Whether the device and its counters are free."""
        return device.name not in self.taken and all(
            self.drawn[each.counter_set, name] + int(counter.value) <= self._there[each.counter_set, name]
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        )

    def take(self, device: Device, *, sign: int = 1) -> None:
        """Draw its counters."""
        for each in device.consumes_counters:
            for name, counter in each.counters.items():
                self.drawn[each.counter_set, name] += sign * int(counter.value)
        if sign > 0:
            self.taken[device.name] = device
        else:
            del self.taken[device.name]
