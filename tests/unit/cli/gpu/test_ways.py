"""Who has what, and whose claims are in the way of a larger set: as few as possible."""

from __future__ import annotations

from driver.api.topology_policy import Scope
from driver.cli.gpu.holders import Holders, allocated_at_s, allocator_of, choose_fewest
from driver.cli.gpu.sets import read_masks
from driver.cli.gpu.views import HolderView, WayView
from driver.cli.gpu.ways import Candidate, choose_ways
from driver.controller.objects.life import parse_time_s
from tests.unit.allocator.mig import position
from tests.unit.cli.gpu.stories import AT, BOARDS, cut_gpus, gpu, islands, occupy
from tests.unit.controller.world import CREATED, World, machine, request


def mask(*positions: int) -> int:
    return sum(1 << at for at in positions)


def ways(world: World, size: int, scope: Scope) -> tuple[WayView, ...]:
    fleet = world.cluster.fleet
    candidates = [Candidate(node=node, masks=read_masks(node, fleet.taken(name))) for name, node in sorted(fleet.nodes.items())]
    return choose_ways(candidates, Holders(world.cluster), size, scope)


def held(name: str, gpus: int, **more: str) -> HolderView:
    return HolderView(claim=f"team/{name}", pods=(name,), gpus=gpus, since=more.get("since", AT), allocator="controller")


def test_the_claims_of_a_node_with_their_devices() -> None:
    world = islands("node-a", "node-b")
    found = Holders(world.cluster).on(world.cluster.fleet.nodes["node-a"])
    assert [(each.name, each.pods, each.positions) for each in found] == [
        ("team/node-a-one", ("node-a-one",), mask(0, 1)),
        ("team/node-a-two", ("node-a-two",), mask(4, 5)),
    ]
    assert Holders(world.cluster).used(world.cluster.fleet.nodes["node-a"]) == mask(0, 1, 4, 5)


def test_admin_access_holds_nothing() -> None:
    world = islands("node-a", taken={})
    world.claim("watcher")
    world.allocate("watcher", "node-a", gpu(BOARDS, 0)[0], adminAccess=True)
    assert Holders(world.cluster).on(world.cluster.fleet.nodes["node-a"]) == ()


def test_since_when_is_the_allocation_or_else_the_claims_own_age() -> None:
    world = islands("node-a", taken={})
    first = occupy(world, "one", "node-a", gpu(BOARDS, 0))
    assert allocated_at_s(first) == parse_time_s(AT)
    world.claim("two", request())
    old = world.change_claim("two", metadata={"creationTimestamp": CREATED})
    assert allocated_at_s(old) == parse_time_s(CREATED)


def test_who_allocated_is_known_by_the_annotation() -> None:
    world = islands("node-a", taken={})
    assert allocator_of(occupy(world, "one", "node-a", gpu(BOARDS, 0))) == "controller"
    assert allocator_of(occupy(world, "two", "node-a", gpu(BOARDS, 1), by="kube-scheduler")) == "kube-scheduler"


def test_one_claim_of_three_gpus_goes_before_two_smaller_ones() -> None:
    world = islands("node-a", taken={})
    occupy(world, "small-a", "node-a", gpu(BOARDS, 0))
    occupy(world, "large", "node-a", gpu(BOARDS, 4, 5, 6))
    occupy(world, "small-b", "node-a", gpu(BOARDS, 1))
    found = Holders(world.cluster).on(world.cluster.fleet.nodes["node-a"])
    everything = mask(*range(8))
    assert [each.name for each in choose_fewest(found, everything, 3)] == ["team/large"]
    assert [each.name for each in choose_fewest(found, everything, 4)] == ["team/large", "team/small-a"]
    assert [each.name for each in choose_fewest(found, mask(0, 1), 1)] == ["team/small-a"]
    assert choose_fewest(found, mask(7), 1) == ()


def test_an_island_of_which_one_claim_has_a_part() -> None:
    world = islands("node-a")
    assert ways(world, 4, Scope.NVLINK) == (
        WayView(node="node-a", scope="nvlink", size=4, gpus=(0, 1, 2, 3), free=2, held_by=(held("node-a-one", 2),)),
    )


def test_the_node_where_the_fewest_claims_are_in_the_way_comes_first() -> None:
    world = islands("node-a", "node-b", taken={})
    occupy(world, "a", "node-a", gpu(BOARDS, 0))
    occupy(world, "b", "node-a", gpu(BOARDS, 1))
    occupy(world, "c", "node-a", gpu(BOARDS, 4))
    occupy(world, "d", "node-a", gpu(BOARDS, 5))
    occupy(world, "e", "node-b", gpu(BOARDS, 0, 1, 2))
    occupy(world, "f", "node-b", gpu(BOARDS, 4, 5))
    found = ways(world, 4, Scope.NVLINK)
    assert [(way.node, [each.claim for each in way.held_by]) for way in found] == [
        ("node-b", ["team/f"]),
        ("node-a", ["team/a", "team/b"]),
    ]
    assert found[0].gpus == (4, 5, 6, 7)


def test_of_a_cube_mesh_the_ring_with_the_fewest_claims_is_found() -> None:
    world = World()
    world.classes()
    world.node("node-a", machine("dgx-1v"))
    occupy(world, "a", "node-a", gpu("dgx-1v", 0, 7))
    found = ways(world, 4, Scope.NVLINK)
    node = world.cluster.fleet.nodes["node-a"]
    assert node.shape.tables.is_nvlink_ring(mask(*found[0].gpus))
    assert found[0].free >= 3


def test_a_scope_that_no_machine_has_has_no_way() -> None:
    assert ways(islands("node-a"), 8, Scope.NVLINK) == ()


def test_gpus_that_are_tainted_are_in_nobodys_way() -> None:
    """Nobody could end anything to get them."""
    world = islands("node-a")
    world.rule("bad", device=gpu(BOARDS, 2)[0])
    assert [way.gpus for way in ways(world, 4, Scope.NVLINK)] == [(4, 5, 6, 7)]


def test_a_claim_without_pods_is_named_without() -> None:
    world = islands("node-a", taken={})
    occupy(world, "kept", "node-a", gpu(BOARDS, 0), pods=False)
    occupy(world, "other", "node-a", gpu(BOARDS, 4))
    found = ways(world, 8, Scope.NODE)
    assert [(each.claim, each.pods) for each in found[0].held_by] == [("team/kept", ()), ("team/other", ("other",))]


def test_a_claim_for_a_part_of_a_gpu_is_in_the_way_of_the_whole() -> None:
    world = cut_gpus("node-a")
    node = world.cluster.fleet.nodes["node-a"]
    occupy(world, "small", "node-a", [node.ids[position(node, 0, "1g.10gb", 0)].device])
    (way,) = ways(world, 2, Scope.NODE)
    assert (way.free, [each.claim for each in way.held_by], way.held_by[0].gpus) == (1, ["team/small"], 1)
