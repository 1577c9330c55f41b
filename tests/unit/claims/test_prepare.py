"""Prepare and unprepare as the kubelet sees them. A node's state in, a call, answers and files out."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.api.gpu_config import NVIDIA_VERSION
from driver.claims.model import ClaimRef, Deadline, PreparedDevice
from driver.claims.prepare import ClaimPreparer
from driver.errors import (
    ApiUnreachable,
    ClaimBusy,
    ClaimError,
    ClaimNotFound,
    ClaimReplaced,
    ConfigInvalid,
    DeviceInUse,
    DeviceNotReady,
    DriverError,
    ForeignPool,
    RecordUnreadable,
    StateUnwritable,
    UnknownDevice,
)
from driver.names import CDIDeviceID, ClaimUID
from tests.fakes.claims import POOL, Call, Node, claim, config, device, gpu, prepare_one, ref, result, uid, unprepare_one
from tests.unit.cdi.cdi_schema import validate_cdi


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Eight GPUs; claim n is allocated GPU n."""
    made = Node(tmp_path)
    made.api.put(*(claim(ref(n), [result(n)]) for n in range(8)))
    return made


def answer(number: int, *positions: int, request: str = "gpus") -> tuple[PreparedDevice, ...]:
    return tuple(
        PreparedDevice(
            requests=(request,),
            pool=POOL,
            device=device(position),
            cdi_device_ids=(CDIDeviceID(f"k8s.gpu.nvidia.com/claim={uid(number)}-{device(position)}"),),
        )
        for position in positions
    )


def test_a_prepared_claim_has_one_record_and_one_cdi_file_that_grants_what_was_answered(node: Node) -> None:
    given = prepare_one(node.start(), 1)
    assert given == answer(1, 1)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert node.granted() == {answer(1, 1)[0].cdi_device_ids[0]}
    spec = json.loads(node.cdi_path(1).read_bytes())
    validate_cdi(spec)
    assert spec["devices"][0]["containerEdits"]["env"] == [f"GPU_DRA_DEVICE_0000_11_00_0={gpu(1).reading.uuid}"]
    assert node.api.reads == 1


def test_a_record_holds_the_plan_and_the_epoch(node: Node) -> None:
    prepare_one(node.start(), 1)
    record = node.records()[uid(1)]
    assert len(record.pop("allocation")) == 64
    assert record == {
        "version": 1,
        "state": "PrepareCompleted",
        "namespace": "default",
        "name": "claim-1",
        "uid": uid(1),
        "epoch": {"bootId": "boot-1", "driverVersion": "580.159.04", "loadMarker": "inode-1"},
        "devices": [
            {
                "request": "gpus",
                "pool": "node-a",
                "device": device(1),
                "uuid": gpu(1).reading.uuid,
                "cdiDeviceIDs": [answer(1, 1)[0].cdi_device_ids[0]],
            }
        ],
    }


def test_a_plan_without_a_hardware_step_is_recorded_once_before_its_cdi_file(node: Node) -> None:
    prepare_one(node.start(), 1)
    assert node.steps == ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"]


