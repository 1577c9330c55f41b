"""The record of whose the devices are, on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.errors import StateUnwritable
from driver.node.fence import FenceRecord, Moment
from driver.node.fence_file import FenceFile, decode_record, encode_record
from driver.resourceslice.attributes import Allocator

RECORD = FenceRecord(
    state=Allocator.DRAINING,
    time_added="2026-12-02T01:00:00Z",
    scheduler_may_hold=True,
    controller_may_hold=False,
    fenced_from=Moment(boot_id="boot-1", uptime_s=12.5),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = FenceFile(tmp_path)
    assert file.read() is None
    file.write(RECORD)
    assert FenceFile(tmp_path).read() == RECORD
    assert (tmp_path / "fence.json").stat().st_mode & 0o777 == 0o600


def test_the_file_is_for_people_too() -> None:
    assert json.loads(encode_record(RECORD)) == {
        "version": 1,
        "state": "draining",
        "time_added": "2026-12-02T01:00:00Z",
        "scheduler_may_hold": True,
        "controller_may_hold": False,
        "fenced_from": {"boot_id": "boot-1", "uptime_s": 12.5},
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"version": 1, "state": "contr', id="torn"),
        pytest.param(encode_record(RECORD).replace(b'"version": 1', b'"version": 2'), id="of a newer program"),
        pytest.param(encode_record(RECORD).replace(b"draining", b"nobody"), id="a state that is none"),
        pytest.param(encode_record(RECORD).replace(b'"draining"', b'"controller"'), id="the controller's, undrained"),
        pytest.param(b" " * 20_000, id="long"),
    ],
)
def test_a_record_that_cannot_be_is_set_aside(tmp_path: Path, text: bytes) -> None:
    """Never trusted, never lost."""
    (tmp_path / "fence.json").write_bytes(text)
    assert FenceFile(tmp_path).read() is None
    assert (tmp_path / "fence.json.corrupt").read_bytes() == text
    assert not (tmp_path / "fence.json").exists()


def test_a_disk_that_does_not_answer_is_not_an_absent_record(tmp_path: Path) -> None:
    """Else the node would be taken for new, and go to whom it is wanted by at once."""
    (tmp_path / "fence.json").mkdir()
    with pytest.raises(StateUnwritable, match="reading who allocates"):
        FenceFile(tmp_path).read()
    with pytest.raises(StateUnwritable, match="remembering who allocates"):
        FenceFile(tmp_path).write(RECORD)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_no_text_breaks_the_reader(data: bytes) -> None:
    assert isinstance(decode_record(data), str | FenceRecord)
