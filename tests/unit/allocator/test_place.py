"""What is chosen: feasible first, then links, damage, packing; all that kube-scheduler honours."""

from __future__ import annotations

import pytest

from driver.allocator.decide import explain, place
from driver.allocator.fleet import Holding
from driver.allocator.pools import Pool
from driver.allocator.problem import ClaimAsk, ProblemFault
from driver.allocator.taints import Fence, TaintRule, apply_rules
from driver.api.resource_v1 import Counter, CounterConsumption, CounterSet, Device, Taint
from tests.unit.allocator.cases import (
    DRIVER,
    ask,
    chosen,
    device,
    device_class,
    devices_of,
    fleet_of,
    gpus,
    hold,
    missed,
    placed,
    policy,
    pool,
    positions,
    problem,
    request,
    selector,
)

NO_SCHEDULE = Taint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule")


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


def test_claims_that_fit_alone_but_not_together() -> None:
    fleet = fleet_of({"a": gpus(3)})
    miss = missed(fleet, ask(request(count=2), name="one"), ask(request(count=2), name="two"))
    assert miss.is_together
    assert "no node has room for all of them together" in miss.text


def test_first_available_takes_the_earliest_that_fits() -> None:
    """And a node where an earlier one fits beats a node where only a later one does."""
    request_ = {
        "name": "gpus",
        "firstAvailable": [
            {"name": "tight", "deviceClassName": "gpu", "count": 4},
            {"name": "loose", "deviceClassName": "gpu", "count": 2},
        ],
    }
    fleet = fleet_of({"a": gpus(2), "b": gpus(4)})
    assert placed(fleet, ask(request_)).node == "b"
    hold(fleet, "b", [0])
    placement = placed(fleet, ask(request_))
    assert [pick.alternative.name for pick in placement.picks] == ["gpus/loose"]


def test_backtracking_over_requests() -> None:
    """The first request must not take the only device that the second can use."""
    fleet = fleet_of({"a": [device("gpu-0", size=1), device("gpu-1", size=2)]})
    claim = ask(request("any"), request("small", selectors=[selector("size == 1")]))
    assert chosen(fleet, placed(fleet, claim)) == [["gpu-1"], ["gpu-0"]]


@pytest.mark.parametrize("attribute", [f"{DRIVER}/island", f"{DRIVER}/absent"])
def test_match_attribute(attribute: str) -> None:
    """Devices of one value; one without the attribute is in no set."""
    devices = [device("gpu-0", island=1), device("gpu-1", island=2), device("gpu-2", island=2), device("gpu-3")]
    fleet = fleet_of({"a": devices})
    claim = ask(request(count=2), constraints=[{"requests": ["gpus"], "matchAttribute": attribute}])
    if attribute.endswith("absent"):
        assert missed(fleet, claim).largest == 0
    else:
        assert chosen(fleet, placed(fleet, claim)) == [["gpu-1", "gpu-2"]]


def test_match_attribute_holds_over_requests() -> None:
    fleet = fleet_of({"a": [device("gpu-0", island=1), device("gpu-1", island=2), device("gpu-2", island=1)]})
    claim = ask(request("one"), request("two"), constraints=[{"matchAttribute": f"{DRIVER}/island"}])
    assert sorted(name for each in chosen(fleet, placed(fleet, claim)) for name in each) == ["gpu-0", "gpu-2"]


