"""How a decision comes about, with everything around it in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.errors import ApiUnreachable, StateUnwritable
from driver.node.fence import FenceRecord, Moment
from driver.node.fencing import Fence
from driver.node.node_watch import NodeSeen
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.content import SliceContent
from tests.unit.node.fencing_ports import NOW, Around, device

S, D, C = Allocator.SCHEDULER, Allocator.DRAINING, Allocator.CONTROLLER
AWAY = ApiUnreachable("GET /x", 0, "connection refused")


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


def test_the_first_decision_is_on_record_before_it_is_told(around: Around) -> None:
    assert around.fencing.read() == Fence(allocator=S, time_added=NOW)
    assert around.record().state is S
    assert around.acquired == 1


@pytest.mark.parametrize(
    ("label", "setting", "allocator"),
    [(None, S, S), (None, C, C), ("scheduler", C, S), ("controller", S, C)],
    ids=["no label", "no label, for the controller", "scheduler", "controller"],
)
def test_the_label_wins(tmp_path: Path, label: str | None, setting: Allocator, allocator: Allocator) -> None:
    around = Around(tmp_path, setting)
    around.node = NodeSeen(label=label, trouble="")
    assert around.fencing.read() == Fence(allocator=allocator, time_added=NOW)


@pytest.mark.parametrize("label", ["", "draining", "Controller", "x" * 500])
def test_a_label_that_is_no_side_is_refused_with_the_sides(around: Around, label: str) -> None:
    """``draining`` is nobody's wish."""
    around.node = NodeSeen(label=label, trouble="")
    assert around.fencing.read() is None
    assert around.reasons() == ["AllocatorUnknown"]
    assert "none of scheduler, controller" in around.words[0].message
    assert len(around.words[0].message) < 300


def test_an_unreadable_node_is_said_once_and_leaves_the_record_as_it_is(around: Around) -> None:
    around.fencing.read()
    around.node = NodeSeen(trouble="403 Forbidden")
    for _ in range(3):
        assert around.fencing.read() == Fence(allocator=S, time_added=NOW)
    assert around.reasons() == ["AllocatorUnknown"]
    assert "403 Forbidden" in around.words[0].message


def test_an_older_instance_reads_what_the_newer_has_decided(around: Around) -> None:
    """It writes nothing, and says nothing."""
    around.fencing.read()
    newer = replace_state(around.record(), D)
    around.file.write(newer)
    around.may_write = False
    around.node = NodeSeen(label="scheduler", trouble="")
    assert around.fencing.read() == Fence(allocator=D, time_added=newer.time_added)
    assert around.record() == newer
    assert around.words == []


def replace_state(record: FenceRecord, state: Allocator) -> FenceRecord:
    return FenceRecord(
        state=state, time_added="2026-12-02T11:00:00Z", scheduler_may_hold=True, controller_may_hold=record.controller_may_hold
    )


def test_slices_that_say_something_else_than_the_record_are_not_written(around: Around) -> None:
    """R3: the older instance's, whose fence the newer one changed; and whatever else is stale."""
    around.fencing.read()
    unfenced, fenced = SliceContent(devices=(device(S),)), SliceContent(devices=(device(D, "2026-12-02T11:00:00Z"),))
    assert around.fencing.allows([unfenced])
    assert not around.fencing.allows([fenced])
    around.file.write(replace_state(around.record(), D))
    assert around.fencing.allows([fenced])
    assert not around.fencing.allows([unfenced])
    assert around.fencing.allows([SliceContent()])


def test_without_a_record_nothing_is_written(around: Around, tmp_path: Path) -> None:
    """Somebody wiped it: it is made anew first."""
    around.fencing.read()
    (tmp_path / "fence.json").unlink()
    assert not around.fencing.allows([SliceContent(devices=(device(S),))])


def test_what_was_lost_is_told_only_where_it_matters(around: Around) -> None:
    """A node that never kept a record is kube-scheduler's, as all were."""
    around.published = [device(S)]
    assert around.fencing.read() == Fence(allocator=S, time_added="")
    assert around.words == []


def test_a_fenced_node_without_a_record_stays_fenced(around: Around) -> None:
    """And waits for the controller before it goes where the setting wants it."""
    around.published = [device(C)]
    fence = around.fencing.read()
    assert fence is not None
    assert fence.allocator is D
    assert "FenceRecordLost" in around.reasons()


