"""A device node is looked at when it is needed, and only a character device is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver import log
from driver.errors import DeviceNotReady
from driver.host.device_nodes import DeviceNode, read_device_node, read_optional_device_node, read_uvm_node
from driver.host.roots import Roots

NULL = os.stat("/dev/null")  # noqa: PTH116  (the tests' own character device, which every machine has)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    dev = tmp_path / "dev"
    dev.mkdir()
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "devices").write_text("Character devices:\n  1 mem\n195 nvidia-frontend\n\nBlock devices:\n  7 loop\n")
    return Roots(dev=dev, dev_on_host=Path("/host/dev"), proc=proc)


def test_a_node_is_given_with_its_numbers_and_both_paths(roots: Roots) -> None:
    (roots.dev / "nvidia0").symlink_to("/dev/null")
    assert read_device_node(roots, "nvidia0") == DeviceNode(
        path="/dev/nvidia0",
        host_path="/host/dev/nvidia0",
        type="c",
        major=os.major(NULL.st_rdev),
        minor=os.minor(NULL.st_rdev),
    )


def test_a_node_in_a_folder_keeps_its_folder(roots: Roots) -> None:
    (roots.dev / "nvidia-caps").mkdir()
    (roots.dev / "nvidia-caps/nvidia-cap12").symlink_to("/dev/null")
    node = read_device_node(roots, "nvidia-caps/nvidia-cap12")
    assert (node.path, node.host_path) == ("/dev/nvidia-caps/nvidia-cap12", "/host/dev/nvidia-caps/nvidia-cap12")


def test_a_missing_node_names_the_path_that_was_tried(roots: Roots) -> None:
    """The usual cause is a wrong dev root, so the path is what helps (B48)."""
    with pytest.raises(DeviceNotReady, match=f"{roots.dev}/nvidia0.*dev root"):
        read_device_node(roots, "nvidia0")


def test_a_node_that_comes_back_is_found_at_once(roots: Roots) -> None:
    """The dev root is moved away between two prepares and put back: nothing may be remembered (B48)."""
    (roots.dev / "nvidia0").symlink_to("/dev/null")
    before = read_device_node(roots, "nvidia0")
    away = roots.dev.rename(roots.dev.with_name("away"))
    with pytest.raises(DeviceNotReady):
        read_device_node(roots, "nvidia0")
    away.rename(roots.dev)
    assert read_device_node(roots, "nvidia0") == before


def make_wrong(path: Path, kind: str) -> None:
    match kind:
        case "regular file":
            path.write_text("")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case _:
            path.symlink_to("nowhere")


KINDS = ["regular file", "folder", "fifo", "loop", "dangling link"]


@pytest.mark.parametrize("kind", KINDS)
def test_anything_but_a_character_device_is_not_ready(roots: Roots, kind: str) -> None:
    make_wrong(roots.dev / "nvidia0", kind)
    with pytest.raises(DeviceNotReady, match="nvidia0"):
        read_device_node(roots, "nvidia0")


@pytest.mark.parametrize("relative", ["", "/dev/null", "..", "../null", "a/../b", "a//b", "nvidia0\n", ".hidden", "a b"])
def test_only_a_plain_relative_path_is_looked_up(roots: Roots, relative: str) -> None:
    with pytest.raises(ValueError, match="no path below /dev"):
        read_device_node(roots, relative)


def test_an_optional_node_may_be_missing_in_silence(roots: Roots, caplog: pytest.LogCaptureFixture) -> None:
    assert read_optional_device_node(roots, "nvidia-modeset") is None
    assert caplog.text == ""


def test_an_optional_node_of_a_wrong_kind_is_left_out_with_a_word(roots: Roots, caplog: pytest.LogCaptureFixture) -> None:
    (roots.dev / "nvidia-modeset").mkdir()
    assert read_optional_device_node(roots, "nvidia-modeset") is None
    assert "no character device" in str(log.read_event(caplog.records[0])["error"])


def test_an_optional_node_that_is_there_is_given(roots: Roots) -> None:
    (roots.dev / "nvidia-uvm").symlink_to("/dev/null")
    assert read_optional_device_node(roots, "nvidia-uvm") == read_device_node(roots, "nvidia-uvm")


LOADED = "Character devices:\n195 nvidia-frontend\n508 nvidia-uvm\n509 nvidia-uvm-not\n"


def test_the_node_of_cudas_memory_is_taken_as_it_is(roots: Roots) -> None:
    (roots.proc / "devices").write_text(LOADED)
    (roots.dev / "nvidia-uvm").symlink_to("/dev/null")
    assert read_uvm_node(roots) == read_device_node(roots, "nvidia-uvm")


def test_a_loaded_module_whose_node_nobody_has_made_is_given_by_its_number(roots: Roots) -> None:
    """After a boot, before any CUDA program of the host has run: https://github.com/NVIDIA/nvidia-docker/issues/139."""
    (roots.proc / "devices").write_text(LOADED)
    assert read_uvm_node(roots) == DeviceNode(
        path="/dev/nvidia-uvm", host_path="/host/dev/nvidia-uvm", type="c", major=508, minor=0
    )


def test_a_module_that_is_not_loaded_is_not_ready_and_what_loads_it_is_said(roots: Roots) -> None:
    with pytest.raises(DeviceNotReady, match=f"{roots.dev}/nvidia-uvm.*`nvidia-modprobe -u -c 0`"):
        read_uvm_node(roots)


@pytest.mark.parametrize("kind", ["no dev root", "a folder in its place", "no procfs"])
def test_a_number_is_no_reason_to_believe_a_wrong_folder(roots: Roots, kind: str) -> None:
    """B48: the path that was tried is said."""
    (roots.proc / "devices").write_text(LOADED)
    if kind == "no dev root":
        roots.dev.rmdir()
    elif kind == "no procfs":
        (roots.proc / "devices").unlink()
    else:
        (roots.dev / "nvidia-uvm").mkdir()
    with pytest.raises(DeviceNotReady, match=f"{roots.dev}/nvidia-uvm"):
        read_uvm_node(roots)
