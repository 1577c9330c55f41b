"""The devices of a pool are legal whatever the machine says, and stand in the order in which they should be given out."""

from __future__ import annotations

import string
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Attribute, CounterConsumption, CounterSet, Device, Taint
from driver.api.resource_v1 import Counter as CounterValue
from driver.names import GpuUUID, PciAddress
from driver.nvml.readings import FabricReading, GpuReading, MachineReading, MigReading, NvLinkReading, PcieLevel, RemoteType
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import BuiltDevices, build_devices, build_fence_taints, build_slice_contents
from driver.resourceslice.content import SliceContent
from driver.topology.build import build_topology
from tests.fakes.slice_rules import pool_faults
from tests.unit.topology import machines
from tests.unit.topology.machines import gpu, machine

NODE_UID = "1f0c22d4-a9b8-4c6e-9d1a-2b3c4d5e6f70"


def built(reading: MachineReading, allocator: Allocator = Allocator.SCHEDULER) -> BuiltDevices:
    return build_devices(build_topology(reading), node_uid=NODE_UID, allocator=allocator)


def positions(devices: BuiltDevices) -> list[int]:
    """Where each device's GPU stands on a test machine, in the order of the devices."""
    return [int(device.name.split("-")[2], 16) - 0x10 for device in devices.devices]


def test_a_scheduler_device_has_no_taint() -> None:
    assert [device.taints for device in built(machine([gpu(0)])).devices] == [()]


def test_a_controller_device_is_fenced() -> None:
    (device,) = built(machine([gpu(0)]), Allocator.CONTROLLER).devices
    assert device.taints == (Taint(key="gpu.nvidia.com/allocator", value="controller", effect="NoSchedule"),)
    assert device.attributes["allocator"] == Attribute(string="controller")
    assert build_fence_taints(Allocator.SCHEDULER) == ()


def test_a_gpu_in_mig_mode_is_not_offered_whole_and_is_named() -> None:
    """Its partitions and itself would be free at the same time (B46)."""
    found = built(machine([gpu(0), gpu(1, mig=MigReading(is_enabled=True, is_enabled_after_reset=True))]))
    assert positions(found) == [0]
    assert found.notes == ("gpu-0000-11-00-0 is in MIG mode, and MIG is off here: not published",)


def test_a_product_name_that_is_cut_is_named() -> None:
    assert built(machine([gpu(0, product_name="x" * 65)])).notes == (
        "gpu-0000-10-00-0 has a product name that no attribute can hold whole; it is cut at 64 bytes",
    )


def test_an_ordinary_machine_has_nothing_to_note() -> None:
    assert built(machines.hgx_8()).notes == ()


ORDERS = {
    "pairs of a DGX-1 stand together, quad by quad": (machines.dgx_1v(), [0, 3, 1, 2, 4, 7, 5, 6]),
    "pairs of the older DGX-1": (machines.dgx_1p(), [0, 2, 1, 3, 4, 6, 5, 7]),
    "bridged pairs stand together": (machines.bridged(), [0, 2, 1, 3, 4, 5, 6, 7]),
    "single GPUs before the bridged pair": (machines.half_bridged(), [2, 3, 0, 1]),
    "a GPU without links first, then the odd one of the rest, then its pair": (
        machines.hgx_8(without_links=frozenset({5})),
        [5, 7, 4, 6, 0, 1, 2, 3],
    ),
    "a whole board by address": (machines.hgx_8(), list(range(8))),
}


@pytest.mark.parametrize(("reading", "order"), ORDERS.values(), ids=ORDERS.keys())
def test_first_fit_takes_what_breaks_least(reading: MachineReading, order: list[int]) -> None:
    assert positions(built(reading)) == order


