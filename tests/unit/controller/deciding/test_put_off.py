"""What the server refuses, or the watch has not told yet, is tried again with patience: a missing right makes no flood."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver.controller.deciding.put_off import PutOff
from driver.controller.objects.model import Claim
from tests.unit.controller.desk import Desk
from tests.unit.controller.memory_claim_api import refusal
from tests.unit.controller.world import NAMESPACE

ROUNDS = 5
"""In each second: something happens all the time in a cluster, and each time the leader looks at everything."""


def desk() -> Desk:
    made = Desk()
    made.add_node("node-a")
    return made


def forbid(made: Desk, *writes: str) -> None:
    def refuse(what: str, claim: Claim) -> None:
        if what in writes:
            raise refusal(403, "Forbidden")()

    made.api.on_write = refuse


def pass_time(made: Desk, seconds: int, *, is_told: bool = True) -> None:
    made.api.writes.clear()
    for _ in range(seconds):
        made.clock.advance(1.0)
        for _ in range(ROUNDS):
            if is_told:
                made.tell()
            made.decide()
            made.write()


def with_a_mark_that_is_left() -> Desk:
    made = desk()
    made.add_job("pod", 2)
    forbid(made, "allocate", "unmark")
    made.run(schedules=False)
    made.delete_pod("pod")
    return made


def with_a_guard_that_is_left() -> Desk:
    made = desk()
    made.add_job("pod", 2)
    made.allocate("pod", "node-a", "gpu-0", "gpu-1")
    made.mark_ours("pod", is_guarded=True)
    forbid(made, "reserve")
    return made


def with_half_a_pod() -> Desk:
    made = desk()
    made.add_claim("first", 2)
    made.add_claim("second", 9)
    made.add_pod("pod", "first", "second")
    made.allocate("first", "node-a", "gpu-0", "gpu-1")
    made.mark_ours("first", is_guarded=True)
    forbid(made, "clear")
    return made


def with_a_double() -> Desk:
    made = desk()
    made.add_job("old")
    made.run(schedules=False)
    made.add_claim("young")
    made.add_pod("young", "young", nodeSelector={"no": "node"})
    made.allocate("young", *made.devices("old")[0].split("/"))
    made.mark_ours("young")
    forbid(made, "clear", "reserve")
    return made


@pytest.mark.parametrize("make", [with_a_mark_that_is_left, with_a_guard_that_is_left, with_half_a_pod, with_a_double])
def test_upkeep_that_is_forbidden_is_tried_ever_more_seldom(make: Callable[[], Desk]) -> None:
    made = make()
    pass_time(made, 120)
    assert 3 <= len(made.api.writes) <= 20


@pytest.mark.parametrize(
    ("make", "is_mended"),
    [
        pytest.param(with_a_mark_that_is_left, lambda made: made.is_clean("pod"), id="mark"),
        pytest.param(with_a_guard_that_is_left, lambda made: "guard" not in made.reserved("pod"), id="guard"),
        pytest.param(with_half_a_pod, lambda made: made.is_clean("first"), id="half"),
        pytest.param(with_a_double, lambda made: not (made.devices("old") and made.devices("young")), id="double"),
    ],
)
def test_upkeep_is_done_once_it_is_allowed(make: Callable[[], Desk], is_mended: Callable[[Desk], bool]) -> None:
    made = make()
    pass_time(made, 20)
    assert not is_mended(made)
    forbid(made)
    pass_time(made, 61)  # the longest that anything is put off
    assert is_mended(made)


def test_a_claim_that_is_gone_before_the_watch_says_so_is_not_asked_for_all_the_time() -> None:
    made = desk()
    made.add_job("pod", 2)
    made.tell()
    for plural in ("pods", "resourceclaims"):
        made.objects.delete(plural, "pod", namespace=NAMESPACE)
    pass_time(made, 30, is_told=False)
    assert 3 <= len(made.api.writes) <= 7


def test_the_waits_double_to_a_minute_and_end_with_success() -> None:
    put_off = PutOff()
    now_s, waits = 0.0, []
    for _ in range(9):
        put_off.note_tried("c", now_s, is_done=False)
        began_s = now_s
        while put_off.is_put_off("c", now_s):
            now_s += 0.5
        waits.append(now_s - began_s)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    put_off.note_tried("c", now_s, is_done=True)
    assert put_off.is_put_off("c", now_s + 0.5)
    assert not put_off.is_put_off("c", now_s + 1.0)


def test_what_is_over_takes_no_memory() -> None:
    put_off = PutOff()
    put_off.note_tried("done", 0.0, is_done=True)
    put_off.note_tried("refused", 0.0, is_done=False)
    put_off.note_tried("gone", 0.0, is_done=False)
    put_off.forget("gone")
    put_off.prune(30.0)
    assert list(put_off._waits) == ["refused"]
    put_off.prune(61.0)
    assert not put_off._waits
