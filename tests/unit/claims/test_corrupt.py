"""Records that are old, broken, lost or half done (B04, B08, B10)."""

from __future__ import annotations

import pytest

from driver.errors import (
    DeviceInUse,
    RecordUnreadable,
)
from tests.fakes.claims import Node, claim, prepare_one, ref, result, uid, unprepare_one
from tests.unit.claims.situations import answer, rewrite


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
