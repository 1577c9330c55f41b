"""Fragmentation: what is free and how it lies, what fits now, what is in the way."""

from __future__ import annotations

import pytest

from driver.cli.gpu.fragments import build_fragmentation, find_allocator
from driver.cli.gpu.views import FreeNodeView, FreeProductView, IslandView, LargestView
from tests.unit.cli.gpu.stories import BOARDS, gpu, islands, occupy
from tests.unit.controller.world import World, machine

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
FIVE = ("node-a", "node-b", "node-c", "node-d", "node-e")


def largest(world: World) -> dict[tuple[str, str], LargestView]:
    return {(each.allocator, each.scope): each for each in build_fragmentation(world.cluster).largest}


def test_the_islands_story() -> None:
    """Five nodes, ten islands of four, two GPUs free in each: 20 GPUs, and no four of them hang together."""
    view = build_fragmentation(islands(*FIVE).cluster)
    assert view.products == (
        FreeProductView(
            allocator="controller",
            product=A100,
            nodes=5,
            gpus=40,
            free=20,
            allocated=20,
            unavailable=0,
            sets={"8": 0, "4": 0, "2": 10, "1": 20},
            possible={"8": 2, "4": 5, "2": 10, "1": 20},
            partitions={},
        ),
    )
    assert view.nodes[0] == FreeNodeView(
        node="node-a",
        allocator="controller",
        is_cordoned=False,
        product=A100,
        gpus=8,
        free=4,
        allocated=4,
        unavailable=0,
        sets={"8": 0, "4": 0, "2": 2, "1": 4},
        islands=(IslandView(island=0, gpus=4, free=2), IslandView(island=1, gpus=4, free=2)),
        partitions={},
    )
    assert [each.node for each in view.nodes] == list(FIVE)


def test_the_largest_request_that_fits_now_by_scope() -> None:
    found = largest(islands(*FIVE))
    assert {scope: (each.size, each.next_size) for (_, scope), each in found.items()} == {
        "nvlink": (2, 4),
        "numa": (2, 4),
        "pcie": (2, 4),
        "node": (4, 8),
    }
    assert found["controller", "nvlink"].nodes == FIVE


def test_what_is_in_the_way_of_the_next_larger_size() -> None:
    ways = largest(islands(*FIVE))["controller", "nvlink"].ways
    assert [(way.node, way.free, [each.claim for each in way.held_by]) for way in ways] == [
        ("node-a", 2, ["team/node-a-one"]),
        ("node-b", 2, ["team/node-b-one"]),
        ("node-c", 2, ["team/node-c-one"]),
    ]


def test_nothing_is_in_the_way_of_the_largest_size_there_is() -> None:
    found = largest(islands("node-a", taken={}))
    assert (found["controller", "node"].size, found["controller", "node"].next_size) == (8, None)
    assert found["controller", "nvlink"].ways == ()


def test_each_allocator_is_counted_apart() -> None:
    world = islands("node-a")
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.node("node-x", machine("dgx-h100", "draining"))
    view = build_fragmentation(world.cluster)
    assert [(each.allocator, each.product, each.free, each.unavailable) for each in view.products] == [
        ("controller", A100, 4, 0),
        ("scheduler", H100, 8, 0),
        ("draining", H100, 0, 8),
    ]
    assert {allocator for allocator, _ in largest(world)} == {"controller", "scheduler"}
    assert largest(world)["scheduler", "nvlink"].size == 8


def test_a_cordoned_node_fits_nothing_and_is_shown() -> None:
    world = islands("node-a")
    world.node("node-b", machine(BOARDS), unschedulable=True)
    view = build_fragmentation(world.cluster)
    assert [(each.node, each.is_cordoned, each.free) for each in view.nodes] == [("node-a", False, 4), ("node-b", True, 8)]
    assert largest(world)["controller", "node"].size == 4


def test_devices_without_a_node_fit_nothing() -> None:
    world = World()
    world.slice("node-a", machine(BOARDS))
    assert build_fragmentation(world.cluster).nodes[0].is_cordoned
    assert build_fragmentation(world.cluster).largest == ()


def test_tainted_gpus_are_unavailable_and_those_in_use_are_not_counted_twice() -> None:
    world = islands("node-a", taken={"node-a": [0, 1]})
    for at in (1, 7):
        world.rule(f"bad-{at}", device=gpu(BOARDS, at)[0])
    (node,) = build_fragmentation(world.cluster).nodes
    assert (node.free, node.allocated, node.unavailable) == (5, 2, 1)


def test_a_pool_that_is_left_out_is_told() -> None:
    world = islands("node-a")
    world.slice("node-b", machine(BOARDS), of=2)
    view = build_fragmentation(world.cluster, ("read with care",))
    assert view.notes == ("read with care", "pool node-b is left out: incomplete: 1 of 2 slices; it is being updated")


def test_an_empty_cluster_has_nothing_to_tell() -> None:
    view = build_fragmentation(World().cluster)
    assert (view.products, view.largest, view.nodes, view.notes) == ((), (), (), ())


@pytest.mark.parametrize("value", ["controller", "scheduler", "draining"])
def test_whose_devices_a_node_has(value: str) -> None:
    world = World()
    world.node("node-a", machine(BOARDS, value))
    assert find_allocator(world.cluster.fleet.nodes["node-a"]) == value


def test_a_node_half_of_which_is_fenced_is_mixed() -> None:
    """A plugin is about to change it."""
    world = World()
    world.node("node-a", (*machine(BOARDS)[:4], *machine(BOARDS, "scheduler")[4:]))
    assert find_allocator(world.cluster.fleet.nodes["node-a"]) == "mixed"
    assert build_fragmentation(world.cluster).nodes[0].allocator == "mixed"


def test_claims_of_several_gpus_over_islands_are_counted_where_they_are() -> None:
    world = islands("node-a", taken={})
    occupy(world, "wide", "node-a", gpu(BOARDS, 0, 4))
    (node,) = build_fragmentation(world.cluster).nodes
    assert [island.free for island in node.islands] == [3, 3]
    assert largest(world)["controller", "nvlink"].ways[0].held_by[0].gpus == 1
