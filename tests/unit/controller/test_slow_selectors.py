"""Selectors that are slow, or many: one claim's do not keep others from being placed, and no round takes long."""

from __future__ import annotations

from collections import Counter
from typing import Any

from driver.allocator.selector_meter import MOST_UNITS
from driver.controller.books.effort import WORK_A_ROUND
from driver.controller.deciding.decision import LeaveAlone, Place
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import DeviceClass
from tests.unit.controller.desk import Desk
from tests.unit.controller.world import DRIVER, NOW_S, World, gpus, request, world

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
LONGEST_ROUND = 2 * WORK_A_ROUND + 2 * MOST_UNITS
"""Following what is known and looking at what is new, each of which may pass its limit by one evaluation."""


def slow(number: int, depth: int = 5) -> dict[str, Any]:
    """Each number makes another selector."""
    body = f"device.attributes['{DRIVER}'].productName != 'x{number}'"
    for level in range(depth):
        body = f"{TEN}.all(x{level}, {body})"
    return {"cel": {"expression": body}}


def rounds(made: World, line: WaitingLine, most: int = 400) -> list[list[str]]:
    """What each round says, until all is decided; no round may do more than its share."""
    told = []
    for _ in range(most):
        before = made.cluster.engine.work
        said = []
        for decision in line.decide_all(NOW_S):
            pod = decision.demand.pods[0].metadata.name
            if isinstance(decision, Place):
                made.reserve(decision)
                said.append(f"{pod}@{decision.node}")
            else:
                assert isinstance(decision, LeaveAlone)
                assert decision.is_fault
                said.append(f"{pod}: {decision.reason}")
        assert made.cluster.engine.work - before < LONGEST_ROUND
        told.append(said)
        if not line.is_unfinished:
            return told
    raise AssertionError("never done")


def add_job(made: World, name: str, *selectors: dict[str, Any], **fields: Any) -> None:
    made.claim(f"{name}-claim", request(selectors=list(selectors)))
    made.pod(name, f"{name}-claim", **fields)


def test_a_slow_selector_is_told_to_who_wrote_it_and_the_claim_left_alone_for_good() -> None:
    made = world("a", "b")
    add_job(made, "p", slow(1))
    line = WaitingLine(made.cluster)
    told = [each for said in rounds(made, line) for each in said]
    assert len(told) == 1
    assert told[0].startswith(
        "p: claim p-claim: request gpus: a selector of its own or of its class is broken: the selector is"
    )
    assert "too slow: it cost 300,0" in told[0]
    assert "loop over less" in told[0]
    made.node("c", gpus(4))
    assert rounds(made, line) == [[]]
    assert len(line.left_alone) == 1


def test_a_slow_selector_of_a_class_is_told_to_who_uses_the_class() -> None:
    made = world("a")
    made.classes({"slow": {"selectors": [slow(1)]}})
    made.claim("c", request(device_class="slow"))
    made.pod("p", "c")
    told = [each for said in rounds(made, WaitingLine(made.cluster)) for each in said]
    assert "too slow" in told[0]
    assert made.get(DeviceClass, "slow")


def test_hundreds_of_slow_selectors_do_not_keep_another_namespace_waiting() -> None:
    """They come first, by priority and age; each costs most of a round."""
    made = world("a", "b")
    for number in range(25):
        add_job(made, f"slow-{number:03}", slow(number), priority=1000)
    line = WaitingLine(made.cluster)
    before = made.cluster.engine.work
    for _ in line.decide_all(NOW_S):
        pass
    assert line.is_unfinished
    assert made.cluster.engine.work - before < LONGEST_ROUND
    made.namespace = "other"
    add_job(made, "good")
    told = rounds(made, line)
    assert "good@a" in told[0]
    said = Counter(each.partition(":")[0] for round_ in told for each in round_)
    assert {name: count for name, count in said.items() if count > 1} == {}
    assert len(told) > 8
    assert len(line.left_alone) == 25


def test_one_claim_with_hundreds_of_selectors_does_not_keep_its_own_namespace_waiting() -> None:
    made = world("a", "b", devices=8)
    ways = [[slow(10 * number + way, depth=4) for way in range(8)] for number in range(8)]
    claim = [
        {
            "name": f"gpus-{number}",
            "firstAvailable": [
                {"name": f"way-{at}", "deviceClassName": "gpu", "selectors": [selector]} for at, selector in enumerate(row)
            ],
        }
        for number, row in enumerate(ways)
    ]
    made.claim("large", *claim)
    made.pod("large", "large", priority=1000)
    line = WaitingLine(made.cluster)
    list(line.decide_all(NOW_S))
    assert line.is_unfinished
    add_job(made, "good")
    told = rounds(made, line)
    assert told[0] == ["good@a"]
    assert [each for said in told[1:] for each in said] == ["large@b"]


def test_what_waits_for_its_turn_counts_as_waiting() -> None:
    made = world("a")
    for number in range(5):
        add_job(made, f"slow-{number}", slow(number))
    line = WaitingLine(made.cluster)
    list(line.decide_all(NOW_S))
    assert len(line.waiting) + len(line.left_alone) == 5
    rounds(made, line)
    assert line.waiting == ()


def test_slices_that_change_all_the_time_do_not_start_the_work_again() -> None:
    made = world("a", "b")
    for number in range(10):
        add_job(made, f"slow-{number}", slow(number))
    line = WaitingLine(made.cluster)
    for generation in range(25):
        list(line.decide_all(NOW_S))
        made.node("b", gpus(2 + generation % 3))
    assert len(line.left_alone) == 10
    assert not line.is_unfinished


def test_a_search_that_took_long_ends_the_round_and_the_next_one_goes_on() -> None:
    """Many kinds of demands on a large fleet: what happens meanwhile is to be taken in."""
    made = world("a", devices=1)
    for number in range(4):
        made.claim(f"c{number}", request(count=2 + number))
        made.pod(f"p{number}", f"c{number}")
    line = WaitingLine(made.cluster)
    looked = []
    for _ in range(5):
        list(line.decide_all(NOW_S, is_enough=lambda: True))
        looked.append((len(line.refused), line.is_unfinished))
    assert looked == [(1, True), (2, True), (3, True), (4, True), (4, False)]


def test_the_loop_goes_on_at_once_and_others_are_placed_meanwhile() -> None:
    desk = Desk()
    desk.add_node("node-a")
    for number in range(8):
        desk.add_claim(f"slow-{number}", 1, selectors=[slow(number)])
        desk.add_pod(f"slow-{number}", f"slow-{number}")
    desk.add_job("good", 1)
    desk.run()
    assert desk.bound() == {"good": "node-a"}
    for number in range(8):
        (note,) = desk.recorder.notes(f"Pod slow-{number}", "ClaimLeftAlone")
        assert "the selector is too slow" in note
