"""Whose the devices are, step by step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from driver.node.fence import (
    CONFIRM_AGAIN_S,
    LOOK_FOR_CONTROLLER_S,
    REFUSED_AGAIN_S,
    FenceRecord,
    FenceSeen,
    Moment,
    choose_time_added,
    is_about_to_fence,
    is_waiting_for_controller,
    plan_fence,
    recover_record,
)
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.fence import FenceStanding

S, D, C = Allocator.SCHEDULER, Allocator.DRAINING, Allocator.CONTROLLER
NOON = datetime(2026, 12, 2, 12, 0, 0, tzinfo=UTC)
SINCE, NOW = "2026-12-02T11:00:00Z", "2026-12-02T12:00:00Z"
DRAIN_S = 900.0


def at(uptime_s: float, boot: str = "boot-1") -> Moment:
    return Moment(boot_id=boot, uptime_s=uptime_s)


def seen(wanted: Allocator | None, **more: Any) -> FenceSeen:
    return replace(FenceSeen(wanted=wanted, refusal="", now=at(1000.0), wall=NOON, drain_s=DRAIN_S), **more)


def record(state: Allocator, *, scheduler: bool, controller: bool, since: Moment | None = None) -> FenceRecord:
    return FenceRecord(
        state=state, time_added=SINCE, scheduler_may_hold=scheduler, controller_may_hold=controller, fenced_from=since
    )


UNFENCED = record(S, scheduler=True, controller=False)
DRAINING_IN = record(D, scheduler=True, controller=False, since=at(500.0))
OURS = record(C, scheduler=False, controller=True)
DRAINING_OUT = record(D, scheduler=False, controller=True)


def reasons(before: FenceRecord | None, what: FenceSeen) -> list[str]:
    return [word.reason for word in plan_fence(before, what).words]


@pytest.mark.parametrize("wanted", [S, C])
def test_a_pool_that_was_never_published_is_at_once_whose_it_is_to_be(wanted: Allocator) -> None:
    step = plan_fence(None, seen(wanted))
    assert step.record == FenceRecord(
        state=wanted, time_added=NOW, scheduler_may_hold=wanted is S, controller_may_hold=wanted is C
    )
    assert (step.words, step.wait_s) == ((), None)


@pytest.mark.parametrize("before", [None, UNFENCED, DRAINING_IN, OURS, DRAINING_OUT])
def test_without_a_wish_nothing_moves(before: FenceRecord | None) -> None:
    """The label cannot be read, or makes no sense: what is published stays, and nothing new is."""
    assert plan_fence(before, seen(None)).record == before


@pytest.mark.parametrize(
    ("before", "wanted", "state"),
    [
        pytest.param(UNFENCED, C, D, id="from kube-scheduler: it may still write what it chose"),
        pytest.param(OURS, S, D, id="from the controller: it may still write what it chose"),
        pytest.param(DRAINING_IN, S, S, id="it was not meant: the controller never had it"),
        pytest.param(DRAINING_OUT, C, C, id="it was not meant: kube-scheduler never had it"),
        pytest.param(UNFENCED, S, S, id="it stays kube-scheduler's"),
        pytest.param(OURS, C, C, id="it stays the controller's"),
    ],
)
def test_where_a_wish_leads(before: FenceRecord, wanted: Allocator, state: Allocator) -> None:
    step = plan_fence(before, seen(wanted))
    assert step.record is not None
    assert step.record.state is state
    assert step.record.time_added == (SINCE if state is before.state else NOW)


def test_the_danger_is_on_record_before_what_brings_it_about() -> None:
    """A kill between the record and the slices loses nothing."""
    left = plan_fence(DRAINING_OUT, seen(S, acknowledged=SINCE)).record
    assert left == FenceRecord(state=S, time_added=NOW, scheduler_may_hold=True, controller_may_hold=False)
    entered = plan_fence(replace_record(DRAINING_IN, scheduler_may_hold=False), seen(C)).record
    assert entered == FenceRecord(state=C, time_added=NOW, scheduler_may_hold=False, controller_may_hold=True)


def replace_record(before: FenceRecord, **more: Any) -> FenceRecord:
    return msgspec.structs.replace(before, **more)


def test_time_counts_from_when_the_api_server_has_the_fence() -> None:
    """Not from the wish, not from the record: kube-scheduler goes by what is stored."""
    fresh = replace_record(DRAINING_IN, fenced_from=None)
    for standing in (None, FenceStanding.OTHER):
        step = plan_fence(fresh, seen(C, standing=standing, now=at(99_999.0)))
        assert (step.record, step.wait_s) == (fresh, CONFIRM_AGAIN_S)
    step = plan_fence(fresh, seen(C, standing=FenceStanding.UP))
    assert step.record == replace_record(fresh, fenced_from=at(1000.0))
    assert step.wait_s == pytest.approx(DRAIN_S + 0.1)


def test_the_node_enters_when_the_time_is_over_and_not_before() -> None:
    almost = plan_fence(DRAINING_IN, seen(C, now=at(500.0 + DRAIN_S - 0.5)))
    assert almost.record == DRAINING_IN
    assert almost.wait_s == pytest.approx(0.6)
    over = plan_fence(DRAINING_IN, seen(C, now=at(500.0 + DRAIN_S)))
    assert over.record == FenceRecord(state=C, time_added=NOW, scheduler_may_hold=False, controller_may_hold=True)
    assert [word.reason for word in over.words] == ["AllocatorChanged"]


@pytest.mark.parametrize("now", [at(50_000.0, "boot-2"), at(499.0)], ids=["a reboot", "an uptime that went back"])
def test_the_time_starts_anew_where_it_cannot_be_told(now: Moment) -> None:
    assert plan_fence(DRAINING_IN, seen(C, now=now)).record == replace_record(DRAINING_IN, fenced_from=None)
    step = plan_fence(DRAINING_IN, seen(C, now=now, standing=FenceStanding.UP))
    assert step.record == replace_record(DRAINING_IN, fenced_from=now)


def test_the_wall_clock_moves_nothing() -> None:
    later = datetime(2030, 1, 1, tzinfo=UTC)
    assert plan_fence(DRAINING_IN, seen(C, wall=later)).record == DRAINING_IN


@pytest.mark.parametrize(
    ("more", "is_free"),
    [
        pytest.param({"acknowledged": SINCE}, True, id="acknowledged"),
        pytest.param({"acknowledged": "2026-12-02T10:00:00Z"}, False, id="another drain was acknowledged"),
        pytest.param({"acknowledged": ""}, False, id="nothing was"),
        pytest.param({"is_controller_gone": True, "standing": FenceStanding.UP}, True, id="no controller is there"),
        pytest.param({"is_controller_gone": True}, False, id="no controller, but the drain is not published yet"),
    ],
)
def test_what_lets_a_node_leave_the_controller(more: dict[str, Any], is_free: bool) -> None:
    step = plan_fence(DRAINING_OUT, seen(S, **more))
    assert step.record is not None
    assert step.record.state is (S if is_free else D)
    assert step.wait_s == (None if is_free else LOOK_FOR_CONTROLLER_S)


def test_an_empty_moment_is_never_acknowledged() -> None:
    """A record made from slices may have none."""
    unknown = replace_record(DRAINING_OUT, time_added="")
    assert plan_fence(unknown, seen(S, acknowledged="")).record == unknown


def test_an_acknowledged_drain_that_turns_back_needs_a_new_one() -> None:
    """The controller has the node again: the old word must not let it go the next time."""
    again = plan_fence(DRAINING_OUT, seen(C)).record
    assert again is not None
    out = plan_fence(again, seen(S, acknowledged=SINCE)).record
    assert out is not None
    assert out.time_added not in ("", SINCE, again.time_added)
    assert plan_fence(out, seen(S, acknowledged=SINCE)).record == out


def test_a_server_that_cannot_hold_a_fence_leaves_the_node_to_kube_scheduler() -> None:
    step = plan_fence(None, seen(C, refusal="too old"))
    assert step.record == FenceRecord(state=S, time_added=NOW, scheduler_may_hold=True, controller_may_hold=False)
    assert [(word.reason, word.message) for word in step.words] == [("FenceRefused", "too old")]
    assert step.wait_s == REFUSED_AGAIN_S
    assert plan_fence(UNFENCED, seen(C, refusal="too old")).record == UNFENCED


def test_while_it_is_not_known_whether_the_server_can_nothing_is_published() -> None:
    assert plan_fence(None, seen(C, refusal=None)).record is None
    assert plan_fence(UNFENCED, seen(C, refusal=None)).record == UNFENCED


def test_the_server_is_asked_only_by_a_node_that_is_about_to_be_fenced() -> None:
    assert [is_about_to_fence(each, C) for each in (None, UNFENCED, DRAINING_IN, OURS)] == [True, True, False, False]
    assert not is_about_to_fence(None, S)
    assert plan_fence(OURS, seen(C, refusal=None)).record == OURS


def test_the_lease_is_looked_at_only_by_a_node_that_wants_to_leave() -> None:
    assert [is_waiting_for_controller(each, S) for each in (None, UNFENCED, DRAINING_IN, OURS, DRAINING_OUT)] == [
        False, False, False, False, True,
    ]  # fmt: skip
    assert not is_waiting_for_controller(DRAINING_OUT, C)


@pytest.mark.parametrize("before", [DRAINING_IN, OURS, DRAINING_OUT])
def test_a_fence_that_the_server_dropped_is_told_as_it_is(before: FenceRecord) -> None:
    """The devices are kube-scheduler's, whatever is wanted, and the next fence has to wait again."""
    step = plan_fence(before, seen(C, standing=FenceStanding.OPEN, refusal=None))
    assert step.record is not None
    assert (step.record.state, step.record.scheduler_may_hold) == (S, True)
    assert "FenceLost" in [word.reason for word in step.words]


