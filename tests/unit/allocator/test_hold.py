"""The hold rule: who waits for whom, and for how long."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from driver.allocator.fleet import Fleet
from driver.allocator.hold import HoldRule, Holds, Waiting, choose_soonest
from driver.allocator.search import Found
from tests.unit.allocator.cases import ask, device, fleet_of, gpus, hold, pool, problem, request, selector

RULE = HoldRule(after_s=300.0, hold_patience_s=3600.0, spare_patience_s=600.0)


def waiting(key: str, count: int, waited_s: float, *, priority: int = 0) -> Waiting:
    return Waiting(key=key, problem=problem(ask(request(count=count))), count=count, waited_s=waited_s, priority=priority)


def fleet() -> Fleet:
    """Two nodes of eight: one GPU of b is taken, two of a."""
    made = fleet_of({"a": gpus(8), "b": gpus(8)})
    hold(made, "a", [0, 1])
    hold(made, "b", [0])
    return made


def test_nobody_holds_before_somebody_starves() -> None:
    holds = Holds(RULE)
    holds.update(fleet(), [waiting("big", 8, 299.0), waiting("small", 1, 10_000.0)])
    assert (holds.node, holds.key) == (None, None)


def test_the_oldest_large_claim_holds_where_least_has_to_come_free() -> None:
    holds = Holds(RULE)
    holds.update(fleet(), [waiting("young", 8, 301.0), waiting("old", 4, 302.0)])
    assert (holds.key, holds.node) == ("old", "b")


def test_priority_comes_before_age() -> None:
    holds = Holds(RULE)
    holds.update(fleet(), [waiting("old", 8, 1000.0), waiting("high", 8, 301.0, priority=1)])
    assert holds.key == "high"


def test_a_claim_keeps_its_node_while_it_waits_and_gives_it_back_after() -> None:
    """What came free there meanwhile must not be lost because another node now looks nearer."""
    holds, nodes = Holds(RULE), fleet()
    holds.update(nodes, [waiting("big", 8, 301.0)])
    hold(nodes, "b", [1, 2, 3])
    holds.update(nodes, [waiting("big", 8, 400.0)])
    assert holds.node == "b"
    holds.update(nodes, [])
    assert holds.node is None


def test_a_node_that_goes_is_no_longer_held() -> None:
    holds, nodes = Holds(RULE), fleet()
    holds.update(nodes, [waiting("big", 8, 301.0)])
    nodes.set_node("b", [])
    holds.update(nodes, [waiting("big", 8, 302.0)])
    assert holds.node == "a"


def test_a_node_that_the_claim_may_not_go_to_is_not_held() -> None:
    holds = Holds(RULE)
    holds.update(fleet(), [replace(waiting("big", 8, 301.0), may_go=lambda node: node != "b")])
    assert holds.node == "a"


def test_one_that_no_node_could_serve_keeps_nobody_from_holding_and_the_node_is_kept() -> None:
    holds, nodes = Holds(RULE), fleet()
    hopeless = [waiting("hopeless", 9, 9000.0), replace(waiting("nowhere", 8, 8000.0), may_go=lambda _node: False)]
    holds.update(nodes, [*hopeless, waiting("big", 8, 301.0)])
    assert (holds.key, holds.node) == ("big", "b")
    hold(nodes, "b", [1, 2, 3])
    holds.update(nodes, [*hopeless, waiting("big", 8, 400.0)])
    assert (holds.key, holds.node) == ("big", "b")


def test_a_more_important_claim_goes_wherever_it_fits() -> None:
    """R32: a hold is against equal or lower priority."""
    holds = Holds(RULE)
    holds.update(fleet(), [waiting("big", 8, 301.0, priority=5)])
    assert holds.allows(waiting("small", 1, 0.0, priority=6), "b")
    assert not holds.allows(waiting("small", 1, 0.0, priority=5), "b")


@pytest.mark.parametrize(
    ("claim", "may"),
    [
        (waiting("small", 1, 0.0), False),
        (waiting("small", 1, 3600.0), True),
        (waiting("big", 8, 301.0), True),
        (waiting("other", 8, 0.0), True),
    ],
    ids=["a small one waits", "but not for ever", "whose it is", "one as large"],
)
def test_who_may_land_on_a_node_that_is_held(claim: Waiting, may: bool) -> None:
    holds = Holds(RULE)
    holds.update(fleet(), [waiting("big", 8, 301.0)])
    assert holds.allows(claim, "b") is may
    assert holds.allows(claim, "a")


@pytest.mark.parametrize(
    ("claim", "damage", "may"),
    [
        (waiting("small", 1, 0.0), (1, 1, 1), False),
        (waiting("small", 1, 0.0), (0, 1, 1), True),
        (waiting("small", 1, 600.0), (1, 1, 1), True),
        (waiting("other", 8, 0.0), (1, 2, 4), True),
    ],
    ids=["an eight is spared", "a four is not: eights are asked for", "not for ever", "one as large breaks none"],
)
def test_the_last_whole_set_of_the_largest_size_is_spared(claim: Waiting, damage: tuple[int, int, int], may: bool) -> None:
    holds, nodes = Holds(RULE), fleet()
    holds.update(nodes, [waiting("big", 8, 0.0)])
    holds.update(nodes, [])
    nodes.set_node("whole", [pool("whole", gpus(8))])
    assert holds.accepts(nodes, claim, Found(score=(), picks=(), damage=damage)) is may


@pytest.mark.parametrize(("count", "waits_s"), [(1, 600.0), (2, 300.0), (4, 150.0)])
def test_the_more_a_claim_asks_for_the_shorter_it_spares(count: int, waits_s: float) -> None:
    """A claim for four finds room seldom enough."""
    holds, nodes = Holds(RULE), fleet_of({"a": gpus(8)})
    holds.update(nodes, [waiting("big", 8, 0.0)])
    found = Found(score=(), picks=(), damage=(1, 1, 1))
    assert not holds.accepts(nodes, waiting("one", count, waits_s - 1), found)
    assert holds.accepts(nodes, waiting("one", count, waits_s), found)
    assert holds.next_change_s([waiting("one", count, 0.0)]) == min(waits_s, RULE.after_s)


def test_while_several_are_whole_nobody_waits() -> None:
    """And the count follows what is taken."""
    holds, nodes = Holds(RULE), fleet_of({"a": gpus(8), "b": gpus(8), "c": gpus(8)})
    holds.update(nodes, [waiting("big", 8, 0.0)])
    breaking = Found(score=(), picks=(), damage=(1, 1, 1))
    assert holds.accepts(nodes, waiting("small", 1, 0.0), breaking)
    hold(nodes, "a", [0])
    assert holds.accepts(nodes, waiting("small", 1, 0.0), breaking)
    hold(nodes, "b", [0])
    assert not holds.accepts(nodes, waiting("small", 1, 0.0), breaking)


def test_more_than_one_set_can_be_spared() -> None:
    holds, nodes = Holds(HoldRule(spare_patience_s=600.0, spare_sets=2)), fleet_of({"a": gpus(8), "b": gpus(8)})
    holds.update(nodes, [waiting("big", 8, 0.0)])
    assert not holds.accepts(nodes, waiting("small", 1, 0.0), Found(score=(), picks=(), damage=(1, 1, 1)))


def test_nothing_is_spared_before_anybody_asked_for_a_set() -> None:
    holds, nodes = Holds(RULE), fleet()
    holds.update(nodes, [waiting("small", 1, 0.0)])
    assert holds.accepts(nodes, waiting("small", 1, 0.0), Found(score=(), picks=(), damage=(1, 1, 1)))


def test_next_change_is_the_first_moment_at_which_the_rule_says_otherwise() -> None:
    holds = Holds(RULE)
    assert holds.next_change_s([waiting("a", 8, 100.0), waiting("b", 1, 590.0)]) == 10.0
    assert holds.next_change_s([waiting("a", 8, 5000.0)]) is None
    assert Holds(HoldRule()).next_change_s([waiting("a", 8, 5000.0)]) is None
    assert HoldRule().after_s == math.inf


def test_no_node_is_held_that_could_never_serve() -> None:
    asked = problem(ask(request(count=8, selectors=[selector("model == x")])))
    small = [device(f"gpu-{n}", model="x" if n < 4 else "y") for n in range(8)]
    assert choose_soonest(fleet_of({"a": small}), asked, 8) is None


def test_who_only_looks_on_is_kept_off_no_node() -> None:
    """It takes nothing of what is held."""
    fleet = fleet_of({"a": gpus(4)})
    hold(fleet, "a", [0])
    holds = Holds(HoldRule(after_s=0))
    holds.update(fleet, [waiting("big", 4, 10)])
    assert holds.node == "a"
    assert not holds.allows(waiting("single", 1, 0), "a")
    assert holds.allows(replace(waiting("monitor", 1, 0), count=0), "a")
