"""What MIG devices take of their GPU, and how they are found."""

from __future__ import annotations

import pytest

from driver.names import DeviceName
from driver.nvml.library import Placement
from driver.topology.build import build_topology
from driver.topology.mig import Footprint, Partition, find_device, gpu_of
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.unit.topology.machines import hopper, machine, mig

A, B = DeviceName("gpu-a"), DeviceName("gpu-b")


def part(start: int, size: int, compute: tuple[int, int] | None = None, gpu: DeviceName = A) -> Footprint:
    return Footprint(
        gpu=gpu,
        memory=Placement(start=start, size=size),
        compute=None if compute is None else Placement(start=compute[0], size=compute[1]),
    )


PAIRS = {
    "the whole GPU and itself": (Footprint(gpu=A), Footprint(gpu=A), True),
    "two GPUs": (Footprint(gpu=A), Footprint(gpu=B), False),
    "the whole GPU and a part": (Footprint(gpu=A), part(3, 1), True),
    "neighbours": (part(0, 4), part(4, 4), False),
    "one slice in common": (part(0, 4), part(3, 1), True),
    "the same place on two GPUs": (part(0, 4), part(0, 4, gpu=B), False),
    "two parts of an instance": (part(0, 4, (0, 1)), part(0, 4, (1, 1)), False),
    "two parts that overlap": (part(0, 4, (0, 2)), part(0, 4, (1, 1)), True),
    "an instance and a part of it": (part(0, 4), part(0, 4, (1, 1)), True),
    "parts of instances that overlap": (part(0, 4, (0, 1)), part(2, 2, (1, 1)), True),
}


@pytest.mark.parametrize(("one", "other", "overlap"), PAIRS.values(), ids=PAIRS.keys())
def test_what_overlaps_excludes_each_other(one: Footprint, other: Footprint, overlap: bool) -> None:
    assert one.overlaps(other) is overlap
    assert other.overlaps(one) is overlap


def test_a_device_is_found_by_name_and_a_mig_device_by_what_its_name_stands_for() -> None:
    topology = build_topology(machine([hopper(0, mig("h100-80gb"))]))
    (offer,) = build_offers(topology, OfferInputs(setting=MigSetting.DYNAMIC, has_counters=True))
    devices = {offer.gpu.name: offer.gpu} | {each.name: each for each in offer.partitions}
    found = find_device(devices, "gpu-0000-10-00-0-mig-1g-10gb-p19-3")
    assert found is not None
    assert find_device(devices, "gpu-0000-10-00-0-mig-1g-11gb-p19-3") is found
    assert find_device(devices, "gpu-0000-10-00-0-mig-1g-10gb-p19-7") is None
    assert find_device(devices, "gpu-0000-11-00-0-mig-1g-10gb-p19-3") is None
    assert find_device(devices, "gpu-0000-10-00-0-mig-" + "x" * 60 + "-p19-3") is None
    assert gpu_of(found) is offer.gpu
    assert isinstance(found, Partition)
    assert found.footprint == Footprint(gpu=offer.gpu.name, memory=Placement(start=3, size=1))
