"""What was known is known after a restart, and nothing that is not ours becomes a taint."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from driver.errors import StateUnwritable
from driver.health.file import FILE_NAME, MAX_BYTES, HealthFile, find_fault
from driver.health.model import Instance, Kind
from driver.health.state import HealthState
from tests.unit.health.observed import after, driver, ecc, look, rows, xid

SICK = after(
    driver("boot-1"),
    look(0, links=((0, True), (5, True)), errors=3, reasons=0x40),
    xid(79, 1),
    xid(13, 2),
    xid(48, 3, instance=Instance(gpu_instance_id=3, compute_instance_id=0, start=4, size=4)),
    ecc(4),
    look(5, links=((0, False), (5, True)), errors=3, rows=rows(has_failed=True), action=1),
)


def test_everything_is_read_back(tmp_path: Path) -> None:
    HealthFile(tmp_path).write(SICK)
    assert HealthFile(tmp_path).read() == SICK
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_nothing_is_wrong_where_there_is_no_file(tmp_path: Path) -> None:
    assert HealthFile(tmp_path).read() == HealthState()


def test_the_same_state_is_not_written_again(tmp_path: Path) -> None:
    file = HealthFile(tmp_path)
    file.write(SICK)
    before = (tmp_path / FILE_NAME).stat().st_ino
    file.write(SICK)
    assert (tmp_path / FILE_NAME).stat().st_ino == before


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(StateUnwritable, match="remembering the GPUs' health in"):
        HealthFile(tmp_path / "missing").write(SICK)


GOOD = msgspec.json.encode(SICK).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2}',
        '{"troubles": 3}',
        "\x00" * 100,
        "[" * 50_000,
        " " * (MAX_BYTES + 1),
        GOOD.replace('"value":"79"', '"value":"79 and more"', 1),
        GOOD.replace('"value":"79"', f'"value":"{"9" * 64}"', 1),
        GOOD.replace('"kind":"xid"', '"kind":"../xid"', 1),
        GOOD.replace('"device":"gpu-0000-01-00-0"', '"device":"GPU 1"', 1),
        GOOD.replace("2026-12-02T05:00:01Z", "2026-12-02T05:00:01", 1),
        GOOD.replace("2026-12-02T05:00:01Z", "yesterday", 1),
        GOOD.replace("2026-12-02T05:00:01Z", "0001-01-01T00:00:00Z", 1),
        GOOD.replace("2026-12-02T05:00:01Z", "2026-12-02T05:00:01+14:00", 1),
        '{"gpus": {"gpu-0000-01-00-0": {"last_told": "2026-12-02T05:00:01"}}}',
        '{"gpus": {"\\u001b[31m": {}}}',
        '{"counts": {"GPU 1": {"13": 1}}}',
        '{"counts": {"gpu-0000-01-00-0": {"13": -1}}}',
        f'{{"counts": {{"gpu-0000-01-00-0": {{"13": {10**400}}}}}}}',
        msgspec.json.encode({"counts": {"gpu-0000-01-00-0": dict.fromkeys(range(65), 1)}}).decode(),
    ],
    ids=[
        "empty", "torn", "list", "newer", "types", "noughts", "deep", "large", "value", "long-value", "kind", "device",
        "no-zone", "no-time", "year-1", "other-zone", "event-without-zone", "gpu-name", "counted-name", "negative-count",
        "endless-count", "many-numbers",
    ],
)  # fmt: skip
def test_a_damaged_file_is_set_aside_and_nothing_of_it_is_published(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    file = HealthFile(tmp_path)
    assert file.read() == HealthState()
    if len(text) <= MAX_BYTES:
        assert (tmp_path / f"{FILE_NAME}.corrupt").read_text() == text
    file.write(SICK)
    assert HealthFile(tmp_path).read() == SICK


def test_a_folder_in_the_files_place_is_no_reason_to_end(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    assert HealthFile(tmp_path).read() == HealthState()


def test_a_state_of_more_gpus_than_any_machine_is_none_of_ours() -> None:
    many = msgspec.structs.replace(SICK, troubles=SICK.troubles * 3000)
    assert find_fault(many) == "it has more GPUs or troubles than any machine"
    assert find_fault(SICK) is None
    assert {each.kind for each in SICK.troubles} >= {Kind.XID, Kind.ECC, Kind.RECOVERY, Kind.NVLINK, Kind.REMAPPED_ROWS}
