"""Free sets, the largest that fits, and what could serve more, by hand-made expectations of machines."""

from __future__ import annotations

import pytest

from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.fleet import Holding
from driver.api.topology_policy import Scope
from driver.cli.gpu.sets import (
    count_partitions,
    count_sets,
    find_largest,
    list_groups,
    list_legal_sets,
    number_islands,
    read_masks,
)
from tests.unit.allocator.mig import mig_fleet, position
from tests.unit.cli.gpu.stories import BOARDS, gpu, islands, occupy
from tests.unit.controller.world import World, machine


def node_of(name: str, world: World | None = None) -> DeviceNode:
    made = world or World()
    made.node("node-a", machine(name))
    return made.cluster.fleet.nodes["node-a"]


def mask(*positions: int) -> int:
    return sum(1 << at for at in positions)


FREE = [
    ("all of two boards", BOARDS, mask(*range(8)), {8: 1, 4: 2, 2: 4, 1: 8}),
    ("two of each board", BOARDS, mask(0, 1, 4, 5), {8: 0, 4: 0, 2: 2, 1: 4}),
    ("one of each board", BOARDS, mask(0, 4), {8: 0, 4: 0, 2: 0, 1: 2}),
    ("nothing", BOARDS, 0, {8: 0, 4: 0, 2: 0, 1: 0}),
    ("seven behind switches", "dgx-h100", mask(*range(7)), {8: 0, 4: 1, 2: 3, 1: 7}),
    ("sixteen behind switches", "dgx-2", mask(*range(16)), {16: 1, 8: 2, 4: 4, 2: 8, 1: 16}),
]


@pytest.mark.parametrize(("name", "free", "sets"), [case[1:] for case in FREE], ids=[case[0] for case in FREE])
def test_free_sets_by_size(name: str, free: int, sets: dict[int, int]) -> None:
    assert count_sets(node_of(name).shape.tables, free) == sets


LARGEST = [
    ("all of two boards", BOARDS, mask(*range(8)), (4, 4, 4, 8)),
    ("two and three", BOARDS, mask(0, 1, 4, 5, 6), (3, 3, 3, 5)),
    ("nothing", BOARDS, 0, (0, 0, 0, 0)),
    ("one", BOARDS, mask(3), (1, 1, 1, 1)),
    ("all behind switches", "dgx-h100", mask(*range(8)), (8, 4, 1, 8)),
    ("a cube mesh", "dgx-1v", mask(*range(8)), (8, 4, 4, 8)),
    ("two of a cube mesh that are not linked", "dgx-1v", mask(0, 5), (1, 1, 1, 2)),
    ("no NVLink at all", "l40s", mask(*range(4)), (1, 4, 2, 4)),
]
"""By NVLink, NUMA node, PCIe root, node."""


@pytest.mark.parametrize(("name", "free", "sizes"), [case[1:] for case in LARGEST], ids=[case[0] for case in LARGEST])
def test_the_largest_set_by_scope(name: str, free: int, sizes: tuple[int, ...]) -> None:
    tables = node_of(name).shape.tables
    scopes = (Scope.NVLINK, Scope.NUMA, Scope.PCIE, Scope.NODE)
    assert tuple(find_largest(tables, free, scope) for scope in scopes) == sizes


def test_where_any_gpus_will_do_the_group_comes_once() -> None:
    tables = node_of(BOARDS).shape.tables
    everything = mask(*range(8))
    assert list(list_legal_sets(tables, everything, 3, Scope.NVLINK)) == [mask(0, 1, 2, 3), mask(4, 5, 6, 7)]
    assert list(list_legal_sets(tables, everything, 8, Scope.NVLINK)) == []
    assert list(list_legal_sets(tables, everything, 8, Scope.NODE)) == [everything]
    assert list(list_legal_sets(tables, mask(0, 1, 2), 2, Scope.NODE)) == [mask(0, 1, 2)]


def test_where_links_are_not_all_alike_each_ring_comes_by_itself() -> None:
    """Eight of 70 fours of a DGX-1V have a ring of NVLink (R16)."""
    tables = node_of("dgx-1v").shape.tables
    fours = list(list_legal_sets(tables, mask(*range(8)), 4, Scope.NVLINK))
    assert len(fours) == 8
    assert all(each.bit_count() == 4 and tables.is_nvlink_ring(each) for each in fours)


