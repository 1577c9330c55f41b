"""Records and CDI files are in step after a start, without a call of the kubelet's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.claims.model import Deadline
from driver.errors import DeviceInUse, DeviceNotReady
from tests.fakes.claims import Call, Node, claim, device, gpu, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import answer, rewrite, set_state, wipe


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node where claims 1 and 2 are prepared, and the plugin is down."""
    made = Node(tmp_path)
    made.api.put(*(claim(ref(n), [result(n)]) for n in range(8)))
    preparer = made.start()
    for number in (1, 2):
        assert prepare_one(preparer, number) == answer(number, number)
    made.steps.clear()
    return made


def test_a_node_in_step_is_left_as_it_is(node: Node) -> None:
    before = node.cdi_files()
    repaired = node.start().repair()
    assert (repaired.restored, repaired.recorded, repaired.corrupt, repaired.failed) == ([], [], [], {})
    assert node.cdi_files() == before


def test_b13_cdi_files_come_back_equal_to_the_first_without_a_call(node: Node) -> None:
    before = wipe(node)
    node.api.is_down = True
    assert node.start().repair().restored == [uid(1), uid(2)]
    assert node.cdi_files() == before


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_r11_what_is_half_done_is_not_granted(node: Node, state: str) -> None:
    set_state(node, 1, state)
    wipe(node)
    assert node.start().repair().restored == [uid(2)]
    assert not node.cdi_path(1).exists()


def test_r24_a_new_epoch_rewrites_cdi_files_under_the_same_ids(node: Node) -> None:
    """After a driver reload the kubelet does not call again, and a container that restarts must find the new paths."""
    before, granted = node.cdi_files(), node.granted()
    node.epoch = replace(node.epoch, driver_version="590.10", load_marker="inode-2")
    repaired = node.start().repair()
    assert repaired.restored == [uid(1), uid(2)]
    assert node.granted() == granted
    assert all(b"libcuda.so.590.10" in data for data in node.cdi_files().values())
    assert node.cdi_files() != before
    assert {record["epoch"]["driverVersion"] for record in node.records().values()} == {"590.10"}


def test_a_swapped_card_is_not_granted_by_a_repair(node: Node) -> None:
    wipe(node)
    node.gpus[device(1)] = gpu(1, uuid="GPU-new")
    assert node.start().repair().restored == [uid(2)]


def test_without_nvml_nothing_is_rewritten_and_nothing_lost_and_later_it_is(node: Node) -> None:
    before, gpus, epoch = wipe(node), dict(node.gpus), node.epoch
    node.lose_nvml()
    preparer = node.start()
    assert preparer.repair().restored == []
    assert set(node.states().values()) == {"PrepareCompleted"}
    node.gpus, node.epoch = gpus, epoch
    assert preparer.repair().restored == [uid(1), uid(2)]
    assert node.cdi_files() == before


def test_a_missing_node_fails_its_own_claim_alone(node: Node) -> None:
    wipe(node)
    node.host.missing.add("nvidia1")
    repaired = node.start().repair()
    assert repaired.restored == [uid(2)]
    assert isinstance(repaired.failed[uid(1)], DeviceNotReady)


def test_a_gpu_that_fell_off_the_bus_fails_its_own_claim_alone(node: Node) -> None:
    wipe(node)
    del node.gpus[device(1)]
    repaired = node.start().repair()
    assert repaired.restored == [uid(2)]
    assert "is not on this node now" in str(repaired.failed[uid(1)])


def test_b10_a_corrupt_record_is_set_aside_at_start_and_told_once(node: Node) -> None:
    node.record_path(1).write_bytes(b"{")
    preparer = node.start()
    assert preparer.repair().corrupt == [uid(1)]
    assert preparer.repair().corrupt == [uid(1)]
    assert [incident.reason for incident in node.incidents] == ["ClaimRecordCorrupt"]
    assert node.record_path(1).with_suffix(".corrupt").read_bytes() == b"{"
    assert node.cdi_path(1).exists()
    assert prepare_one(preparer, 1) == answer(1, 1)


def test_a_grant_without_a_record_is_recorded_again_never_given_away(node: Node) -> None:
    """B07: its container may be running; deleting the file would free the device under it. No call comes before."""
    node.record_path(1).unlink()
    preparer = node.start()
    assert node.states()[uid(1)] == "PrepareCompleted"
    assert [incident.reason for incident in node.incidents] == ["ClaimRecordRebuilt"]
    node.api.put(claim(ref(5), [result(1)]))
    assert isinstance(prepare_one(preparer, 5), DeviceInUse)
    assert prepare_one(preparer, 1) == answer(1, 1)
    assert unprepare_one(preparer, 1) is None
    assert prepare_one(preparer, 5) == answer(5, 1)


def test_a_file_of_ours_that_says_nothing_is_left_alone(node: Node) -> None:
    node.record_path(1).unlink()
    node.cdi_path(1).write_bytes(b'{"annotations": {"gpu-dra.io/owner": "gpu.nvidia.com/node-a"}}')
    assert node.start().repair().recorded == []
    assert node.cdi_path(1).exists()


def test_a_claim_that_another_instance_is_at_work_on_is_passed_over(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.claims.repair._LOCK_S", 0.02)
    wipe(node)
    other = node.start()
    with other.work.locks.hold_claim(ref(1), Deadline(5), "prepare:begin"):
        repaired = node.start().repair()
    assert repaired.restored == [uid(2)]
    assert "is still held by" in str(repaired.failed[uid(1)])


def test_a_prepare_after_a_repair_in_a_new_epoch_still_asks_the_api_server(node: Node) -> None:
    node.reboot()
    preparer = node.start()
    preparer.repair()
    node.api.put(claim(ref(1), [result(6)]))
    assert prepare_one(preparer, 1, Call()) == answer(1, 6)


def test_b12_a_record_without_an_epoch_is_stamped_so_that_the_next_reboot_is_noticed(node: Node) -> None:
    rewrite(node, 1, epoch={})
    preparer = node.start()
    assert preparer.repair().stamped == [uid(1)]
    assert node.records()[uid(1)]["epoch"] == node.records()[uid(2)]["epoch"]
    assert preparer.repair().stamped == []
    node.reboot()
    assert preparer.repair().restored == [uid(1), uid(2)]


def test_an_epoch_that_is_not_known_stamps_nothing(node: Node) -> None:
    before = node.records()
    node.epoch = replace(node.epoch, driver_version="", load_marker="")
    assert node.start().repair().stamped == []
    assert node.records() == before
