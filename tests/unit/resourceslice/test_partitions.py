"""MIG devices in the slices: legal on every machine in every mode, and counted as the hardware counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from driver.api.resource_v1 import Attribute, Capacity, Device, Taint
from driver.host.pci import SysfsPci
from driver.nvml.library import Placement
from driver.nvml.mock import open_mock, read_machine_names
from driver.nvml.reader import read_machine
from driver.nvml.readings import GpuInstanceReading, MachineReading
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import BuiltDevices, build_devices, build_slice_contents
from driver.resourceslice.inventory import Inventory, merge_inventory, read_mig_names
from driver.resourceslice.partitions import PARTITION_ROWS
from driver.topology.build import build_topology
from driver.topology.mig import Footprint
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.fakes.slice_rules import pool_faults
from tests.unit.resourceslice.mig_pools import NODE_UID, TABLES, built, divisible
from tests.unit.topology.machines import mig, mig_instance, mig_profiles

H = "h100-80gb"


def contents_faults(found: BuiltDevices) -> list[str]:
    return pool_faults(build_slice_contents(found.devices, found.counter_sets))


def read(name: str, folder: Path) -> MachineReading:
    mock = open_mock(name, folder)
    mock.library.init()
    return read_machine(mock.library, SysfsPci(mock.roots.sys))


@pytest.mark.parametrize("setting", list(MigSetting))
@pytest.mark.parametrize("name", read_machine_names())
def test_r1_every_machine_is_published_legally_in_every_mode(name: str, setting: MigSetting, tmp_path: Path) -> None:
    """R1: one device too many attributes costs the whole slice."""
    topology = build_topology(read(name, tmp_path))
    for allocator in Allocator:
        offers = build_offers(topology, OfferInputs(setting=setting, has_counters=True))
        leftovers = [Footprint(gpu=gpu.name) for gpu in topology.gpus]
        found = build_devices(topology, node_uid=NODE_UID, allocator=allocator, offers=offers, leftovers=leftovers)
        assert contents_faults(found) == []


@pytest.mark.parametrize("table", TABLES)
def test_r1_every_instance_of_every_board_is_published_legally(table: str) -> None:
    """R1: a static 7g has 31 of 32; an RTX PRO 6000's 4g has 12 memory slices, which are left out and said."""
    for profile in mig_profiles(table):
        for place in profile.placements:
            reading = mig(table, mig_instance(table, profile.info.id, place.start))
            found = built([divisible(0, table, reading, **FULL)], MigSetting.STATIC)
            assert contents_faults(found) == []
            (device,) = found.devices
            has_all = any(name.startswith("memorySlice") for name in device.capacity)
            assert has_all == (place.size <= 9)
            assert bool(found.notes) != has_all


FULL: dict[str, Any] = {
    "brand": "Nvidia",
    "architecture": "Hopper",
    "addressing_mode": "HMM",
    "module_id": 3,
    "numa_node": 1,
    "pcie_root": "pci0000:4a",
}


def test_a_mig_device_says_what_nvidias_driver_says_and_two_of_ours() -> None:
    (device,) = built([divisible(0, H, mig(H, mig_instance(H, 9, 4)), **FULL)], MigSetting.STATIC).devices
    assert device == Device(
        name="gpu-0000-10-00-0-mig-3g-40gb-p9-4",
        attributes={
            "type": Attribute(string="mig"),
            "uuid": Attribute(string="MIG-0-0"),
            "parentUUID": Attribute(string="GPU-00000000-0000-0000-0000-000000000000"),
            "profile": Attribute(string="3g.40gb"),
            "productName": Attribute(string="NVIDIA H100 80GB HBM3"),
            "brand": Attribute(string="Nvidia"),
            "architecture": Attribute(string="Hopper"),
            "cudaComputeCapability": Attribute(version="9.0.0"),
            "driverVersion": Attribute(version="580.159.4"),
            "cudaDriverVersion": Attribute(version="13.0.0"),
            "addressingMode": Attribute(string="HMM"),
            "resource.kubernetes.io/pciBusID": Attribute(string="0000:10:00.0"),
            "resource.kubernetes.io/pcieRoot": Attribute(string="pci0000:4a"),
            "resource.kubernetes.io/numaNode": Attribute(int_=1),
            "driverVersionText": Attribute(string="580.159.04"),
            "allocator": Attribute(string="scheduler"),
        },
        capacity={
            "memory": Capacity(value="40448Mi"),
            "multiprocessors": Capacity(value="60"),
            "copyEngines": Capacity(value="3"),
            "decoders": Capacity(value="3"),
            "encoders": Capacity(value="0"),
            "jpegEngines": Capacity(value="3"),
            "ofaEngines": Capacity(value="0"),
            **{f"memorySlice{number}": Capacity(value="1") for number in range(4, 8)},
        },
    )


