"""Buckets follow every change, and always say what a fresh look would say."""

from __future__ import annotations

import gc
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.pools import Pool
from driver.allocator.search import Found, NotFound
from driver.allocator.tables import positions_of
from tests.unit.allocator.cases import (
    CLASSES,
    DRIVER,
    WordEngine,
    ask,
    device,
    devices_of,
    fleet_of,
    gpus,
    hold,
    placed,
    pool,
    positions,
    problem,
    request,
    selector,
)

PROBLEMS = [problem(ask(request(count=count))) for count in (1, 2, 4)]


def copy_of(fleet: Fleet, held: list[Holding]) -> Fleet:
    """The same state, made from nothing."""
    fresh = fleet_of({name: node.devices for name, node in sorted(fleet.nodes.items())})
    fresh.hold(held)
    return fresh


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(["dgx-1v", "hgx-a100-4", "a100-pcie-bridged"]))
def test_a_fleet_that_changed_decides_as_one_made_afresh(seed: int, machine: str) -> None:
    """Nodes come, go and change, devices are held and released, in any order."""
    numbers = random.Random(seed)
    fleet = fleet_of({f"n{number}": devices_of(machine) for number in range(3)})
    held: list[Holding] = []
    for step in range(25):
        what = numbers.random()
        if what < 0.5:
            placement = place(fleet, numbers.choice(PROBLEMS))
            if placement is not None:
                ids = fleet.nodes[placement.node].ids
                taken = [Holding(device=ids[at]) for each in positions(placement) for at in each]
                fleet.hold(taken)
                held += taken
        elif what < 0.8 and held:
            gone = held.pop(numbers.randrange(len(held)))
            fleet.release([gone])
        elif what < 0.9:
            fleet.set_node(f"n{step % 4}", [pool(f"n{step % 4}", devices_of(numbers.choice(["dgx-1v", machine])))])
        else:
            fleet.set_node(f"n{step % 4}", [])
        asked = numbers.choice(PROBLEMS)
        assert place(fleet, asked) == place(copy_of(fleet, held), asked)


def test_holdings_of_devices_that_nobody_publishes_count_once_they_come_back() -> None:
    """A pool that is being updated, or a node that joins late: its devices are still taken."""
    fleet = fleet_of({})
    fleet.hold([Holding(device=DeviceId(DRIVER, "a", "gpu-0"))])
    fleet.set_node("a", [pool("a", gpus(2))])
    assert positions(placed(fleet, ask(request()))) == [[1]]
    fleet.set_node("a", [])
    assert place(fleet, PROBLEMS[0]) is None
    fleet.set_node("a", [pool("a", gpus(2))])
    assert positions(placed(fleet, ask(request()))) == [[1]]


def test_a_device_in_two_claims_is_free_only_when_both_have_let_go() -> None:
    fleet = fleet_of({"a": gpus(1)})
    twice = Holding(device=DeviceId(DRIVER, "a", "gpu-0"))
    fleet.hold([twice])
    fleet.hold([twice])
    fleet.release([twice])
    assert place(fleet, PROBLEMS[0]) is None
    fleet.release([twice])
    assert place(fleet, PROBLEMS[0]) is not None


def test_selectors_are_asked_once_a_generation_of_slices() -> None:
    engine = WordEngine()
    fleet = Fleet(engine)
    fleet.set_node("a", [pool("a", gpus(4, model="x"))])
    asked = [problem(ask(request(count=count, selectors=[selector("model == x")])), classes=CLASSES) for count in (1, 2, 3)]
    for each in asked * 3:
        place(fleet, each)
    assert engine.asked == 4
    fleet.set_node("a", [pool("a", gpus(4, model="y"))])
    assert place(fleet, asked[0]) is None
    assert engine.asked == 8


def test_equal_nodes_share_a_bucket_and_others_do_not() -> None:
    fleet = fleet_of({f"n{number}": devices_of("dgx-h100") for number in range(9)})
    hold(fleet, "n3", [0])
    hold(fleet, "n5", [0])
    hold(fleet, "n7", [4])
    buckets = {tuple(names) for _, names in fleet.view(PROBLEMS[0]).index.buckets()}
    assert buckets == {("n0", "n1", "n2", "n4", "n6", "n8"), ("n3", "n5"), ("n7",)}


def test_views_that_nobody_asked_for_long_are_made_anew() -> None:
    """More problems than views, and more changes than are remembered, only cost time."""
    fleet = fleet_of({"a": [device(f"gpu-{n}", model=f"m{n}") for n in range(40)]})
    for n in range(40):
        placed(fleet, ask(request(selectors=[selector(f"model == m{n}")])))
    held = [Holding(device=fleet.nodes["a"].ids[0])]
    for _ in range(30_000):
        fleet.hold(held)
        fleet.release(held)
    fleet.hold(held)
    assert place(fleet, problem(ask(request(selectors=[selector("model == m0")])))) is None


def test_states_of_nodes_that_are_gone_leave_no_answer_behind() -> None:
    """A node is taken in ever new ways for months; what was answered for each of them must not be kept for ever."""

    def count_answers() -> int:
        return sum(isinstance(each, Found | NotFound) for each in gc.get_objects())

    before = count_answers()
    fleet = fleet_of({"a": gpus(16)})
    for mask in range(1, 5001):
        held = [Holding(device=fleet.nodes["a"].ids[at]) for at in positions_of(mask)]
        fleet.hold(held)
        assert place(fleet, PROBLEMS[0]) is not None
        fleet.release(held)
    assert count_answers() - before <= 1100


def test_pools_of_other_nodes_do_not_touch_this_one() -> None:
    fleet = fleet_of({"a": gpus(1), "b": gpus(1)})
    hold(fleet, "a", [0])
    assert placed(fleet, ask(request())).node == "b"


def test_shared_devices_of_other_pools_are_theirs() -> None:
    fleet = fleet_of({})
    fleet.set_node("a", [Pool(driver=DRIVER, name="x", node="a", devices=gpus(1))])
    fleet.hold([Holding(device=DeviceId("other.example.com", "x", "gpu-0"))])
    assert explain(fleet, PROBLEMS[1]).free == 1


def test_a_node_keeps_the_answers_of_few_selectors() -> None:
    """Claims that each ask for a device of their own leave nothing behind, and are answered rightly all the same."""
    fleet = fleet_of({"a": gpus(2, kind="x")})
    node = fleet.nodes["a"]
    for number in range(1000):
        assert node.selected((f"kind == {number}",)) == 0
        assert node.selected((f"missing == {number}",)) == 0
        assert node.selected(("kind == x",)) == 0b11
    assert len(node.faults) <= 64
