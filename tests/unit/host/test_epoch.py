"""The epoch changes with a reboot, another driver, and a driver that was loaded again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.errors import DeviceNotReady
from driver.host.epoch import Epoch, build_load_marker, read_epoch
from driver.host.roots import Roots

BOOT_ID = "3f1c9a52-6f0e-4d3b-9c58-0a1b2c3d4e5f"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    write_boot_id(tmp_path / "proc", BOOT_ID + "\n")
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    return Roots(proc=tmp_path / "proc", sys=tmp_path / "sys")


def write_boot_id(proc: Path, text: str) -> None:
    path = proc / "sys/kernel/random/boot_id"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_epoch_is_boot_driver_and_load(roots: Roots) -> None:
    marker = build_load_marker((roots.sys / "module/nvidia").stat())
    assert read_epoch(roots, "580.159.04") == Epoch(boot_id=BOOT_ID, driver_version="580.159.04", load_marker=marker)


def test_reading_twice_is_one_epoch(roots: Roots) -> None:
    assert read_epoch(roots, "580.1") == read_epoch(roots, "580.1")


def test_a_reboot_is_another_epoch(roots: Roots) -> None:
    before = read_epoch(roots, "580.1")
    write_boot_id(roots.proc, "another-boot\n")
    assert read_epoch(roots, "580.1") != before


def test_a_driver_that_was_loaded_again_is_another_epoch(roots: Roots) -> None:
    """Minors and capability numbers change without a reboot. An ordinary file system may give the same inode again."""
    before = read_epoch(roots, "580.1")
    (roots.sys / "module/nvidia").rmdir()
    (roots.sys / "module/nvidia").mkdir()
    (roots.sys / "module/nvidia/version").write_text("580.1")
    assert read_epoch(roots, "580.1") != before


def folder(*, inode: int, ctime_ns: int, size: int) -> os.stat_result:
    """A stat result with what a marker may be made of."""
    values = [0o040755, inode, 0, 2, 0, 0, size, 0, 0, ctime_ns // 10**9]
    return os.stat_result(values, {"st_ctime_ns": ctime_ns})


def test_in_sysfs_another_inode_is_another_load() -> None:
    assert build_load_marker(folder(inode=1, ctime_ns=5, size=0)) != build_load_marker(folder(inode=2, ctime_ns=5, size=0))


def test_in_sysfs_a_new_ctime_is_no_new_load() -> None:
    """The kernel makes it up anew when it has dropped the inode from memory: every claim would be prepared afresh."""
    assert build_load_marker(folder(inode=1, ctime_ns=5, size=0)) == build_load_marker(folder(inode=1, ctime_ns=6, size=0))


def test_on_an_ordinary_file_system_the_ctime_tells() -> None:
    before, after = (build_load_marker(folder(inode=1, ctime_ns=time_ns, size=4096)) for time_ns in (5, 6))
    assert before != after


def test_without_a_module_the_driver_version_marks_the_load(roots: Roots) -> None:
    (roots.sys / "module/nvidia").rmdir()
    assert read_epoch(roots, "580.1").load_marker == "580.1"


@pytest.mark.parametrize("text", ["", "\n", "two words", "../x", "x" * 500, "\u00e9"])
def test_what_is_no_boot_id_is_refused(roots: Roots, text: str) -> None:
    write_boot_id(roots.proc, text)
    with pytest.raises(DeviceNotReady, match="boot id"):
        read_epoch(roots, "580.1")


def test_a_missing_boot_id_names_the_path(tmp_path: Path) -> None:
    """Without it a reboot could not be told from none, and old MIG instances would pass for new ones."""
    with pytest.raises(DeviceNotReady, match=f"{tmp_path}/proc/sys/kernel/random/boot_id"):
        read_epoch(Roots(proc=tmp_path / "proc"), "580.1")
