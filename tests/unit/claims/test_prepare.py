"""A claim is prepared, and prepared again (B01, R9)."""

from __future__ import annotations

import json

from driver.errors import (
    ApiUnreachable,
)
from tests.fakes.claims import Node, claim, device, gpu, prepare_one, ref, result, uid, unprepare_one
from tests.unit.cdi.cdi_schema import validate_cdi
from tests.unit.claims.situations import answer


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
