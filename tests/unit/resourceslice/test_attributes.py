"""What a whole GPU says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.api.resource_v1 import Attribute, Capacity
from driver.names import PciAddress
from driver.nvml.readings import FabricReading, GpuReading, MachineReading, MigReading
from driver.resourceslice.attributes import WHOLE_GPU_ROWS, Allocator, GpuFacts, build_facts, legal_text, node_tag
from driver.topology.build import build_topology
from hack.docs.attributes import render_attributes_page
from tests.unit.topology.machines import dgx_1v, gpu, hgx_8, machine, mig_profiles, pci

NODE_UID = "1f0c22d4-a9b8-4c6e-9d1a-2b3c4d5e6f70"
CLUSTER = "9c6f5af3-53bf-49b5-a436-b66766c413c3"


def facts_of(
    reading: MachineReading, position: int = 0, allocator: Allocator = Allocator.SCHEDULER, *, is_divided: bool = False
) -> dict[str, object]:
    topology = build_topology(reading)
    gpu = topology.gpus[position]
    facts = GpuFacts(topology=topology, gpu=gpu, node_uid=NODE_UID, allocator=allocator, is_divided=is_divided)
    return dict(build_facts(facts))


FULL = gpu(
    3,
    uuid="GPU-7a0f2c55-3b0e-4c3e-9d7b-0b7c3d0a1e22",
    brand="Nvidia",
    architecture="Hopper",
    cuda_compute_capability=(9, 0),
    memory_bytes=81559 * 1024**2,
    addressing_mode="HMM",
    module_id=3,
    numa_node=1,
    pcie_root="pci0000:4a",
)


DIVISIBLE = replace(FULL, mig=MigReading(is_enabled=False, is_enabled_after_reset=False, profiles=mig_profiles("h100-80gb")))


def test_a_gpu_that_tells_everything_has_every_attribute() -> None:
    assert facts_of(machine([FULL])) == {
        "type": Attribute(string="gpu"),
        "uuid": Attribute(string="GPU-7a0f2c55-3b0e-4c3e-9d7b-0b7c3d0a1e22"),
        "productName": Attribute(string="NVIDIA H100 80GB HBM3"),
        "brand": Attribute(string="Nvidia"),
        "architecture": Attribute(string="Hopper"),
        "cudaComputeCapability": Attribute(version="9.0.0"),
        "driverVersion": Attribute(version="580.159.4"),
        "cudaDriverVersion": Attribute(version="13.0.0"),
        "addressingMode": Attribute(string="HMM"),
        "gpuModuleID": Attribute(int_=3),
        "resource.kubernetes.io/pciBusID": Attribute(string="0000:13:00.0"),
        "resource.kubernetes.io/pcieRoot": Attribute(string="pci0000:4a"),
        "resource.kubernetes.io/numaNode": Attribute(int_=1),
        "memory": Capacity(value="81559Mi"),
        "nvlinkIsland": Attribute(string="1f0c22d4a9b8-island-0000:13:00.0"),
        "nvlinkIslandSize": Attribute(int_=1),
        "nvlinkQuad": Attribute(string="1f0c22d4a9b8-quad-0000:13:00.0"),
        "nvlinkPair": Attribute(string="1f0c22d4a9b8-pair-0000:13:00.0"),
        "nvlinkLinks": Attribute(int_=0),
        "nvlinkDomain": Attribute(string="1f0c22d4a9b8-domain-0000:13:00.0"),
        "driverVersionText": Attribute(string="580.159.04"),
        "allocator": Attribute(string="scheduler"),
    }


def test_the_table_has_every_fact_of_a_full_gpu_in_its_own_order() -> None:
    assert list(facts_of(machine([DIVISIBLE]), is_divided=True)) == [row.name for row in WHOLE_GPU_ROWS]


def test_a_gpu_that_claims_divide_also_says_what_there_is_to_divide() -> None:
    """As NVIDIA's driver: the most of each over all profiles; its memory stays NVML's total in every mode."""
    more = facts_of(machine([DIVISIBLE]), is_divided=True)
    assert {name: more[name] for name in more.keys() - facts_of(machine([DIVISIBLE])).keys()} == {
        "multiprocessors": Capacity(value="132"),
        "copyEngines": Capacity(value="8"),
        "decoders": Capacity(value="7"),
        "encoders": Capacity(value="0"),
        "jpegEngines": Capacity(value="7"),
        "ofaEngines": Capacity(value="1"),
    }
    assert more["memory"] == Capacity(value="81559Mi")


def test_a_gpu_that_tells_nothing_still_has_all_that_selectors_of_ours_read() -> None:
    bare = MachineReading(driver_version="", cuda_driver_version=None, gpus=(gpu(0, product_name=""),))
    assert set(facts_of(bare)) == {
        "type",
        "uuid",
        "resource.kubernetes.io/pciBusID",
        "nvlinkIsland",
        "nvlinkIslandSize",
        "nvlinkQuad",
        "nvlinkPair",
        "nvlinkLinks",
        "nvlinkDomain",
        "allocator",
    }


def test_gpus_of_one_set_share_its_value_and_others_do_not() -> None:
    reading = dgx_1v()
    quads = [facts_of(reading, position)["nvlinkQuad"] for position in range(8)]
    pairs = [facts_of(reading, position)["nvlinkPair"] for position in range(8)]
    assert [quads.index(quad) for quad in quads] == [0, 0, 0, 0, 4, 4, 4, 4]
    assert [pairs.index(pair) for pair in pairs] == [0, 1, 1, 0, 4, 5, 5, 4]


def test_a_complete_fabric_is_the_domain() -> None:
    fabric = FabricReading(cluster_uuid=CLUSTER, clique_id=4026, is_complete=True)
    assert facts_of(machine([gpu(0, fabric=fabric)]))["nvlinkDomain"] == Attribute(string=f"{CLUSTER}.4026")


def test_a_fabric_of_zeros_leaves_the_domain_to_the_node() -> None:
    fabric = FabricReading(cluster_uuid="00000000-0000-0000-0000-000000000000", clique_id=0, is_complete=True)
    value = facts_of(machine([gpu(0, fabric=fabric)]))["nvlinkDomain"]
    assert value == Attribute(string="1f0c22d4a9b8-domain-0000:10:00.0")


def test_a_gpu_outside_of_the_island_has_an_island_of_its_own() -> None:
    reading = hgx_8(without_links=frozenset({2}))
    assert facts_of(reading, 2)["nvlinkIsland"] == Attribute(string="1f0c22d4a9b8-island-0000:12:00.0")
    assert facts_of(reading, 3)["nvlinkIsland"] == Attribute(string="1f0c22d4a9b8-island-0000:10:00.0")
    assert facts_of(reading, 2)["nvlinkIslandSize"] == Attribute(int_=1)
    assert facts_of(reading, 3)["nvlinkIslandSize"] == Attribute(int_=7)


def test_the_fence_is_visible_to_selectors() -> None:
    assert facts_of(machine([FULL]), allocator=Allocator.CONTROLLER)["allocator"] == Attribute(string="controller")


ABSENT: dict[str, tuple[GpuReading, str]] = {
    "memory that NVML cannot total (GB10)": (gpu(0), "memory"),
    "a NUMA node of -1": (gpu(0, numa_node=-1), "resource.kubernetes.io/numaNode"),
    "a module id of 0": (gpu(0, module_id=0), "gpuModuleID"),
    "a bus id in a long PCI domain": (gpu(0, pci=PciAddress(0x10001, 1, 0)), "resource.kubernetes.io/pciBusID"),
    "an empty brand": (gpu(0, brand=""), "brand"),
    "negative memory": (gpu(0, memory_bytes=-1), "memory"),
    "a negative compute capability": (gpu(0, cuda_compute_capability=(-1, 0)), "cudaComputeCapability"),
}


@pytest.mark.parametrize(("reading", "name"), ABSENT.values(), ids=ABSENT.keys())
def test_what_has_no_legal_value_is_absent(reading: GpuReading, name: str) -> None:
    assert name not in facts_of(machine([reading]))


def test_module_id_0_counts_as_unknown_but_numa_node_0_does_not() -> None:
    facts = facts_of(machine([gpu(0, module_id=0, numa_node=0)]))
    assert facts["resource.kubernetes.io/numaNode"] == Attribute(int_=0)
    assert "gpuModuleID" not in facts


def test_a_long_pci_domain_still_names_its_sets() -> None:
    facts = facts_of(machine([gpu(0, pci=PciAddress(0xFFFFFFFF, 0xFF, 0x1F, 7))]))
    assert facts["nvlinkIsland"] == Attribute(string="1f0c22d4a9b8-island-ffffffff:ff:1f.7")


CUT = {
    "64 bytes stay": ("a" * 64, "a" * 64),
    "65 bytes lose one": ("a" * 65, "a" * 64),
    "200 bytes": ("b" * 200, "b" * 64),
    "a character across byte 64 goes whole": ("a" * 63 + "\u00e9", "a" * 63),
    "a character up to byte 64 stays": ("a" * 62 + "\u00e9", "a" * 62 + "\u00e9"),
    "four bytes across": ("a" * 61 + "\U0001f600", "a" * 61),
    "no UTF-8 at all": ("caf\udce9", "caf?"),
}


@pytest.mark.parametrize(("text", "legal"), CUT.values(), ids=CUT.keys())
def test_a_text_is_cut_at_64_bytes_between_characters(text: str, legal: str) -> None:
    assert legal_text(text) == legal


def test_a_product_name_of_80_bytes_costs_no_other_attribute() -> None:
    long, short = (facts_of(machine([gpu(0, product_name=name)])) for name in ("x" * 80, "x" * 10))
    assert long["productName"] == Attribute(string="x" * 64)
    assert long.keys() == short.keys()


def test_a_nodes_tag_is_the_start_of_its_uid() -> None:
    assert node_tag(NODE_UID) == "1f0c22d4a9b8"


@pytest.mark.parametrize("uid", ["", "node-1", "é" * 40, "1F0C22D4-zzzz"])
def test_a_uid_that_is_none_still_gives_a_tag_of_its_own(uid: str) -> None:
    tag = node_tag(uid)
    assert len(tag) == 12
    assert int(tag, 16) >= 0
    assert tag != node_tag(uid + "x")


def test_no_two_rows_have_one_name_and_each_is_explained() -> None:
    assert len({row.name for row in WHOLE_GPU_ROWS}) == len(WHOLE_GPU_ROWS)
    assert all(row.meaning.endswith(".") and row.example for row in WHOLE_GPU_ROWS)


def test_each_row_has_the_type_that_it_says() -> None:
    kinds = {"string": "string", "int": "int_", "version": "version", "quantity": "value"}
    facts = facts_of(machine([DIVISIBLE]), is_divided=True)
    assert all(getattr(facts[row.name], kinds[row.type]) is not None for row in WHOLE_GPU_ROWS)


def test_the_page_for_users_is_the_table() -> None:
    """Run ``python -m hack.docs`` when this fails."""
    page = Path(__file__).parents[3] / "docs/attributes.md"
    assert page.read_text(encoding="utf-8") == render_attributes_page()


def test_addresses_in_values_are_the_kernels_form() -> None:
    assert str(pci(0)) in str(facts_of(machine([gpu(0)]))["nvlinkPair"])
