"""What is chosen: links first, then damage, then fullness, and never chance."""

from __future__ import annotations

import pytest

from driver.allocator.decide import place
from driver.allocator.pools import Pool
from tests.unit.allocator.cases import (
    DRIVER,
    ask,
    chosen,
    devices_of,
    fleet_of,
    gpus,
    hold,
    missed,
    placed,
    policy,
    positions,
    problem,
    request,
)


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ((0, 2, 4, 5), 2, (4, 5)),
        ((0, 4, 5, 6), 2, (5, 6)),
        ((0, 1, 3), 2, (0, 3)),
        ((0, 1, 4), 2, (0, 4)),
        ((0, 1, 2, 3, 4, 5, 6, 7), 2, (0, 3)),
        ((0, 1, 2, 3, 4, 5, 6, 7), 4, (0, 1, 2, 3)),
        ((4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ((0, 1, 2, 3, 4, 5, 6, 7), 8, (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
    ids=str,
)
def test_dgx_1v_as_go_gpuallocator_expects_it(free: tuple[int, ...], count: int, expected: tuple[int, ...]) -> None:
    """Its own tests' expectations are met or bettered, by what slices tell."""
    fleet = fleet_of({"a": devices_of("dgx-1v")})
    hold(fleet, "a", [at for at in range(8) if at not in free])
    picked = positions(placed(fleet, ask(request(count=count))))[0]
    tables = fleet.nodes["a"].shape.tables
    ring = tables.ring(sum(1 << at for at in picked))
    assert ring >= tables.ring(sum(1 << at for at in expected))


def test_pairs_of_a_cube_mesh_in_sequence() -> None:
    """Four pairs one after the other are the four double links: none spoils another."""
    fleet = fleet_of({"a": devices_of("dgx-1v")})
    pairs = []
    for _ in range(4):
        pair = positions(placed(fleet, ask(request(count=2))))[0]
        hold(fleet, "a", pair)
        pairs.append(tuple(pair))
    assert sorted(pairs) == [(0, 3), (1, 2), (4, 7), (5, 6)]


def test_single_goes_where_it_breaks_least() -> None:
    """To the GPU whose partner is taken, not into a whole pair (device-plugin #1193)."""
    fleet = fleet_of({"a": devices_of("a100-pcie-bridged")})
    hold(fleet, "a", [0])
    assert positions(placed(fleet, ask(request()))) == [[2]]


def test_single_takes_the_gpu_that_lost_its_links() -> None:
    """It is of no use to anybody who wants NVLink."""
    fleet = fleet_of({"a": devices_of("hgx-b200-gpu2-unlinked")})
    assert positions(placed(fleet, ask(request()))) == [[2]]


def test_singles_fill_islands_one_by_one() -> None:
    """The islands story: 20 singles on 5 nodes of two islands leave 5 islands whole, so that a required four fits."""
    fleet = fleet_of({f"node-{number}": devices_of("hgx-a100-4x2") for number in range(5)})
    for _ in range(20):
        placement = placed(fleet, ask(request()))
        hold(fleet, placement.node, positions(placement)[0])
    whole = [(name, island) for name in fleet.nodes for island in (0b1111, 0b11110000) if not fleet.taken(name).mask & island]
    assert len(whole) == 5
    four = ask(request(count=4), config=[policy(scope="nvlink", mode="required")])
    assert positions(placed(fleet, four))[0] in ([0, 1, 2, 3], [4, 5, 6, 7])


def test_fuller_node_first_and_emptier_with_spread() -> None:
    nodes = {"a": gpus(8, type="gpu"), "b": gpus(8, type="gpu")}
    fleet = fleet_of(nodes)
    hold(fleet, "b", [0, 1, 2])
    assert placed(fleet, ask(request())).node == "b"
    hold(fleet, "a", [0])
    assert placed(fleet, ask(request())).node == "b"
    assert placed(fleet, ask(request(), config=[policy(packing="spread")])).node == "a"


def test_equal_nodes_go_by_name() -> None:
    """Never by chance: random ties cost large pods most (topology.md, B3)."""
    fleet = fleet_of({name: gpus(4) for name in ("c", "a", "b")})
    assert placed(fleet, ask(request())).node == "a"


def test_small_preferred_claims_do_not_eat_the_newest_islands() -> None:
    """A mixed fleet: a pair is as ideal on A100 as on B200, so the broken node serves it (R19)."""
    fleet = fleet_of({"a-b200": devices_of("hgx-b200"), "z-a100": devices_of("hgx-a100-4")})
    hold(fleet, "z-a100", [0])
    assert placed(fleet, ask(request(count=2))).node == "z-a100"


def test_required_scope_waits_and_preferred_does_not() -> None:
    fleet = fleet_of({"a": devices_of("hgx-a100-4x2")})
    hold(fleet, "a", [0, 1, 4, 5])
    assert positions(placed(fleet, ask(request(count=4)))) == [[2, 3, 6, 7]]
    required = ask(request(count=4), config=[policy(scope="nvlink", mode="required")])
    assert missed(fleet, required).text == (
        "1 node, 4 free GPUs; need 4 on one NVLink island; largest free set is 2 (a island 0, a island 1)"
    )


@pytest.mark.parametrize(
    ("scope", "taken", "fits"),
    [("numa", [0], False), ("numa", [], True), ("pcie", [], False), ("node", [0], True)],
    ids=["numa node broken", "numa node whole", "each GPU has a root of its own", "node is always true"],
)
def test_required_scopes(scope: str, taken: list[int], fits: bool) -> None:
    """Four GPUs of a DGX H100: two NUMA nodes of four, a PCIe root each."""
    fleet = fleet_of({"a": devices_of("dgx-h100")})
    hold(fleet, "a", [*taken, *(at + 4 for at in taken)])
    claim = ask(request(count=4), config=[policy(scope=scope, mode="required")])
    assert (place(fleet, problem(claim)) is not None) is fits


def test_preferred_numa_comes_before_whole_sets() -> None:
    fleet = fleet_of({"a": devices_of("dgx-h100")})
    hold(fleet, "a", [0, 1, 4])
    assert positions(placed(fleet, ask(request(count=2), config=[policy(scope="numa")])))[0] in ([2, 3], [5, 6], [5, 7], [6, 7])


def test_claims_of_a_pod_are_placed_together() -> None:
    """Two pairs of one pod lie in one quad, where one after the other could not know."""
    fleet = fleet_of({"a": devices_of("hgx-a100-4x2")})
    hold(fleet, "a", [0])
    placement = placed(fleet, ask(request(count=2), name="one"), ask(request(count=2), name="two"))
    assert sorted(at for each in positions(placement) for at in each) == [4, 5, 6, 7]


def test_nodes_that_are_not_allowed_are_passed_over() -> None:
    fleet = fleet_of({"a": gpus(2), "b": gpus(2)})
    asked = problem(ask(request()))
    found = place(fleet, asked, allows=lambda name: name != "a")
    assert found is not None
    assert found.node == "b"
    only = place(fleet, asked, only=["b", "unknown"])
    assert only is not None
    assert only.node == "b"
    assert place(fleet, asked, only=[]) is None


def test_pools_of_a_node_are_seen_together() -> None:
    fleet = fleet_of({})
    pools = [Pool(driver=DRIVER, name=f"pool-{n}", node="a", devices=gpus(1)) for n in range(2)]
    fleet.set_node("a", pools)
    assert len(chosen(fleet, placed(fleet, ask(request(count=2))))[0]) == 2