def test_values_of_other_types_are_other_values() -> None:
    fleet = fleet_of({"a": [device("gpu-0", island=1), device("gpu-1", island="1")]})
    assert missed(fleet, ask(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/island"}])).largest == 1


def test_distinct_attribute() -> None:
    fleet = fleet_of({"a": [device("gpu-0", root=1), device("gpu-1", root=1), device("gpu-2", root=2)]})
    constraint = {"distinctAttribute": f"{DRIVER}/root"}
    assert chosen(fleet, placed(fleet, ask(request(count=2), constraints=[constraint])))[0][1] == "gpu-2"
    assert missed(fleet, ask(request(count=3), constraints=[constraint])).largest == 2


def test_all_devices() -> None:
    """All that match, at least one; with one of them taken nothing fits there."""
    everything = ask(request(allocationMode="All", selectors=[selector("kind == x")]))
    devices = [device("gpu-0", kind="x"), device("gpu-1", kind="y"), device("gpu-2", kind="x")]
    fleet = fleet_of({"a": devices, "b": devices})
    assert chosen(fleet, placed(fleet, everything)) == [["gpu-0", "gpu-2"]]
    hold(fleet, "a", [0])
    assert placed(fleet, everything).node == "b"
    hold(fleet, "b", [2])
    assert missed(fleet, everything).text.startswith("2 nodes, 2 free GPUs; need all on one node")
    assert missed(fleet, ask(request(allocationMode="All", selectors=[selector("kind == z")]))).free == 0


def test_taints_keep_away_who_does_not_tolerate_them() -> None:
    fleet = fleet_of({"a": [device("gpu-0", taints=[NO_SCHEDULE])]})
    assert missed(fleet, ask(request())).free == 0
    tolerant = request(tolerations=[{"key": NO_SCHEDULE.key, "operator": "Exists"}])
    assert placed(fleet, ask(tolerant)).node == "a"


@pytest.mark.parametrize("effect", ["None", "SomethingNew"])
def test_other_effects_keep_nobody_away(effect: str) -> None:
    fleet = fleet_of({"a": [device("gpu-0", taints=[Taint(key="a/b", effect=effect)])]})
    assert placed(fleet, ask(request())).node == "a"


def test_fenced_devices_alone_are_ours_and_need_no_toleration() -> None:
    fence = Fence(key="gpu.nvidia.com/allocator", value="controller")
    ours = Taint(key=fence.key, value=fence.value, effect="NoSchedule")
    draining = Taint(key=fence.key, value="draining", effect="NoSchedule")
    devices = [device("gpu-0"), device("gpu-1", taints=[draining]), device("gpu-2", taints=[ours])]
    fleet = fleet_of({"a": devices}, fence)
    assert chosen(fleet, placed(fleet, ask(request()))) == [["gpu-2"]]


def test_rules_of_the_administrator_taint_devices() -> None:
    """R22: a GPU that a DeviceTaintRule taints is not given out; others are."""
    rules = [TaintRule(taint=NO_SCHEDULE, driver=DRIVER, pool="a", device="gpu-0")]
    fleet = fleet_of({})
    fleet.set_node("a", apply_rules([pool("a", gpus(2))], rules))
    assert chosen(fleet, placed(fleet, ask(request()))) == [["gpu-1"]]
    assert missed(fleet, ask(request(count=2))).largest == 1


def test_admin_access_sees_devices_that_are_taken() -> None:
    fleet = fleet_of({"a": gpus(2)})
    hold(fleet, "a", [0, 1])
    assert chosen(fleet, placed(fleet, ask(request(adminAccess=True, count=2)))) == [["gpu-0", "gpu-1"]]


def test_admin_access_counts_a_device_once_in_a_claim() -> None:
    fleet = fleet_of({"a": gpus(1)})
    assert place(fleet, problem(ask(request("one"), request("two", adminAccess=True)))) is None


def counted(name: str, **drawn: str) -> Device:
    counters = {key: Counter(value=value) for key, value in drawn.items()}
    return Device(name=name, consumes_counters=(CounterConsumption(counter_set="gpu-0", counters=counters),))


def test_counters_are_drawn_by_what_is_taken_and_by_what_is_placed() -> None:
    """Two halves exclude the whole, and a third half fits no more."""
    counters = CounterSet(name="gpu-0", counters={"memory": Counter(value="80Gi")})
    devices = [counted("whole", memory="80Gi"), *(counted(f"half-{n}", memory="40Gi") for n in range(3))]
    fleet = fleet_of({})
    fleet.set_node("a", [pool("a", devices, [counters])])
    halves = request(count=2)
    assert [len(names) for names in chosen(fleet, placed(fleet, ask(halves)))] == [2]
    assert place(fleet, problem(ask(request(count=3)))) is None
    fleet.hold([Holding(device=fleet.nodes["a"].ids[1])])
    assert "whole" not in chosen(fleet, placed(fleet, ask(request())))[0]
    assert place(fleet, problem(ask(halves))) is None


def test_shared_device_serves_until_its_capacity_is_drawn() -> None:
    shared = Device(name="gpu-0", allow_multiple_allocations=True, capacity=device("x", capacity={"memory": "80Gi"}).capacity)
    fleet = fleet_of({"a": [shared]})
    part = request(capacity={"requests": {"memory": "30Gi"}})
    assert place(fleet, problem(ask(part, name="one"), ask(part, name="two"))) is not None
    assert place(fleet, problem(*(ask(part, name=str(n)) for n in range(3)))) is None


def test_capacity_of_a_device_for_oneself_is_a_floor() -> None:
    fleet = fleet_of({"a": [device("gpu-0", capacity={"memory": "40Gi"}), device("gpu-1", capacity={"memory": "81920Mi"})]})
    assert chosen(fleet, placed(fleet, ask(request(capacity={"requests": {"memory": "80Gi"}})))) == [["gpu-1"]]
    assert missed(fleet, ask(request(capacity={"requests": {"cores": "1"}}))).free == 0


def test_class_selectors_come_first_and_a_failing_one_spares_other_nodes() -> None:
    """A device on which a selector fails is not matched; the miss says which and why."""
    classes = {"gpu": device_class(selectors=[selector("type == gpu")])}
    fleet = fleet_of({"a": [device("nic", type="nic")], "b": gpus(1, type="gpu")})
    asked = ask(request(selectors=[selector("model == x")]))
    assert place(fleet, problem(asked, classes=classes)) is None
    assert "b/gpu-0: no such key: model" in explain(fleet, problem(asked, classes=classes)).text


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


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (ask(request(deviceClassName="nope")), "DeviceClass nope does not exist"),
        (ask(request(count=33)), "asks for 33 devices, an allocation holds at most 32"),
        (ask({"name": "both"}), "either exactly or firstAvailable is needed"),
        (ask(request(allocationMode="Some")), "allocationMode Some"),
        (ask(request(), constraints=[{"requests": ["gpus"]}]), "needs matchAttribute or distinctAttribute"),
        (ask(request(), config=[policy(scope="galaxy")]), '"galaxy" is not one of nvlink, pcie, numa, node'),
        (ask(request(capacity={"requests": {"memory": "lots"}})), "is no Kubernetes quantity"),
    ],
    ids=["missing class", "33 devices", "no request", "unknown mode", "empty constraint", "bad policy", "bad quantity"],
)
def test_what_no_fleet_can_serve_is_said(claim: ClaimAsk, words: str) -> None:
    with pytest.raises(ProblemFault, match="claim") as caught:
        problem(claim)
    assert words in str(caught.value)


