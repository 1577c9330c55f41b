"""The host's facts for a CDI file. A stand-in root has plain device nodes: the kernel lets only root make them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from driver.cdi.host import HostFacts
from driver.errors import DeviceNotReady
from driver.host.roots import Roots
from tests.fakes.claim_host import VERSION


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    made = Roots(dev=tmp_path / "dev", dev_on_host=Path("/host/dev"), driver=tmp_path / "driver", driver_on_host=Path("/host"))
    made.dev.mkdir()
    library = made.driver / "usr/lib64" / f"libcuda.so.{VERSION}"
    library.parent.mkdir(parents=True)
    library.write_text("stand-in")
    return made


def put_node(roots: Roots, name: str, minor: int = 3) -> None:
    """A node with the numbers of ``/dev/null``; skips where the test may not make one."""
    try:
        os.mknod(roots.dev / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")


def test_nodes_are_looked_at_each_time(roots: Roots) -> None:
    """B48: what was missing a moment ago may be there now, and the other way round."""
    facts = HostFacts(roots)
    with pytest.raises(DeviceNotReady, match=r"dev/nvidia0"):
        facts.read_gpu_node(0)
    put_node(roots, "nvidia0")
    found = facts.read_gpu_node(0)
    assert (found.path, found.host_path, found.major, found.minor) == ("/dev/nvidia0", "/host/dev/nvidia0", 1, 3)
    (roots.dev / "nvidia0").unlink()
    with pytest.raises(DeviceNotReady):
        facts.read_gpu_node(0)


def test_required_control_nodes_are_needed_and_optional_ones_taken_where_they_are(roots: Roots) -> None:
    facts = HostFacts(roots)
    put_node(roots, "nvidiactl")
    with pytest.raises(DeviceNotReady, match="nvidia-uvm"):
        facts.read_control_nodes()
    put_node(roots, "nvidia-uvm")
    assert [node.path for node in facts.read_control_nodes()] == ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    put_node(roots, "nvidia-modeset")
    put_node(roots, "nvidia-uvm-tools")
    assert [node.path for node in facts.read_control_nodes()] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset",
    ]


def test_driver_files_are_those_of_the_asked_version(roots: Roots) -> None:
    facts = HostFacts(roots)
    (library,) = facts.read_driver_files(VERSION).libraries
    assert library.host_path == f"/host/usr/lib64/libcuda.so.{VERSION}"
    with pytest.raises(DeviceNotReady, match=r"libcuda.so.590.1"):
        facts.read_driver_files("590.1")