def test_one_that_is_still_to_be_made_has_no_uuid_and_draws_on_counters_instead() -> None:
    found = built([divisible(0, H, **FULL)])
    device = next(each for each in found.devices if each.name == "gpu-0000-10-00-0-mig-3g-40gb-p9-4")
    assert "uuid" not in device.attributes
    assert not any(name.startswith("memorySlice") for name in device.capacity)
    (draws,) = device.consumes_counters
    assert draws.counter_set == "gpu-0000-10-00-0"
    assert {name: counter.value for name, counter in draws.counters.items()} == {
        **{f"memory-slice-{number}": "1" for number in range(4, 8)},
        "multiprocessors": "60",
    }


def test_the_whole_gpu_draws_everything() -> None:
    found = built([divisible(0, H)])
    whole = found.devices[0]
    assert whole.name == "gpu-0000-10-00-0"
    assert [each.counters for each in whole.consumes_counters] == [found.counter_sets[0].counters]


def test_each_row_is_explained_and_named_once() -> None:
    assert len({row.name for row in PARTITION_ROWS}) == len(PARTITION_ROWS)
    assert all(row.meaning.endswith(".") and row.example for row in PARTITION_ROWS)


# --- whole nodes -------------------------------------------------------------------------------------------------------


def test_more_than_eight_gpus_and_more_than_64_devices_are_cut_legally() -> None:
    found = built([divisible(position, H) for position in range(16)])
    contents = build_slice_contents(found.devices, found.counter_sets)
    assert [len(content.shared_counters) for content in contents] == [8, 8, 0, 0, 0, 0, 0, 0, 0]
    assert [len(content.devices) for content in contents] == [0, 0, 64, 64, 64, 64, 64, 64, 32]
    assert pool_faults(contents) == []


def test_an_eight_gpu_node_is_smaller_than_nvidias() -> None:
    """9 slices and 233 kB with NVIDIA's driver; the same facts, and two more."""
    found = built([divisible(position, H, **FULL) for position in range(8)])
    contents = build_slice_contents(found.devices, found.counter_sets)
    assert (len(found.devices), len(contents)) == (208, 5)
    assert len(msgspec.json.encode([(content.devices, content.shared_counters) for content in contents])) < 233_000


def test_machines_without_mig_have_no_counters(tmp_path: Path) -> None:
    """#1092: an empty counter set makes the slice invalid."""
    for name in ("t4", "l40s", "dgx-1v"):
        topology = build_topology(read(name, tmp_path / name))
        offers = build_offers(topology, OfferInputs(setting=MigSetting.DYNAMIC, has_counters=True))
        found = build_devices(topology, node_uid=NODE_UID, allocator=Allocator.SCHEDULER, offers=offers)
        assert found.counter_sets == ()
        assert all(device.consumes_counters == () for device in found.devices)


def test_what_a_foreign_instance_takes_is_offered_to_nobody() -> None:
    """B38: a 3g at 4."""
    found = built([divisible(0, H, mig(H, mig_instance(H, 9, 4)))])
    assert contents_faults(found) == []
    names = [device.name.removeprefix("gpu-0000-10-00-0-mig-") for device in found.devices]
    assert names == [
        *(f"1g-10gb-p19-{start}" for start in (3, 2, 1, 0)),
        *(f"1g-10gb-me-p20-{start}" for start in (3, 2, 1, 0)),
        *(f"1g-20gb-p15-{start}" for start in (2, 0)),
        *(f"2g-20gb-p14-{start}" for start in (2, 0)),
        "3g-40gb-p9-0",
        "4g-40gb-p5-0",
    ]