def test_groups_by_scope() -> None:
    tables = node_of(BOARDS).shape.tables
    assert list_groups(tables, mask(0, 1, 6), Scope.NVLINK) == [mask(0, 1), mask(6)]
    assert list_groups(tables, mask(0, 1, 6), Scope.NODE) == [mask(0, 1, 6)]
    assert list_groups(tables, 0, Scope.NODE) == []


def test_masks_tell_free_from_taken_and_tainted() -> None:
    world = islands("node-a", taken={"node-a": [0, 1]})
    world.rule("bad", device=gpu(BOARDS, 7)[0])
    node = world.cluster.fleet.nodes["node-a"]
    masks = read_masks(node, world.cluster.fleet.taken("node-a"))
    assert (masks.all, masks.healthy, masks.free) == (mask(*range(8)), mask(*range(7)), mask(2, 3, 4, 5, 6))


def test_a_tainted_gpu_that_is_somebodys_is_not_free_when_it_is_well_again() -> None:
    world = islands("node-a", taken={"node-a": [7]})
    node = world.cluster.fleet.nodes["node-a"]
    assert not read_masks(node, world.cluster.fleet.taken("node-a")).free >> 7 & 1


def test_machines_without_partitions_have_none() -> None:
    world = islands("node-a")
    assert count_partitions(world.cluster.fleet.nodes["node-a"], world.cluster.fleet.taken("node-a")) == {}


def test_islands_are_numbered_by_their_first_gpu() -> None:
    node = node_of(BOARDS)
    numbers = number_islands(node.values_of("gpu.nvidia.com/nvlinkIsland"), node.whole)
    assert numbers == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1, 7: 1}


def test_gpus_that_do_not_name_an_island_are_one_each() -> None:
    assert number_islands((-1, -1, 5), mask(0, 1, 2)) == {0: 0, 1: 1, 2: 2}


def test_what_kube_scheduler_allocates_counts_as_well() -> None:
    """Fragmentation is looked at for both sides."""
    world = World()
    world.classes()
    world.node("node-u", machine(BOARDS, "scheduler"))
    occupy(world, "a", "node-u", gpu(BOARDS, 0), by="kube-scheduler")
    masks = read_masks(world.cluster.fleet.nodes["node-u"], world.cluster.fleet.taken("node-u"))
    assert masks.free == mask(*range(1, 8))


def cut(*names: str) -> tuple[DeviceNode, Taken]:
    """A node of two GPUs that can be cut, of which these devices are somebody's."""
    fleet = mig_fleet({"node-a": 2})
    node = fleet.nodes["node-a"]
    fleet.hold([Holding(device=node.ids[position(node, *at)]) for at in map(_place, names)])
    return node, fleet.taken("node-a")


def _place(name: str) -> tuple[int, str | None, int | None]:
    """``0`` is a whole GPU, ``0 1g.10gb 4`` a part of it."""
    gpu_number, _, rest = name.partition(" ")
    profile, _, start = rest.partition(" ")
    return int(gpu_number), profile or None, int(start) if start else None


def test_a_gpu_that_is_cut_is_not_free_and_the_rest_of_it_is() -> None:
    node, taken = cut("0 1g.10gb 0")
    masks = read_masks(node, taken)
    assert masks.free == 1 << position(node, 1)
    assert masks.healthy == node.whole
    counts = count_partitions(node, taken)
    assert counts["7g.80gb"] == 1
    assert counts["1g.10gb"] == 6 + 7


def test_a_gpu_that_is_given_whole_has_no_partitions() -> None:
    node, taken = cut("0", "1")
    assert read_masks(node, taken).free == 0
    assert count_partitions(node, taken) == {}


def test_partitions_are_counted_each_by_itself() -> None:
    """Seven of the smallest fit on a GPU, or one of the largest: both are told."""
    counts = count_partitions(*cut())
    assert (counts["1g.10gb"], counts["3g.40gb"], counts["7g.80gb"]) == (14, 4, 2)
