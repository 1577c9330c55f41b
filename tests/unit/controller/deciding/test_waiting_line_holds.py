"""What the waiting line keeps for large claims: holds and spared sets, and how long."""

from __future__ import annotations

from driver.allocator.hold import HoldRule, Holds
from driver.controller.deciding.decision import Wait
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Claim, Pod
from tests.unit.controller.deciding.rounds import decide, demand, waiting
from tests.unit.controller.world import NOW_S, World, gpus, machine, request, world

RULE = HoldRule(after_s=1800.0, hold_patience_s=7200.0, spare_patience_s=0.0)


def starved() -> World:
    """A large claim has waited for an hour; a has one GPU taken of eight, b two; small ones come."""
    made = world()
    for name, taken in (("a", 1), ("b", 2)):
        made.node(name, gpus(8))
        made.claim(f"held-{name}")
        made.allocate(f"held-{name}", name, *(f"gpu-{number}" for number in range(taken)))
    made.job("big", request(count=8))
    return made


def test_small_claims_do_not_land_where_a_large_one_will_fit_soonest() -> None:
    made = starved()
    made.job("small", created="2027-01-15T07:59:00Z")
    line = WaitingLine(made.cluster, Holds(RULE))
    assert decide(made, line) == ["small@b"]
    for number in range(6):
        made.job(f"small-{number}", created="2027-01-15T07:59:00Z")
    assert len(decide(made, line)) == 5
    explained = line.explain(demand(made, "small-5"))
    assert isinstance(explained, Wait)
    assert explained.text == "devices are free on a, but it is held for pod team/big, which has waited long"


def test_a_hold_ends_with_the_wait_that_it_was_for() -> None:
    """Nothing has changed on the node itself, and yet those who were kept off may go there now."""
    made = starved()
    made.remove(Claim, "held-b")
    made.job("taker", request(count=8), priority=9)
    made.job("small", created="2027-01-15T07:59:00Z")
    line = WaitingLine(made.cluster, Holds(RULE))
    assert decide(made, line) == ["taker@b"]
    assert waiting(line) == ["big", "small"]
    made.remove(Pod, "big")
    assert decide(made, line) == ["small@a"]


def test_a_claim_that_spares_a_set_is_placed_when_there_are_more() -> None:
    """Somewhere else, where it was not kept off from."""
    made = World()
    made.classes()
    made.node("a", machine("dgx-h100"))
    made.job("big", request(count=9), created="2027-01-15T07:59:30Z")
    made.job("small", created="2027-01-15T07:59:30Z")
    line = WaitingLine(made.cluster, Holds(HoldRule(spare_patience_s=600.0)))
    assert decide(made, line) == []
    explained = line.explain(demand(made, "small"))
    assert isinstance(explained, Wait)
    assert explained.text == "devices are free on a, but one of the last whole sets for larger claims would be broken there"
    made.node("b", machine("dgx-h100"))
    assert decide(made, line) == ["small@a"]


def test_patience_ends_with_time_alone() -> None:
    made = starved()
    made.claim("b-is-full")
    made.allocate("b-is-full", "b", *(f"gpu-{number}" for number in range(2, 8)))
    made.job("small", created="2027-01-15T07:59:00Z")
    line = WaitingLine(made.cluster, Holds(RULE))
    assert decide(made, line) == []
    wait_s = line.next_change_s(NOW_S)
    assert wait_s is not None
    assert decide(made, line, now_s=NOW_S + 7200.0) == ["small@a"]


def test_without_a_hold_rule_nothing_depends_on_time() -> None:
    made = world("a")
    made.job("p", request(count=8))
    line = WaitingLine(made.cluster)
    decide(made, line)
    assert line.next_change_s(NOW_S) is None