def test_the_quad_with_the_weakest_gpu_is_given_out_first() -> None:
    ports = [machines.switch_ports(18, down=2 if i == 6 else 0) for i in range(8)]
    levels = machines.pcie(8, [(PcieLevel.NODE, machines.SOCKETS_OF_4)])
    reading = machine((gpu(i, nvlinks=ports[i], numa_node=i // 4) for i in range(8)), levels)
    assert positions(built(reading)) == [4, 5, 6, 7, 0, 1, 2, 3]


@pytest.mark.parametrize(("attribute", "size"), [("nvlinkPair", 2), ("nvlinkQuad", 4)])
@pytest.mark.parametrize("name", ["dgx_1p", "dgx_1v", "dgx_2", "hgx_8"])
def test_single_gpus_taken_in_order_leave_as_many_whole_sets_as_can_be(name: str, attribute: str, size: int) -> None:
    """What kube-scheduler does with pods of one GPU, one after the other."""
    devices = built(getattr(machines, name)()).devices
    for taken in range(len(devices) + 1):
        free = Counter(device.attributes[attribute] for device in devices[taken:])
        assert sum(count == size for count in free.values()) == (len(devices) - taken) // size


def test_the_same_machine_gives_the_same_bytes() -> None:
    first, second = (msgspec.json.encode(built(machines.dgx_2()).devices) for _ in range(2))
    assert first == second


def device(number: int, **parts: object) -> Device:
    return Device(name=f"gpu-{number}", **parts)  # type: ignore[arg-type]  # a builder


def test_a_pool_without_devices_is_one_empty_slice() -> None:
    """No slice at all would mean that nobody manages the pool."""
    assert build_slice_contents(()) == (SliceContent(),)


SIZES = {"one": (1, [1]), "64": (64, [64]), "65": (65, [64, 1]), "128": (128, [64, 64]), "208": (208, [64, 64, 64, 16])}


@pytest.mark.parametrize(("count", "sizes"), SIZES.values(), ids=SIZES.keys())
def test_devices_are_cut_at_64_in_order(count: int, sizes: list[int]) -> None:
    devices = tuple(device(i) for i in range(count))
    contents = build_slice_contents(devices)
    assert [len(content.devices) for content in contents] == sizes
    assert tuple(entry for content in contents for entry in content.devices) == devices
    assert pool_faults(contents) == []


def test_counters_stand_apart_eight_sets_a_slice() -> None:
    counter_sets = tuple(CounterSet(name=f"gpu-{i}", counters={"memory": CounterValue(value="80Gi")}) for i in range(9))
    draws = (CounterConsumption(counter_set="gpu-8", counters={"memory": CounterValue(value="10Gi")}),)
    contents = build_slice_contents([device(0, consumes_counters=draws)], counter_sets)
    assert [(len(content.shared_counters), len(content.devices)) for content in contents] == [(8, 0), (1, 0), (0, 1)]
    assert pool_faults(contents) == []


@pytest.mark.parametrize("allocator", list(Allocator))
@pytest.mark.parametrize("name", ["dgx_1p", "dgx_1v", "dgx_2", "hgx_8", "bridged", "half_bridged", "pcie_only"])
def test_a_known_machine_is_published_legally(name: str, allocator: Allocator) -> None:
    reading: MachineReading = getattr(machines, name)()
    devices = built(reading, allocator).devices
    assert len(devices) == len(reading.gpus)
    assert pool_faults(build_slice_contents(devices)) == []


hostile_text = st.one_of(
    st.text(max_size=100), st.text(st.characters(min_codepoint=0x80), max_size=80), st.sampled_from(["", "\x00", "\udc80"])
)
numbers = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**70), 2**70))
versions = st.one_of(st.none(), st.tuples(st.integers(-1, 2**66), st.integers(-1, 2**66)))
hostile_pci = st.builds(PciAddress, st.integers(0, 2**32 - 1), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
ports = st.lists(
    st.builds(
        NvLinkReading,
        link=st.integers(0, 18),
        is_active=st.booleans(),
        remote_type=st.sampled_from(RemoteType),
        remote_pci=st.one_of(st.none(), hostile_pci),
    ),
    max_size=4,
).map(tuple)
hostile_gpus = st.builds(
    GpuReading,
    index=st.integers(0, 100),
    uuid=hostile_text.map(GpuUUID),
    pci=hostile_pci,
    minor=st.integers(0, 255),
    product_name=hostile_text,
    brand=st.one_of(st.none(), hostile_text),
    architecture=st.one_of(st.none(), hostile_text),
    cuda_compute_capability=versions,
    memory_bytes=numbers,
    addressing_mode=st.one_of(st.none(), hostile_text),
    module_id=numbers,
    mig=st.sampled_from(
        (
            None,
            MigReading(is_enabled=False, is_enabled_after_reset=False),
            MigReading(is_enabled=True, is_enabled_after_reset=True),
        )
    ),
    nvlinks=ports,
    fabric=st.one_of(
        st.none(), st.builds(FabricReading, cluster_uuid=hostile_text, clique_id=st.integers(), is_complete=st.booleans())
    ),
    numa_node=numbers,
    pcie_root=st.one_of(st.none(), st.from_regex(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", fullmatch=True)),
)
hostile_machines = st.builds(
    MachineReading,
    driver_version=st.one_of(hostile_text, st.text(string.digits + ".-+", max_size=80)),
    cuda_driver_version=versions,
    gpus=st.lists(hostile_gpus, max_size=5, unique_by=lambda reading: reading.pci).map(tuple),
)


@given(hostile_machines, st.text(max_size=40), st.sampled_from(Allocator))
@settings(max_examples=120, deadline=None)
def test_no_machine_makes_an_illegal_slice(reading: MachineReading, node_uid: str, allocator: Allocator) -> None:
    """One illegal value would cost the node all its devices (B19, B21, B23)."""
    found = build_devices(build_topology(reading), node_uid=node_uid, allocator=allocator)
    assert pool_faults(build_slice_contents(found.devices)) == []
    assert len(found.devices) == sum(not reading.is_mig_enabled for reading in reading.gpus)


def test_the_largest_slice_is_far_below_what_the_store_takes() -> None:
    """64 devices with every attribute as long as it may be."""
    full = {f"resource.kubernetes.io/{'a' * 30}{i:02}": Attribute(string="\u00e9" * 32) for i in range(32)}
    contents = build_slice_contents(
        [device(i, attributes=full, taints=build_fence_taints(Allocator.CONTROLLER)) for i in range(64)]
    )
    assert pool_faults(contents) == []
    assert len(msgspec.json.encode(contents[0].devices)) < 500_000
