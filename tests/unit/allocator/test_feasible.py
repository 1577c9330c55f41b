"""Everything that kube-scheduler honours for claims is honoured here."""

from __future__ import annotations

import pytest

from driver.allocator.decide import place
from driver.allocator.fleet import Holding
from driver.allocator.taints import Fence, TaintRule, apply_rules
from driver.api.resource_v1 import Counter, CounterConsumption, CounterSet, Device, Taint
from tests.unit.allocator.cases import (
    DRIVER,
    ask,
    chosen,
    device,
    fleet_of,
    gpus,
    hold,
    missed,
    placed,
    pool,
    problem,
    request,
    selector,
)

NO_SCHEDULE = Taint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule")


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


def test_partitions_that_exclude_each_other_are_found_without_trying_all_sets() -> None:
    """Eight GPUs of seven slices, each also as a whole: 50 slices fit, though hardly any set of 50 out of 64 devices does."""
    counters = [CounterSet(name=f"gpu-{n}", counters={"slots": Counter(value="7")}) for n in range(8)]
    devices = []
    for n in range(8):
        for name, slots in (("whole", "7"), *((f"slice-{k}", "1") for k in range(7))):
            draws = (CounterConsumption(counter_set=f"gpu-{n}", counters={"slots": Counter(value=slots)}),)
            devices.append(Device(name=f"gpu-{n}-{name}", consumes_counters=draws))
    fleet = fleet_of({})
    fleet.set_node("a", [pool("a", devices, counters)])
    placement = placed(fleet, ask(request(count=30)), ask(request(count=20), name="more"))
    names = [name for each in chosen(fleet, placement) for name in each]
    assert len(names) == 50


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