def test_a_foreign_instance_of_the_whole_gpu_leaves_nothing() -> None:
    found = built([divisible(0, H, mig(H, mig_instance(H, 0, 0)))])
    assert (found.devices, found.counter_sets) == ((), ())


def test_a_foreign_instance_of_an_unknown_profile_takes_its_slices() -> None:
    unknown = GpuInstanceReading(id=9, profile_id=99, placement=Placement(start=0, size=4))
    found = built([divisible(0, H, mig(H, unknown, is_enabled=True))])
    assert {device.name[-1] for device in found.devices} == {"4", "5", "6"}


def test_what_is_yet_to_be_removed_is_tainted_where_it_lies_and_nowhere_else() -> None:
    """R29."""
    gpu = divisible(0, H)
    name = built([gpu]).devices[0].name
    leftover = Footprint(gpu=name, memory=Placement(start=6, size=1))  # type: ignore[arg-type]  # a GPU's name
    taint = Taint(key="gpu.nvidia.com/mig-leftover", effect="NoSchedule")
    tainted = {device.name for device in built([gpu], leftovers=[leftover]).devices if device.taints == (taint,)}
    assert {each.removeprefix(name).rpartition("-mig-")[2] for each in tainted} == {
        "",
        "1g-10gb-p19-6",
        "1g-10gb-me-p20-6",
        "1g-20gb-p15-6",
        "3g-40gb-p9-4",
        "7g-80gb-p0-0",
    }


def test_the_fence_is_the_first_taint() -> None:
    leftover = Footprint(gpu=built([divisible(0, H)]).devices[0].name)  # type: ignore[arg-type]  # a GPU's name
    found = built([divisible(0, H)], leftovers=[leftover], allocator=Allocator.CONTROLLER)
    keys = {tuple(taint.key for taint in device.taints) for device in found.devices}
    assert keys == {("gpu.nvidia.com/allocator", "gpu.nvidia.com/mig-leftover")}
    assert contents_faults(found) == []


# --- what was published before -----------------------------------------------------------------------------------------


def test_what_is_remembered_draws_on_nothing_and_names_stay() -> None:
    found = built([divisible(0, H)])
    merged = merge_inventory(Inventory(), found.devices, held=None, allocator=Allocator.SCHEDULER)
    assert all(device.consumes_counters == () for device in merged.inventory.devices)
    names = read_mig_names(merged.inventory)
    assert len(names) == 25
    renamed = [
        msgspec.structs.replace(device, name=device.name.replace("1g-10gb", "1g-9gb")) for device in merged.inventory.devices
    ]
    topology = build_topology(MachineReading(driver_version="1", cuda_driver_version=None, gpus=(divisible(0, H),)))
    inputs = OfferInputs(setting=MigSetting.DYNAMIC, has_counters=True, names=read_mig_names(Inventory(devices=tuple(renamed))))
    (offer,) = build_offers(topology, inputs)
    assert {each.name for each in offer.partitions} == {device.name for device in renamed} - {"gpu-0000-10-00-0"}


def test_a_mig_device_that_went_and_is_held_stays_without_counters() -> None:
    """Its GPU fell off the bus: an unknown counter set would make the pool invalid."""
    before = built([divisible(0, H), divisible(1, H)])
    inventory = merge_inventory(Inventory(), before.devices, held=None, allocator=Allocator.SCHEDULER).inventory
    now = built([divisible(0, H)])
    held = {"gpu-0000-11-00-0-mig-2g-20gb-p14-4"}
    merged = merge_inventory(inventory, now.devices, held=held, allocator=Allocator.SCHEDULER)
    assert set(merged.lost) == held
    assert len(merged.withdrawn) == 25
    assert pool_faults(build_slice_contents(merged.devices, now.counter_sets)) == []
