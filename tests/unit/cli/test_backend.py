"""Where NVML is looked for, and when it is opened and closed."""

from __future__ import annotations

import argparse
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from driver.cli.backend import OpenedForEachPass, find_nvml, initialized, open_backend, open_mock_backend
from driver.config.load import load
from driver.config.settings import Settings
from driver.errors import MachineInvalid, NvmlError
from driver.host.roots import Roots
from driver.nvml.library import NvmlLibrary


def _settings(**flags: str) -> Settings:
    return load(argparse.Namespace(**flags), {})


def _touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_the_loader_finds_nvml_where_the_driver_is_part_of_the_system() -> None:
    assert find_nvml(Path("/")) is None


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"])
def test_nvml_is_found_below_a_driver_root(tmp_path: Path, folder: str) -> None:
    file = _touch(tmp_path / folder / "libnvidia-ml.so.550.163.01")
    file.with_name("libnvidia-ml.so.1").symlink_to(file.name)
    assert find_nvml(tmp_path) == file


def test_a_link_to_an_absolute_path_stays_below_the_driver_root(tmp_path: Path) -> None:
    """In the driver's own container the link means the container's file, not the host's."""
    file = _touch(tmp_path / "opt/libnvidia-ml.so.550.163.01")
    link = tmp_path / "usr/lib64/libnvidia-ml.so.1"
    link.parent.mkdir(parents=True)
    link.symlink_to("/opt/libnvidia-ml.so.550.163.01")
    assert find_nvml(tmp_path) == file


def test_a_folder_named_like_nvml_is_passed_over(tmp_path: Path) -> None:
    """B53: a bad bind mount leaves a folder of the library's name in the first place that is looked into."""
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").mkdir(parents=True)
    file = tmp_path / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert find_nvml(tmp_path) == file


def test_nvml_that_is_not_there_yet_is_expected_in_the_usual_place(tmp_path: Path) -> None:
    assert find_nvml(tmp_path) == tmp_path / "usr/lib64/libnvidia-ml.so.1"


def test_a_driver_that_comes_later_is_found_at_the_next_opening(tmp_path: Path) -> None:
    there = open_mock_backend("t4", tmp_path / "mock")
    absent = open_mock_backend("t4", tmp_path / "other")
    found: list[str] = []

    def find() -> NvmlLibrary:
        found.append("asked")
        return there.library

    backend = replace(absent, find_library=find)
    assert len(OpenedForEachPass(backend).read().gpus) == 4
    assert len(OpenedForEachPass(backend).read().gpus) == 4
    assert found == ["asked", "asked"]


def test_nvml_is_closed_after_each_pass_also_after_a_failure(tmp_path: Path) -> None:
    backend = open_mock_backend("t4", tmp_path)
    OpenedForEachPass(backend).read()
    with pytest.raises(RuntimeError), initialized(backend):
        raise RuntimeError
    with pytest.raises(NvmlError, match="UNINITIALIZED"):
        backend.library.device_count()


def test_what_sysfs_does_not_tell_is_said_once_not_at_each_pass(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A daemon makes a pass every few minutes, and a warning a GPU in each would bury the log (B23)."""
    backend = open_mock_backend("t4", tmp_path)
    shutil.rmtree(backend.roots.sys / "bus")
    with caplog.at_level(logging.WARNING):
        OpenedForEachPass(backend).read()
        said = len(caplog.records)
        OpenedForEachPass(backend).read()
    assert len(caplog.records) == said == 8


def test_a_real_backend_asks_nothing_before_it_is_opened(tmp_path: Path) -> None:
    backend = open_backend(_settings(driver_root=str(tmp_path), sys_root="/s"), tmp_path)
    assert backend.roots == Roots(driver=tmp_path, driver_on_host=tmp_path, sys=Path("/s"))
    with pytest.raises(NvmlError, match="LIBRARY_NOT_FOUND"), initialized(backend):
        pass


def test_a_library_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    file = _touch(tmp_path / "lib.so")
    with (
        pytest.raises(NvmlError, match="LIBRARY_NOT_FOUND"),
        initialized(open_backend(_settings(nvml_library=str(file)), tmp_path)),
    ):
        pass


def test_an_unknown_machine_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(MachineInvalid, match="no such machine"):
        open_backend(_settings(nvml="mock:nope"), tmp_path)
