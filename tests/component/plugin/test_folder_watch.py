"""A folder's watch wakes for what comes and goes, for a call, and for nothing else."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from driver.plugin.folder_watch import FolderWatch

LONG_S = 60.0


def wakes(watch: FolderWatch) -> bool:
    """Whether a wait of a minute ends long before it."""
    started = time.monotonic()
    watch.wait(LONG_S)
    return time.monotonic() - started < LONG_S / 2


@pytest.mark.parametrize("event", ["made", "removed", "moved in", "moved out", "folder removed"])
def test_what_comes_and_goes_wakes(root: Path, event: str) -> None:
    folder, outside = root / "watched", root / "outside"
    folder.mkdir()
    (folder / "old").touch()
    outside.touch()
    watch = FolderWatch(folder)
    assert watch.arm()
    match event:
        case "made":
            (folder / "new").touch()
        case "removed":
            (folder / "old").unlink()
        case "moved in":
            outside.rename(folder / "new")
        case "moved out":
            (folder / "old").rename(root / "old")
        case _:
            shutil.rmtree(folder)
    assert wakes(watch)
    watch.close()


def test_nothing_wakes_without_a_reason_and_an_old_event_wakes_once(root: Path) -> None:
    watch = FolderWatch(root)
    assert watch.arm()
    (root / "new").touch()
    watch.wait(LONG_S)
    started = time.monotonic()
    watch.wait(0.05)
    assert time.monotonic() - started >= 0.05
    watch.close()


def test_a_call_from_another_thread_wakes(root: Path) -> None:
    watch = FolderWatch(root)
    watch.arm()
    caller = threading.Thread(target=watch.wake)
    caller.start()
    assert wakes(watch)
    caller.join()
    watch.close()
    watch.wake()
    watch.close()


def test_a_folder_that_is_made_anew_is_watched_anew(root: Path) -> None:
    """The watch is on the folder, not on its name: so each round arms again."""
    folder = root / "watched"
    watch = FolderWatch(folder)
    assert not watch.arm()
    folder.mkdir()
    assert watch.arm()
    shutil.rmtree(folder)
    watch.wait(LONG_S)
    folder.mkdir()
    assert watch.arm()
    (folder / "new").touch()
    assert wakes(watch)
    watch.close()


class LibcWithoutInotify:
    """A kernel whose inotify instances are used up."""

    def inotify_init1(self, flags: int) -> int:
        ctypes.set_errno(24)
        return -1

    def inotify_add_watch(self, fd: int, path: bytes, mask: int) -> int:
        raise AssertionError("no instance to add a watch to")


def test_without_inotify_the_folder_is_looked_at_now_and_then(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """``fs.inotify.max_user_instances`` is used up on many busy nodes."""
    watch = FolderWatch(root, libc=LibcWithoutInotify(), fallback_s=0.05)
    assert not watch.arm()
    assert wakes(watch)
    watch.wait(None)
    assert os.strerror(24) in str([vars(record) for record in caplog.records])
    watch.close()
