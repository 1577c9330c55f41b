"""The folder of records."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import msgspec
import pytest

from driver.claims.record import ClaimRecord, State, encode_record
from driver.claims.store import Corrupt, RecordFolder, Stored
from driver.errors import ClaimError, StateUnwritable
from driver.names import ClaimUID
from tests.fakes.claims import uid
from tests.unit.claims.test_record import FULL


def folder(tmp_path: Path) -> RecordFolder:
    made = RecordFolder(tmp_path / "deep" / "claims")
    made.start()
    return made


def read_record(records: RecordFolder) -> ClaimRecord | None:
    found = records.read(uid(1))
    return found.record if isinstance(found, Stored) else None


def test_a_record_is_one_file_for_root_alone(tmp_path: Path) -> None:
    records = folder(tmp_path)
    records.write(FULL)
    path = records.folder / f"{uid(1)}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(records.folder.stat().st_mode) == 0o700
    assert [each.name for each in records.folder.iterdir()] == [path.name]
    assert read_record(records) == FULL


def test_a_claim_without_a_record_has_none(tmp_path: Path) -> None:
    records = folder(tmp_path)
    assert records.read(uid(1)) is None
    records.delete(uid(1))


def test_deleting_takes_what_was_set_aside_too(tmp_path: Path) -> None:
    records = folder(tmp_path)
    records.write(FULL)
    (records.folder / f"{uid(1)}.corrupt").write_bytes(b"x")
    records.delete(uid(1))
    assert list(records.folder.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "..", "../x", "a/b", uid(1).upper().replace("4", "A"), uid(1) + "\n", uid(1)[:-1], "x" * 36]
)
def test_only_a_uid_becomes_a_file_name(tmp_path: Path, text: str) -> None:
    records = folder(tmp_path)
    for act in (records.read, records.delete):
        with pytest.raises(ClaimError, match="is no claim uid"):
            act(ClaimUID(text))
    with pytest.raises(ClaimError):
        records.write(msgspec.structs.replace(FULL, uid=text))
    assert list(records.folder.iterdir()) == []


def test_b10_a_corrupt_record_is_set_aside_alone_and_stays_corrupt(tmp_path: Path) -> None:
    records = folder(tmp_path)
    other = msgspec.structs.replace(FULL, uid=uid(2))
    records.write(other)
    (records.folder / f"{uid(1)}.json").write_bytes(b"{")
    found = records.read(uid(1))
    assert isinstance(found, Corrupt)
    aside = records.set_aside(found)
    assert Path(aside.path).name == f"{uid(1)}.corrupt"
    assert Path(aside.path).read_bytes() == b"{"
    assert isinstance(records.read(uid(1)), Corrupt)
    assert records.set_aside(aside) == aside
    assert isinstance(records.read(uid(2)), Stored)


def test_writing_a_record_ends_its_being_corrupt(tmp_path: Path) -> None:
    records = folder(tmp_path)
    (records.folder / f"{uid(1)}.corrupt").write_bytes(b"{")
    records.write(FULL)
    assert [each.name for each in records.folder.iterdir()] == [f"{uid(1)}.json"]


def test_a_record_of_another_claim_is_corrupt(tmp_path: Path) -> None:
    records = folder(tmp_path)
    (records.folder / f"{uid(1)}.json").write_bytes(encode_record(msgspec.structs.replace(FULL, uid=uid(2))))
    found = records.read(uid(1))
    assert isinstance(found, Corrupt)
    assert "is the record of claim" in found.why


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_plain_file_is_corrupt_and_never_followed(tmp_path: Path, kind: str) -> None:
    records = folder(tmp_path)
    path = records.folder / f"{uid(1)}.json"
    (tmp_path / "target").write_bytes(encode_record(FULL))
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "target")
    else:
        os.mkfifo(path)
    found = records.read(uid(1))
    assert isinstance(found, Corrupt)
    records.set_aside(found)
    assert (tmp_path / "target").read_bytes() == encode_record(FULL)


def test_a_folder_that_cannot_be_made_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnwritable, match=r"record folder .*file/claims"):
        RecordFolder(tmp_path / "file" / "claims").start()


def test_a_disk_that_refuses_is_a_claims_error_and_leaves_the_old_record(tmp_path: Path) -> None:
    records = folder(tmp_path)
    with pytest.raises(StateUnwritable, match="writing the record of claim"):
        RecordFolder(tmp_path / "nowhere").write(FULL)
    records.write(FULL)
    assert read_record(records) == FULL


def test_half_written_files_of_a_killed_process_go_at_start_once_they_are_old(tmp_path: Path) -> None:
    records = folder(tmp_path)
    old, young = records.folder / f".{uid(1)}.json.aa.tmp", records.folder / f".{uid(2)}.json.bb.tmp"
    old.write_bytes(b"{")
    young.write_bytes(b"{")
    os.utime(old, (time.time() - 120,) * 2)
    records.start()
    assert [each.name for each in records.folder.iterdir()] == [young.name]
    assert records.read(uid(1)) is None


def test_a_rewrite_keeps_the_unknown_keys_of_the_file(tmp_path: Path) -> None:
    records = folder(tmp_path)
    records.write(FULL, onto={"later": [1]})
    found = records.read(uid(1))
    assert isinstance(found, Stored)
    records.write(msgspec.structs.replace(found.record, state=State.UNPREPARE_STARTED), onto=found.body)
    again = records.read(uid(1))
    assert isinstance(again, Stored)
    assert again.body["later"] == [1]


def test_an_unprepare_begins_with_a_rename_and_nothing_else_of_the_record_changes(tmp_path: Path) -> None:
    """No write and no wait for the disk: what had to last through a loss of power was written when the claim was prepared."""
    records = folder(tmp_path)
    records.write(FULL)
    before = (records.folder / f"{uid(1)}.json").read_bytes()
    assert records.mark_ending(uid(1))
    assert [(path.name, path.read_bytes()) for path in records.folder.iterdir()] == [(f"{uid(1)}.ending", before)]
    found = records.read(uid(1))
    assert isinstance(found, Stored)
    assert found.record == msgspec.structs.replace(FULL, state=State.UNPREPARE_STARTED)
    records.delete(uid(1))
    assert records.read(uid(1)) is None


def test_what_has_no_record_cannot_be_marked(tmp_path: Path) -> None:
    records = folder(tmp_path)
    assert not records.mark_ending(uid(1))
    (records.folder / f"{uid(1)}.corrupt").write_bytes(b"{")
    assert not records.mark_ending(uid(1))


def test_a_marked_record_that_cannot_be_read_is_set_aside_like_any_other(tmp_path: Path) -> None:
    records = folder(tmp_path)
    (records.folder / f"{uid(1)}.ending").write_bytes(b"{")
    found = records.read(uid(1))
    assert isinstance(found, Corrupt)
    records.set_aside(found)
    assert [path.name for path in records.folder.iterdir()] == [f"{uid(1)}.corrupt"]