def test_what_is_said() -> None:
    assert reasons(UNFENCED, seen(C)) == ["AllocatorChanged", "FenceDraining"]
    assert reasons(DRAINING_IN, seen(C)) == ["FenceDraining"]
    assert reasons(OURS, seen(S)) == ["AllocatorChanged", "FenceWaitsForController"]
    assert reasons(DRAINING_OUT, seen(S, acknowledged=SINCE)) == ["AllocatorChanged"]
    gone = seen(S, is_controller_gone=True, standing=FenceStanding.UP)
    assert reasons(DRAINING_OUT, gone) == ["FenceWithoutController", "AllocatorChanged"]
    assert reasons(OURS, seen(C)) == []


def test_a_text_that_is_said_while_it_waits_stays_the_same() -> None:
    """It is an event once, not at each look."""
    texts = {plan_fence(DRAINING_IN, seen(C, now=at(uptime_s))).words for uptime_s in (600.0, 700.0)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("said", "state", "scheduler", "controller"),
    [
        pytest.param({S}, S, True, False, id="kube-scheduler's"),
        pytest.param({C}, C, False, True, id="the controller's, who had it drained before"),
        pytest.param({D}, D, True, True, id="from which side it drained is lost"),
        pytest.param({S, C}, D, True, True, id="two sides"),
    ],
)
def test_a_lost_record_is_made_from_what_the_devices_say(
    said: set[Allocator], state: Allocator, scheduler: bool, controller: bool
) -> None:
    made = recover_record(said, set(), NOON)
    assert made is not None
    assert (made.state, made.scheduler_may_hold, made.controller_may_hold) == (state, scheduler, controller)


def test_where_no_device_ever_was_there_is_no_record_to_lose() -> None:
    assert recover_record(set(), set(), NOON) is None


def test_a_recovered_controllers_moment_is_that_of_the_slices() -> None:
    """So that nothing is written anew."""
    assert recover_record({C}, {SINCE}, NOON) == OURS
    both = recover_record({C}, {SINCE, NOW}, NOON)
    assert both is not None
    assert both.time_added == ""


def test_moments_are_never_used_twice() -> None:
    assert choose_time_added(NOON, ()) == NOW
    assert choose_time_added(NOON, {NOW, "2026-12-02T12:00:01Z"}) == "2026-12-02T12:00:02Z"
