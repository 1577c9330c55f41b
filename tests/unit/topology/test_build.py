"""A reading becomes GPUs that know their place."""

from __future__ import annotations

from driver.topology.build import build_topology
from driver.topology.model import Gpu
from tests.unit.topology.machines import dgx_1v, gpu, hgx_8, machine


def test_gpus_stand_in_order_of_their_slots_whatever_nvml_says() -> None:
    topology = build_topology(machine([gpu(2, index=0), gpu(0, index=1), gpu(1, index=2)]))
    assert [found.name for found in topology.gpus] == ["gpu-0000-10-00-0", "gpu-0000-11-00-0", "gpu-0000-12-00-0"]


def test_a_gpu_knows_its_sets_and_links() -> None:
    reading = dgx_1v()
    topology = build_topology(reading)
    assert topology.gpus[7] == Gpu(
        name=topology.gpus[7].name,
        reading=reading.gpus[7],
        nvlink_count=6,
        island=4,
        island_size=4,
        quad=4,
        pair=4,
        component=0,
    )


def test_a_gpu_keeps_its_name_when_another_falls_off_the_bus() -> None:
    """A claim on the second GPU must not point at the third (B25)."""
    whole = build_topology(machine([gpu(0), gpu(1), gpu(2)]))
    rest = build_topology(machine([gpu(1, index=0, minor=0), gpu(2, index=1, minor=1)]))
    assert [found.name for found in rest.gpus] == [found.name for found in whole.gpus[1:]]


def test_a_gpu_whose_links_are_all_down_stands_alone_and_the_others_keep_their_island() -> None:
    topology = build_topology(hgx_8(without_links=frozenset({2})))
    assert [found.island_size for found in topology.gpus] == [7, 7, 1, 7, 7, 7, 7, 7]
    assert topology.gpus[2].nvlink_count == 0


def test_versions_are_passed_on_verbatim() -> None:
    topology = build_topology(machine([]))
    assert (topology.driver_version, topology.cuda_driver_version, topology.gpus) == ("580.159.04", (13, 0), ())