def test_unprepare_says_that_it_began_then_takes_the_grant_then_the_record(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.steps.clear()
    assert unprepare_one(preparer, 1) is None
    assert node.steps == [
        "unprepare:record-UnprepareStarted",
        "unprepare:delete-cdi-file",
        "unprepare:delete-metadata",
        "unprepare:delete-record",
        "unprepare:done",
    ]
    assert node.leftovers() == []


# --- B01, R9: again --------------------------------------------------------------------------------------------------


def test_b01_a_second_prepare_returns_the_same_devices_and_writes_nothing(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    before, inode = node.steps.copy(), node.record_path(1).stat().st_ino
    assert prepare_one(preparer, 1) == first
    assert (node.steps, node.record_path(1).stat().st_ino) == (before, inode)
    assert [unprepare_one(preparer, 1), unprepare_one(preparer, 1)] == [None, None]
    assert node.leftovers() == []


def test_r9_a_repeat_asks_the_api_server_only_after_a_registration(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    prepare_one(preparer, 1)
    assert node.api.reads == 1
    preparer.note_registered()
    prepare_one(preparer, 1)
    prepare_one(preparer, 1)
    assert node.api.reads == 2


def test_r9_a_restarted_plugin_compares_before_it_answers_from_the_record(node: Node) -> None:
    first = prepare_one(node.start(), 1)
    assert prepare_one(node.start(), 1) == first
    assert node.api.reads == 2


def test_r9_another_allocation_under_the_same_uid_is_unprepared_then_prepared(node: Node) -> None:
    """The claim was deallocated and allocated again while the kubelet was away; the old GPU may be another claim's by now."""
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(1), [result(5)]))
    preparer.note_registered()
    node.steps.clear()
    assert prepare_one(preparer, 1) == answer(1, 5)
    assert node.steps[:5] == [
        "unprepare:record-UnprepareStarted",
        "unprepare:delete-cdi-file",
        "unprepare:delete-metadata",
        "unprepare:delete-record",
        "unprepare:done",
    ]
    assert node.granted() == {answer(1, 5)[0].cdi_device_ids[0]}
    node.api.put(claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_another_allocation_without_devices_for_us_leaves_nothing_behind(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(1), [result(0, driver="dra.net")]))
    preparer.note_registered()
    assert prepare_one(preparer, 1) == ()
    assert node.leftovers() == []


def test_a_repeat_with_the_api_server_down_is_an_error_after_a_registration_and_none_before(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    node.api.is_down = True
    assert prepare_one(preparer, 1) == first
    preparer.note_registered()
    assert isinstance(prepare_one(preparer, 1), ApiUnreachable)
    assert node.states() == {uid(1): "PrepareCompleted"}


# --- B03, B17: unprepare ---------------------------------------------------------------------------------------------


def test_b03_a_device_is_held_until_its_grant_is_gone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """B03: unlinking the CDI file fails; the device must not be free while a live file still grants it."""
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(2), [result(1)]))
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.parent == node.cdi:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        error = unprepare_one(preparer, 1)
    assert isinstance(error, StateUnwritable)
    assert "the claim keeps its devices until this works" in str(error)
    assert isinstance(prepare_one(preparer, 2), DeviceInUse)
    assert unprepare_one(preparer, 1) is None
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_b03_a_cdi_file_that_is_gone_already_is_success(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.cdi_path(1).unlink()
    assert unprepare_one(preparer, 1) is None
    assert node.leftovers() == []


def test_b17_unprepare_asks_neither_the_api_server_nor_nvml(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.api.is_down, node.api.reads = True, 0
    node.lose_nvml()
    node.host.missing |= {"nvidia1", "nvidiactl"}
    preparer = node.start()
    assert unprepare_one(preparer, 1) is None
    assert unprepare_one(preparer, 9) is None
    assert (node.api.reads, node.leftovers()) == (0, [])


def test_a_named_claim_is_prepared_again_right_after_its_unprepare(node: Node) -> None:
    """R8: no refusal by time; the next pod of a named claim comes a moment later."""
    preparer = node.start()
    first = prepare_one(preparer, 1)
    for _ in range(3):
        assert unprepare_one(preparer, 1) is None
        assert prepare_one(preparer, 1) == first


# --- B07: exclusivity ------------------------------------------------------------------------------------------------


def test_b07_a_device_that_another_claim_holds_is_refused_until_that_ends(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.api.put(claim(ref(2), [result(1)]))
    refused = prepare_one(preparer, 2)
    assert isinstance(refused, DeviceInUse)
    assert f"held by claim default/claim-1 (uid {uid(1)})" in str(refused)
    assert node.states() == {uid(1): "PrepareCompleted"}
    unprepare_one(preparer, 1)
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_b07_another_instance_holds_too(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.api.put(claim(ref(2), [result(1)]))
    assert isinstance(prepare_one(node.start(), 2), DeviceInUse)


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_b07_a_claim_that_is_half_done_holds_its_devices(node: Node, state: str) -> None:
    prepare_one(node.start(), 1)
    set_state(node, 1, state)
    node.api.put(claim(ref(2), [result(1)]))
    refused = prepare_one(node.start(), 2)
    assert isinstance(refused, DeviceInUse)
    assert state in str(refused)


def test_b07_many_claims_that_want_one_device_at_once_get_it_once(node: Node) -> None:
    preparers = [node.start(), node.start()]
    node.api.put(*(claim(ref(n), [result(0)]) for n in range(8)))
    answers: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: answers.__setitem__(n, prepare_one(preparers[n % 2], n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(isinstance(each, DeviceInUse) for each in answers.values()) == [False] + [True] * 7
    assert len(node.states()) == len(node.cdi_files()) == 1


def test_b66_a_monitor_neither_holds_nor_is_held(node: Node) -> None:
    """B66: workloads behave as if the monitor did not exist, and the other way round."""
    preparer = node.start()
    prepare_one(preparer, 1)
    everything = [result(n, admin_access=True) for n in range(8)]
    node.api.put(claim(ref(20), everything), claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 20) == answer(20, *range(8))
    unprepare_one(preparer, 1)
    assert prepare_one(preparer, 2) == answer(2, 1)
    assert unprepare_one(preparer, 20) is None
    assert node.states() == {uid(2): "PrepareCompleted"}


def test_b66_a_monitor_does_not_wait_for_a_device_whose_lock_is_held(node: Node) -> None:
    preparer = node.start()
    node.api.put(claim(ref(20), [result(1, admin_access=True)]))
    with preparer.work.locks.hold_gpus((device(1),), ref(1), Deadline(0), "hung"):
        assert prepare_one(preparer, 20) == answer(20, 1)


def test_b66_a_monitor_with_a_config_is_refused(node: Node) -> None:
    parameters = {"apiVersion": NVIDIA_VERSION, "kind": "GpuConfig"}
    node.api.put(claim(ref(20), [result(1, admin_access=True)], [config(parameters)]))
    assert isinstance(prepare_one(node.start(), 20), ConfigInvalid)


def test_two_requests_of_a_monitor_for_one_device_share_its_cdi_device(node: Node) -> None:
    node.api.put(claim(ref(20), [result(1, "a", admin_access=True), result(1, "b", admin_access=True)]))
    given = prepare_one(node.start(), 20)
    assert given == answer(20, 1, request="a") + answer(20, 1, request="b")
    assert len(json.loads(node.cdi_path(20).read_bytes())["devices"]) == 1


# --- B15, B59, B67: claims of one call -------------------------------------------------------------------------------


def test_b59_each_claim_of_a_call_gets_its_own_answer_and_good_ones_are_prepared(node: Node) -> None:
    """B59: one bad claim never fails its neighbours; every claim asked has an entry."""
    prepare_one(node.start(), 7)
    node.api.put(
        claim(ref(11), [result(9)]),
        claim(ref(12), [result(0, driver="dra.net")]),
        claim(ClaimRef(namespace="default", name="claim-13", uid=uid(99)), [result(3)]),
        claim(ref(14), []),
        claim(ref(15), [result(7)]),
        claim(ref(16), [result(4)], [config({"kind": "GpuConfig"})]),
        claim(ref(17), [result(5, pool="node-b")]),
    )
    asked = [1, 11, 12, 13, 14, 15, 16, 17, 18, 2]
    answers = node.start().prepare([ref(n) for n in asked], Call())
    assert list(answers) == [uid(n) for n in asked]
    good = {n: each for n in asked if not isinstance(each := answers[uid(n)], DriverError)}
    assert good == {1: answer(1, 1), 12: (), 14: (), 2: answer(2, 2)}
    assert {n: type(answers[uid(n)]) for n in asked if n not in good} == {
        11: UnknownDevice,
        13: ClaimReplaced,
        15: DeviceInUse,
        16: ConfigInvalid,
        17: ForeignPool,
        18: ClaimNotFound,
    }
    assert set(node.states()) == {uid(1), uid(2), uid(7)}
    assert set(node.cdi_files()) == {node.cdi_path(n).name for n in (1, 2, 7)}


def test_an_empty_call_has_an_empty_answer(node: Node) -> None:
    assert node.start().prepare([], Call()) == {}
    assert node.start().unprepare([], Call()) == {}


def test_b15_only_our_part_of_a_claim_of_several_drivers_is_prepared(node: Node) -> None:
    node.api.put(claim(ref(1), [result(0, "nic", driver="dra.net", pool="x", device="nic-7"), result(1)]))
    assert prepare_one(node.start(), 1) == answer(1, 1)
    assert [each["device"] for each in node.records()[uid(1)]["devices"]] == [device(1)]


@pytest.mark.parametrize("text", ["../../../etc/cron.d/x", "", "a/b", uid(1).upper().replace("0", "A", 1), f"{uid(1)}\n"])
def test_a_uid_that_is_none_is_an_error_and_touches_no_file(node: Node, text: str) -> None:
    preparer = node.start()
    bad = ClaimRef(namespace="default", name="claim-1", uid=ClaimUID(text))
    for answers in (preparer.prepare([bad], Call()), preparer.unprepare([bad], Call())):
        assert "is no claim uid" in str(answers[bad.uid])
    assert node.leftovers() == []


@pytest.mark.parametrize("missing", ["nvidia1", "nvidiactl", "nvidia-uvm"])
def test_b48_a_missing_device_node_is_named_and_never_remembered(node: Node, missing: str) -> None:
    """B48: after it came back the next prepare works, and nothing half done was left in between."""
    preparer = node.start()
    node.host.missing.add(missing)
    refused = prepare_one(preparer, 1)
    assert isinstance(refused, DeviceNotReady)
    assert f"/dev/{missing}" in str(refused)
    assert (node.states(), node.cdi_files()) == ({}, {})
    node.host.missing.clear()
    assert prepare_one(preparer, 1) == answer(1, 1)


def test_a_claim_that_cannot_be_granted_holds_nothing(node: Node) -> None:
    preparer = node.start()
    node.host.missing.add("nvidia1")
    prepare_one(preparer, 1)
    node.host.missing.clear()
    node.api.put(claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 2) == answer(2, 1)


def test_a_failed_first_prepare_leaves_no_lock_file(node: Node) -> None:
    assert isinstance(prepare_one(node.start(), 50), ClaimNotFound)
    assert node.leftovers() == []


# --- B13: CDI files come back ----------------------------------------------------------------------------------------


def wipe(node: Node) -> dict[str, bytes]:
    before = node.cdi_files()
    for path in node.cdi.iterdir():
        path.unlink()
    node.cdi.rmdir()
    return before


def test_b13_a_repeat_writes_a_lost_cdi_file_again(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    before = wipe(node)
    assert prepare_one(preparer, 1) == first
    assert node.cdi_files() == before


def test_b13_a_repeat_fails_while_the_file_cannot_be_written(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    wipe(node)
    node.cdi.write_text("in the way")
    assert isinstance(prepare_one(preparer, 1), StateUnwritable)
    node.cdi.unlink()
    assert prepare_one(preparer, 1) == answer(1, 1)


# --- B12, R24: epochs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"boot_id": "boot-2"}, {"driver_version": "590.10"}, {"load_marker": "inode-2"}],
    ids=["boot", "driver", "reload"],
)
def test_b12_a_new_epoch_prepares_afresh_under_the_same_cdi_ids(node: Node, changes: dict[str, str]) -> None:
    first = prepare_one(node.start(), 1)
    node.epoch = replace(node.epoch, **changes)
    preparer = node.start()
    node.steps.clear()
    assert prepare_one(preparer, 1) == first
    assert node.steps == ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"]
    assert node.records()[uid(1)]["epoch"]["bootId"] == node.epoch.boot_id
    node.steps.clear()
    assert prepare_one(preparer, 1) == first
    assert node.steps == []


def test_b12_a_new_epoch_is_seen_by_a_running_plugin_too(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.reboot()
    node.steps.clear()
    prepare_one(preparer, 1)
    assert "prepare:cdi-file" in node.steps


def test_b12_a_record_without_an_epoch_is_kept(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    rewrite(node, 1, epoch={})
    node.steps.clear()
    assert prepare_one(node.start(), 1) == first
    assert node.steps == []


def test_r24_a_swapped_card_is_refused_and_reported(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    node.gpus[device(1)] = gpu(1, uuid="GPU-new")
    refused = prepare_one(preparer, 1)
    assert isinstance(refused, DeviceNotReady)
    assert "GPU-new now: the card was replaced; delete the pod" in str(refused)
    assert [incident.reason for incident in node.incidents] == ["GpuReplaced"]
    assert unprepare_one(preparer, 1) is None
    node.api.put(claim(ref(2), [result(1)]))
    assert prepare_one(preparer, 2) == answer(2, 1)


# --- B08, B10: records that are old or broken ------------------------------------------------------------------------


def test_b08_a_claim_with_a_record_of_a_later_driver_keeps_its_unknown_keys_until_it_is_gone(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    rewrite(node, 1, later={"x": 1})
    node.reboot()
    prepare_one(preparer, 1)
    assert node.records()[uid(1)]["later"] == {"x": 1}
    assert unprepare_one(preparer, 1) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\x00" * 400, b'{"sha256":"0","record":{}}'], ids=["empty", "cut", "zeros", "hash"]
)
def test_b10_a_corrupt_record_is_set_aside_reported_and_rebuilt(node: Node, content: bytes) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    node.record_path(1).write_bytes(content)
    node.api.put(claim(ref(2), [result(1)]), claim(ref(3), [result(3)]))
    restarted = node.start()
    assert isinstance(prepare_one(restarted, 2), DeviceInUse), "its devices, as its CDI file has them, stay blocked"
    assert prepare_one(restarted, 3) == answer(3, 3), "other devices do not"
    assert prepare_one(restarted, 1) == first
    assert node.states()[uid(1)] == "PrepareCompleted"
    assert [incident.reason for incident in node.incidents] == ["ClaimRecordCorrupt"]
    assert f"{uid(1)}.corrupt" in node.incidents[0].message
    assert not node.record_path(1).with_suffix(".corrupt").exists()


def test_b10_unprepare_of_a_corrupt_record_works_from_the_cdi_file(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.record_path(1).write_bytes(b"{")
    assert unprepare_one(node.start(), 1) is None
    assert node.leftovers() == []


def test_b10_a_corrupt_record_of_which_nothing_is_known_is_not_an_unknown_claim(node: Node) -> None:
    """R12: success would leak what the record held; so it is an error with the remedy, and blocks every device."""
    prepare_one(node.start(), 1)
    node.record_path(1).write_bytes(b"{")
    node.cdi_path(1).unlink()
    preparer = node.start()
    error = unprepare_one(preparer, 1)
    assert isinstance(error, RecordUnreadable)
    assert "if no container uses the claim any more, delete the file" in str(error)
    assert isinstance(prepare_one(preparer, 2), DeviceInUse)
    assert isinstance(unprepare_one(preparer, 1), RecordUnreadable)
    assert [incident.reason for incident in node.incidents] == ["ClaimRecordCorrupt"]
    assert prepare_one(preparer, 1) == answer(1, 1), "preparing it again mends it"
    assert prepare_one(preparer, 2) == answer(2, 2)
    assert unprepare_one(preparer, 1) is None


def test_b10_a_running_plugin_remembers_what_a_record_held(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    prepare_one(preparer, 2)
    node.record_path(1).write_bytes(b"{")
    node.cdi_path(1).unlink()
    assert prepare_one(preparer, 3) == answer(3, 3)
    assert unprepare_one(preparer, 1) is None


def test_a_record_that_is_gone_is_made_again_from_the_cdi_file_at_unprepare(node: Node) -> None:
    prepare_one(node.start(), 1)
    node.record_path(1).unlink()
    assert unprepare_one(node.start(), 1) is None
    assert node.leftovers() == []


# --- B04, R8: calls that are over ------------------------------------------------------------------------------------


def test_b04_a_started_record_is_undone_and_prepared_afresh(node: Node) -> None:
    first = prepare_one(node.start(), 1)
    set_state(node, 1, "PrepareStarted")
    assert prepare_one(node.start(), 1) == first
    assert node.states() == {uid(1): "PrepareCompleted"}


@pytest.mark.parametrize("state", ["PrepareStarted", "UnprepareStarted"])
def test_b04_a_half_done_record_is_released(node: Node, state: str) -> None:
    prepare_one(node.start(), 1)
    set_state(node, 1, state)
    assert unprepare_one(node.start(), 1) is None
    assert node.leftovers() == []


def test_r8_a_prepare_whose_caller_has_gone_takes_no_effect(node: Node) -> None:
    preparer, call = node.start(), Call()
    call.hang_up()
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.leftovers() == []


@pytest.mark.parametrize("step", ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"])
@pytest.mark.parametrize("how", ["hang up", "unprepare began"])
def test_r8_a_prepare_that_is_overtaken_at_any_step_undoes_itself(tmp_path: Path, step: str, how: str) -> None:
    call = Call()
    node = Overtaken(tmp_path)
    node.api.put(claim(ref(1), [result(1)]))
    preparer = node.start()

    def overtake() -> None:
        if how == "hang up":
            call.hang_up()
        else:
            preparer.work.ended.add(uid(1))

    node.at[step] = overtake
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.leftovers() == []
    assert prepare_one(preparer, 1) == answer(1, 1)


def test_r8_an_unprepare_that_began_in_another_instance_counts(tmp_path: Path) -> None:
    node = Overtaken(tmp_path)
    node.api.put(claim(ref(1), [result(1)]))
    preparer, other = node.start(), node.start()
    node.at["prepare:cdi-file"] = lambda: other.work.ended.add(uid(1))
    assert isinstance(prepare_one(preparer, 1), ClaimBusy)
    assert node.leftovers() == []


def test_r8_a_repeat_of_a_prepared_claim_undoes_nothing(node: Node) -> None:
    preparer, call = node.start(), Call()
    prepare_one(preparer, 1)
    call.hang_up()
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert node.cdi_path(1).exists()


# --- B18: time -------------------------------------------------------------------------------------------------------


def test_b18_one_hung_claim_keeps_neither_its_neighbours_nor_the_answer(tmp_path: Path) -> None:
    """B18, R36: the answer leaves before the call's end; the hung claim is said to be still at work, and where."""
    node, gate = Overtaken(tmp_path), threading.Event()
    node.api.put(*(claim(ref(n), [result(n)]) for n in range(3)))
    preparer = node.start()
    prepare_one(preparer, 0)
    node.at["unprepare:delete-cdi-file"] = lambda: gate.wait(60)
    short = Call(1.1)
    assert isinstance(unprepare_one(preparer, 0, short), ClaimBusy)
    answers = preparer.prepare([ref(0), ref(1), ref(2)], Call(1.6))
    assert (answers[uid(1)], answers[uid(2)]) == (answer(1, 1), answer(2, 2))
    said = str(answers[uid(0)])
    assert "still working" in said or "still held by" in said
    assert "at unprepare:delete-cdi-file" in said
    gate.set()
    assert unprepare_one(preparer, 0) is None


def test_a_call_without_time_left_is_told_to_ask_again(node: Node) -> None:
    assert isinstance(prepare_one(node.start(), 1, Call(0)), ClaimBusy)


def test_a_bug_in_one_claim_is_that_claims_answer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    preparer = node.start()
    read = node.api.read_claim

    def fail(ref: ClaimRef) -> Any:
        if ref.uid == uid(1):
            raise RuntimeError("a bug")
        return read(ref)

    monkeypatch.setattr(node.api, "read_claim", fail)
    answers = preparer.prepare([ref(1), ref(2)], Call())
    assert str(answers[uid(1)]).startswith("internal error (RuntimeError)")
    assert answers[uid(2)] == answer(2, 2)


def test_devices_in_any_record_are_known(node: Node) -> None:
    """R23: a device that a record holds must not vanish from the slices."""
    preparer = node.start()
    node.api.put(claim(ref(20), [result(4, admin_access=True)]))
    prepare_one(preparer, 1)
    prepare_one(preparer, 20)
    assert preparer.read_held_devices() == {device(1), device(4)}


class Overtaken(Node):
    """A node on which something happens just as a step is about to be taken."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.at: dict[str, Any] = {}

    def _step(self, name: str) -> None:
        act = self.at.pop(name, None)
        if act is not None:
            act()
        super()._step(name)


def rewrite(node: Node, number: int, **changes: Any) -> None:
    """Change a record on disk, and its hash with it."""
    body = json.dumps({**node.records()[uid(number)], **changes}).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    node.record_path(number).write_bytes(b'{"sha256":"%s","record":%s}' % (digest, body))


def set_state(node: Node, number: int, state: str) -> None:
    rewrite(node, number, state=state)


def test_claim_errors_are_the_claims_own(node: Node) -> None:
    """Whatever goes wrong with a claim is a DriverError in its entry, never an exception of the call."""
    preparer: ClaimPreparer = node.start()
    node.api.is_down = True
    error = prepare_one(preparer, 1)
    assert isinstance(error, DriverError)
    assert not isinstance(error, ClaimError)


# --- what a review found ---------------------------------------------------------------------------------------------


def test_r8_a_claim_that_was_prepared_before_is_never_undone_by_a_later_call(tmp_path: Path) -> None:
    """A new epoch prepares afresh; when that call dies, the pod of the earlier one may still run."""
    node, call = Overtaken(tmp_path), Call()
    node.api.put(claim(ref(1), [result(1)]))
    preparer = node.start()
    first = prepare_one(preparer, 1)
    node.epoch = replace(node.epoch, load_marker="inode-2")
    node.at["prepare:done"] = call.hang_up
    assert isinstance(prepare_one(preparer, 1, call), ClaimBusy)
    assert node.states() == {uid(1): "PrepareCompleted"}
    assert node.cdi_path(1).exists()
    assert prepare_one(preparer, 1) == first


def test_r9_a_registration_while_the_api_server_is_asked_means_asking_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    preparer, read = node.start(), node.api.read_claim

    def register_meanwhile(ref: ClaimRef) -> Any:
        found = read(ref)
        preparer.note_registered()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(node.api, "read_claim", register_meanwhile)
        prepare_one(preparer, 1)
    reads = node.api.reads
    prepare_one(preparer, 1)
    assert node.api.reads == reads + 1


def test_a_full_disk_does_not_keep_a_claim_from_ending(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet ends pods to free the disk, and waits for their unprepare."""
    preparer = node.start()
    prepare_one(preparer, 1)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        for name in ("write", "pwrite"):
            patch.setattr(os, name, full)
        assert isinstance(prepare_one(preparer, 2), StateUnwritable)
        assert unprepare_one(preparer, 1) is None
    assert (node.states(), node.cdi_files()) == ({}, {})
    assert prepare_one(preparer, 2) == answer(2, 2), "no lock was lost either"


def test_unknown_keys_survive_a_rebuild_from_the_cdi_file(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    rewrite(node, 1, later={"x": 1})
    node.cdi_path(1).unlink()
    prepare_one(preparer, 1)
    node.record_path(1).write_bytes(b"{")
    prepare_one(preparer, 1)
    assert node.records()[uid(1)]["later"] == {"x": 1}
