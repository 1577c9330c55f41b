"""Who holds which device, as the folder says it at each look."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from driver.claims.index import ClaimIndex
from driver.claims.record import ClaimRecord, State, encode_record
from driver.claims.store import Corrupt, RecordFolder, Stored
from driver.errors import StateUnwritable
from driver.names import ClaimUID, DeviceName
from driver.topology.mig import Footprint
from tests.fakes.claims import device, uid
from tests.unit.claims.test_record import DEVICE, FULL


def record(number: int, position: int, **changes: object) -> ClaimRecord:
    return msgspec.structs.replace(
        FULL,
        uid=uid(number),
        name=f"claim-{number}",
        devices=(msgspec.structs.replace(DEVICE, device=device(position), **changes),),
    )


def whole(*positions: int) -> dict[DeviceName, Footprint]:
    """What whole GPUs take."""
    return {device(position): Footprint(gpu=device(position)) for position in positions}


class Folder(RecordFolder):
    """A folder of records, the files that were written to it last, and an index with a clock and CDI files of the test's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.start()
        self.granted: dict[ClaimUID, Stored] = {}
        self.ahead_ns = 10**12
        self.index = ClaimIndex(self, self.granted.get, lambda: path.stat().st_mtime_ns + self.ahead_ns)

    def holds(self, but: int = 0) -> dict[DeviceName, list[str]]:
        holders = self.index.read_holders(whole(0, 1), uid(but))
        return {name: [holder.who.split(" (")[0] for holder in each] for name, each in holders.items() if each}


def test_each_record_holds_its_devices(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0))
    folder.write(record(2, 1))
    assert folder.holds() == {device(0): ["claim default/claim-1"], device(1): ["claim default/claim-2"]}
    assert folder.holds(but=1) == {device(1): ["claim default/claim-2"]}


@pytest.mark.parametrize("state", list(State))
def test_a_record_in_any_state_holds_its_devices(tmp_path: Path, state: State) -> None:
    folder = Folder(tmp_path)
    folder.write(msgspec.structs.replace(record(1, 0), state=state))
    assert folder.index.read_holders(whole(0), uid(0))[device(0)][0].who.endswith(f"({state.value})")


def test_b66_a_monitor_holds_nothing_but_its_devices_are_known(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0, is_admin=True))
    assert folder.holds() == {}
    assert folder.index.read_devices() == {device(0)}


def test_what_another_process_writes_or_deletes_is_seen_at_the_next_look(tmp_path: Path) -> None:
    folder, other = Folder(tmp_path), RecordFolder(tmp_path)
    other.write(record(1, 0))
    assert folder.holds() == {device(0): ["claim default/claim-1"]}
    other.write(record(1, 1))
    assert folder.holds() == {device(1): ["claim default/claim-1"]}
    other.delete(uid(1))
    assert folder.holds() == {}


def test_files_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0))
    path = tmp_path / f"{uid(1)}.json"
    folder.holds()
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.holds() == {device(0): ["claim default/claim-1"]}


def test_a_file_as_young_as_the_clocks_tick_is_read_again(tmp_path: Path) -> None:
    """Two states of a claim have files of one size; within a tick of the clock nothing else need differ."""
    folder = Folder(tmp_path)
    folder.ahead_ns = 0
    folder.write(record(1, 0))
    path = tmp_path / f"{uid(1)}.json"
    folder.holds()
    before = path.stat()
    with path.open("r+b") as file:
        file.write(encode_record(record(1, 1)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.holds() == {device(1): ["claim default/claim-1"]}


def test_b10_a_record_that_became_corrupt_still_holds_what_it_held(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0))
    folder.holds()
    (tmp_path / f"{uid(1)}.json").write_bytes(b"{")
    assert folder.holds() == {device(0): ["claim default/claim-1"]}
    assert folder.index.recall(uid(1)) == record(1, 0)


def test_b10_a_corrupt_record_holds_what_its_cdi_file_grants(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.granted[uid(1)] = Stored(record=record(1, 1), body={})
    (tmp_path / f"{uid(1)}.json").write_bytes(b"{")
    assert folder.holds() == {device(1): ["claim default/claim-1"]}


@pytest.mark.parametrize("suffix", ["json", "corrupt"])
def test_b10_a_corrupt_record_of_which_nothing_is_known_blocks_every_device(tmp_path: Path, suffix: str) -> None:
    folder = Folder(tmp_path)
    (tmp_path / f"{uid(1)}.{suffix}").write_bytes(b"")
    assert folder.holds() == {device(0): ["an unreadable record"], device(1): ["an unreadable record"]}
    assert folder.holds(but=1) == {}


def test_a_good_record_counts_beside_one_that_was_set_aside(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0))
    (tmp_path / f"{uid(1)}.corrupt").write_bytes(b"")
    assert folder.holds() == {device(0): ["claim default/claim-1"]}


def test_files_that_are_no_records_say_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("x.json", "README", f".{uid(1)}.json.ab.tmp", f"{uid(1)}.json.bak", f"{uid(1)}", "..json"):
        (tmp_path / name).write_bytes(b"{")
    (tmp_path / "folder.json").mkdir()
    assert folder.holds() == {}
    assert folder.index.read_all() == {}


def test_all_records_are_told_with_what_they_hold(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(record(1, 0))
    (tmp_path / f"{uid(2)}.json").write_bytes(b"{")
    found = folder.index.read_all()
    assert set(found) == {uid(1), uid(2)}
    assert isinstance(found[uid(2)], Corrupt)


def test_a_folder_that_cannot_be_read_is_an_error_never_an_empty_index(tmp_path: Path) -> None:
    index = ClaimIndex(RecordFolder(tmp_path / "gone"), lambda _uid: None)
    with pytest.raises(StateUnwritable, match="reading the record folder"):
        index.read_all()
