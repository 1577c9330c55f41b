"""What was found is remembered only as long as it is still true (B48)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driver import log
from driver.errors import DeviceNotReady
from driver.host.driver_file_cache import DriverFileCache
from driver.host.roots import Roots

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def make_root(path: Path, *versions: str) -> Path:
    folder = path / LIBRARIES
    folder.mkdir(parents=True)
    (path / "usr/bin").mkdir()
    for version in versions:
        (folder / f"libcuda.so.{version}").write_text("stand-in")
    return path


def an_hour_ahead() -> int:
    """A clock by which every change made by a test is long past."""
    return time.time_ns() + 3600 * 10**9


def cache_of(root: Path, now_ns: Callable[[], int] = an_hour_ahead) -> DriverFileCache:
    return DriverFileCache(Roots(driver=root, driver_on_host=root), now_ns=now_ns)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "driver", "580.1", "590.1")


def test_an_unchanged_root_is_searched_once(root: Path) -> None:
    cache = cache_of(root)
    assert cache.find("580.1") is cache.find("580.1")


def test_another_version_is_another_search(root: Path) -> None:
    cache = cache_of(root)
    cache.find("580.1")
    assert cache.find("590.1").driver_version == "590.1"


def test_a_change_of_a_moment_ago_is_not_remembered(root: Path) -> None:
    """A second change within the same tick of the file system's clock would leave no trace."""
    cache = cache_of(root, time.time_ns)
    assert cache.find("580.1") is not cache.find("580.1")


def _add(root: Path) -> None:
    (root / LIBRARIES / "libnvidia-ml.so.580.1").write_text("")


def _replace_root(root: Path) -> None:
    root.rename(root.with_name("old"))
    make_root(root, "580.1")
    _add(root)


def _turn_link(root: Path) -> None:
    make_root(root.with_name("else"), "580.1")
    _add(root.with_name("else"))
    (root / "usr").rename(root / "usr-old")
    (root.with_name("else") / "usr").rename(root / "usr-new")
    (root / "usr").symlink_to("/usr-new")


def _new_folder(root: Path) -> None:
    (root / "usr/lib64").mkdir()
    (root / "usr/lib64/libnvidia-ml.so.580.1").write_text("")


CHANGES = {
    "a file comes": _add,
    "the whole root is replaced": _replace_root,
    "a folder becomes a link elsewhere": _turn_link,
    "a search folder appears": _new_folder,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_noticed_at_the_next_look(root: Path, change: Callable[[Path], None]) -> None:
    cache = cache_of(root)
    assert len(cache.find("580.1").libraries) == 1
    change(root)
    assert len(cache.find("580.1").libraries) == 2


def test_a_file_behind_a_link_out_of_the_search_folders_is_watched_too(root: Path) -> None:
    (root / "opt/real").mkdir(parents=True)
    (root / LIBRARIES / "libcuda.so.580.1").rename(root / "opt/real/libcuda.so.580.1")
    (root / LIBRARIES / "libcuda.so.580.1").symlink_to("/opt/real/libcuda.so.580.1")
    cache = cache_of(root)
    cache.find("580.1")
    (root / "opt/real/libcuda.so.580.1").unlink()
    with pytest.raises(DeviceNotReady):
        cache.find("580.1")


def test_a_root_that_goes_and_comes_back_is_found_without_a_restart(root: Path) -> None:
    cache = cache_of(root)
    before = cache.find("580.1")
    away = root.rename(root.with_name("away"))
    with pytest.raises(DeviceNotReady, match=str(root)):
        cache.find("580.1")
    away.rename(root)
    assert cache.find("580.1") == before


def test_a_failure_is_not_remembered(root: Path) -> None:
    """The driver root may be filled after us (B31)."""
    cache = cache_of(root)
    with pytest.raises(DeviceNotReady):
        cache.find("600.1")
    (root / LIBRARIES / "libcuda.so.600.1").write_text("")
    os.utime(root / LIBRARIES, (1, 1))
    assert cache.find("600.1").driver_version == "600.1"


def test_what_is_passed_over_is_said_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bad bind mount is found in the log, not once a prepare (B53)."""
    (root / "usr/lib64/libcuda.so.580.1").mkdir(parents=True)
    cache = cache_of(root, time.time_ns)
    with caplog.at_level(logging.WARNING):
        assert cache.find("580.1") is not cache.find("580.1")
    skipped = [f"{root}/usr/lib64/libcuda.so.580.1 is a folder"]
    assert [log.read_event(record)["skipped"] for record in caplog.records] == [skipped]
