"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from driver.files import (
    NotPlainFile,
    delete_leftovers,
    is_still_at,
    is_temporary,
    make_folder,
    name_temporary,
    read_bounded,
    write_atomically,
)


def write(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    write_atomically(path, data, mode=mode, sync_folder=True)


def test_a_file_is_replaced_whole_with_the_asked_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for data, mode in ((b"x" * 1_000_000, 0o644), (b"y", 0o600)):
        old = os.umask(0o077)
        write(path, data, mode=mode)
        os.umask(old)
        assert path.read_bytes() == data
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_has_the_asked_mode_whatever_the_umask_and_keeps_it(tmp_path: Path) -> None:
    """The plugin's umask is 077; runtimes and MPS clients of other users read below these folders."""
    folder = tmp_path / "above" / "folder"
    for mode in (0o755, 0o700):
        old = os.umask(0o077)
        make_folder(folder, mode=mode)
        os.umask(old)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_file_in_a_folders_place_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a", mode=0o755)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "a.json", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_link_is_replaced_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "a.json").symlink_to(tmp_path / "target")
    write(tmp_path / "a.json", b"new")
    assert (tmp_path / "target").read_bytes() == b"old"
    assert not (tmp_path / "a.json").is_symlink()


def test_b51_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    """B51: a runtime reads the folder whenever it likes."""
    path, stop, seen = tmp_path / "a.json", threading.Event(), set()
    write(path, b"0" * 20_000)

    def look() -> None:
        while not stop.is_set():
            for each in tmp_path.glob("*.json"):
                data = each.read_bytes()
                seen.add((len(data), len(set(data))))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(100):
        write(path, str(number % 10).encode() * 20_000)
    stop.set()
    thread.join()
    assert seen == {(20_000, 1)}


def test_leftovers_go_by_age_and_name(tmp_path: Path) -> None:
    for name in (".a_1.json.ab.tmp", ".b_1.json.ab.tmp", "a_1.json", ".a_2.json"):
        (tmp_path / name).write_text("")
    now_s = (tmp_path / "a_1.json").stat().st_mtime
    assert delete_leftovers(tmp_path, "a_", now_s=now_s + 59) == 0
    assert delete_leftovers(tmp_path, "a_", now_s=now_s + 61) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == [".a_2.json", ".b_1.json.ab.tmp", "a_1.json"]
    assert delete_leftovers(tmp_path / "gone", "a_") == 0


def test_reading_is_bounded_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_bounded(tmp_path / "a", 10) == b"x" * 11
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(NotPlainFile):
            read_bounded(tmp_path / name, 10)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "gone", 10)


def test_content_is_synced_before_the_name_and_the_name_where_it_must_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power must find the old file or the new one, and a record for good once it was answered."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def say_fsync(descriptor: int) -> None:
        done.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def say_replace(source: str, target: str) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", say_fsync)
    monkeypatch.setattr(os, "replace", say_replace)
    write_atomically(tmp_path / "a", b"x", mode=0o600, sync_folder=True)
    write_atomically(tmp_path / "b", b"x", mode=0o600, sync_folder=False)
    write_atomically(tmp_path / "c", b"x", mode=0o600, sync_file=False, sync_folder=False)
    assert done == ["sync file", "rename", "sync folder", "sync file", "rename", "rename"]


def test_what_a_killed_process_left_is_written_over_where_one_writes_alone(tmp_path: Path) -> None:
    """Its name is known, so that whoever deletes the file deletes the half of it too."""
    half = Path(name_temporary(str(tmp_path / "a.json")))
    half.write_text("a part of somethi")
    write_atomically(tmp_path / "a.json", b"whole", mode=0o644, sync_folder=False, has_one_writer=True)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"whole")]
    assert (half.name, is_temporary(half.name)) == (".a.json.tmp", True)


def test_a_folder_in_the_place_of_a_half_written_file_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / ".a.json.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "a.json", b"whole", mode=0o644, sync_folder=False, has_one_writer=True)
    assert [path.name for path in tmp_path.iterdir()] == [".a.json.tmp"]


def test_a_file_is_still_at_its_path_until_it_is_deleted_or_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as opened:
        assert is_still_at(path, opened.fileno())
        path.rename(tmp_path / "moved")
        assert not is_still_at(path, opened.fileno())
        path.write_text("another")
        assert not is_still_at(path, opened.fileno())
        path.unlink()
        path.symlink_to("moved")  # a link to it is not it
        assert not is_still_at(path, opened.fileno())