def test_nothing_is_decided_while_lost_things_cannot_be_looked_up(around: Around) -> None:
    around.published = AWAY
    with pytest.raises(ApiUnreachable):
        around.fencing.read()
    assert around.file.read() is None


def test_a_server_that_cannot_be_asked_leaves_things_open(tmp_path: Path) -> None:
    around = Around(tmp_path, C)
    around.refusal = AWAY
    with pytest.raises(ApiUnreachable):
        around.fencing.read()
    assert around.file.read() is None


def test_a_full_disk_stops_the_decision(around: Around, tmp_path: Path) -> None:
    """What cannot be put on record is not published."""
    (tmp_path / "fence.json").mkdir()
    with pytest.raises(StateUnwritable):
        around.fencing.read()


def test_devices_that_are_settled_as_before_do_not_count_for_the_new_fence(around: Around) -> None:
    """The record moves before the slices do: the old ones have no fence, and nothing was dropped."""
    around.fencing.read()
    around.publish()
    around.node = NodeSeen(label="controller", trouble="")
    for _ in range(2):
        fence = around.fencing.read()
        assert fence is not None
        assert fence.allocator is D
    assert around.record().fenced_from is None
    assert "FenceLost" not in around.reasons()
    around.publish()
    around.fencing.read()
    assert around.record().fenced_from == Moment(boot_id="boot-1", uptime_s=1000.0)


def test_a_dropped_fence_is_noted_and_not_tried_again_at_once(around: Around) -> None:
    around.fencing.read()
    around.node = NodeSeen(label="controller", trouble="")
    around.fencing.read()
    around.publish(stored=device(S))
    fence = around.fencing.read()
    assert fence is not None
    assert (fence.allocator, around.lost) == (S, 1)
    assert "FenceLost" in around.reasons()


def test_the_lease_is_asked_for_only_while_its_controller_is_waited_for(tmp_path: Path) -> None:
    around = Around(tmp_path, C)
    around.fencing.read()
    assert around.lease_looks == ["forget"]
    around.publish()
    around.node = NodeSeen(label="scheduler", trouble="")
    around.fencing.read()
    around.publish()
    around.is_gone = AWAY
    around.fencing.read()
    assert around.lease_looks == ["forget", "forget", "look"]
    assert "ControllerLeaseUnreadable" in around.reasons()
    around.node = replace(around.node, acknowledged=around.record().time_added)
    around.fencing.read()
    assert around.record().state is S


def test_a_reason_leads_to_a_decision_and_to_a_publication(around: Around) -> None:
    """Only once somebody has something to publish, and only where the decision is another."""
    around.fencing.start()
    around.fencing.wake()
    assert around.file.read() is None
    around.fencing.read()
    around.node = NodeSeen(label="controller", trouble="")
    around.fencing.wake()
    assert around.changes.acquire(timeout=20.0)
    assert around.record().state is D
    around.fencing.wake()
    assert not around.changes.acquire(timeout=0.2)
    around.fencing.stop()


def test_time_alone_is_a_reason(tmp_path: Path) -> None:
    around = Around(tmp_path, C, drain_s=0.0)
    around.published = [device(S)]
    around.fencing.start()
    around.fencing.read()
    around.publish()
    around.fencing.wake()  # the publisher says that it is in place
    assert around.changes.acquire(timeout=20.0)
    assert around.record().state is C
    around.fencing.stop()


def test_what_a_pass_finds_to_be_due_is_looked_at_when_it_is(tmp_path: Path) -> None:
    """A node that was restarted while it drained: nothing else may happen until the time is over."""
    around = Around(tmp_path, C)
    since = Moment(boot_id="boot-1", uptime_s=around.uptime_s - 899.9)
    around.file.write(
        FenceRecord(state=D, time_added=NOW, scheduler_may_hold=True, controller_may_hold=False, fenced_from=since)
    )
    around.fencing.start()
    around.fencing.read()
    around.uptime_s += 1.0
    assert around.changes.acquire(timeout=20.0)
    assert around.record().state is C
    around.fencing.stop()


def test_a_failed_decision_is_tried_again(around: Around, tmp_path: Path) -> None:
    """The thread lives on."""
    around.fencing.read()
    around.fencing.start()
    (tmp_path / "fence.json").unlink()
    (tmp_path / "fence.json").mkdir()
    around.fencing.wake()
    (tmp_path / "fence.json").rmdir()
    around.published = [device(S)]
    around.node = NodeSeen(label="controller", trouble="")
    around.fencing.wake()
    assert around.changes.acquire(timeout=20.0)
    around.fencing.stop()