def test_thirty_two_results_fit_and_not_one_more() -> None:
    """Also where only the second request makes it too many."""
    fleet = fleet_of({"a": gpus(40)})
    assert place(fleet, problem(ask(request(count=32)))) is not None
    both = ask(
        request("many", count=31),
        {"name": "few", "firstAvailable": [{"name": f"n{n}", "deviceClassName": "gpu", "count": n} for n in (3, 1)]},
    )
    placement = placed(fleet, both)
    assert [pick.alternative.name for pick in placement.picks] == ["many", "few/n1"]


def test_a_hopeless_search_ends_and_says_that_it_cannot_tell() -> None:
    """Twelve devices of six values each way, of which no six differ both ways: the steps end before a proof."""
    devices = [device(f"gpu-{n:02}", a=n % 6, b=(n * 5 + n // 6) % 6 % 5 + (n == 40), c=n) for n in range(40)]
    fleet = fleet_of({"a": [*devices, device("gpu-99", a=0, b=9, c=99)]})
    constraints = [{"distinctAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/b"}]
    one = {"name": "last", "exactly": {"deviceClassName": "gpu", "selectors": [selector("a == 0")]}}
    claim = ask(*(request(f"r{n}", count=1) for n in range(5)), one, constraints=constraints)
    found = place(fleet, problem(claim))
    assert found is not None or missed(fleet, claim).undecided in (0, 1)


def test_counting_alone_ends_a_search_that_could_never_succeed() -> None:
    """Six devices that all differ cannot come from five values: no search, and a sure answer."""
    fleet = fleet_of({"a": [device(f"gpu-{n:02}", a=n % 5, b=n % 7, c=n) for n in range(40)]})
    constraints = [{"distinctAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/b"}]
    miss = missed(fleet, ask(*(request(f"r{n}", count=2) for n in range(3)), constraints=constraints))
    assert miss.undecided == 0


def test_pools_of_a_node_are_seen_together() -> None:
    fleet = fleet_of({})
    pools = [Pool(driver=DRIVER, name=f"pool-{n}", node="a", devices=gpus(1)) for n in range(2)]
    fleet.set_node("a", pools)
    assert len(chosen(fleet, placed(fleet, ask(request(count=2))))[0]) == 2
