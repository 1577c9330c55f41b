"""A fresh node for each test, and what sharing has done to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.claims.model import ClaimRef
from driver.cli.backend import open_mock_backend, open_nvml
from driver.mps import process
from driver.mps.daemon import Daemons
from driver.mps.daemon_files import DaemonSpec
from driver.mps.launch import Tools, tell
from driver.nvml.mock.compute_modes import read_time_slice
from tests.component.node.one_node import DRIVER, NODE, OneNode, one_node

GPU_CONFIG = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
MIG_CONFIG = {**GPU_CONFIG, "kind": "MigDeviceConfig"}


def time_slicing(interval: str = "Default") -> dict[str, Any]:
    return {**GPU_CONFIG, "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}}


def mps(config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**GPU_CONFIG, "sharing": {"strategy": "MPS", "mpsConfig": config or {}}, **more}


class SharingNode:
    """A node with claims that share; what its GPUs and daemons are like."""

    def __init__(self, node: OneNode, machine: str = "dgx-h100") -> None:
        self.node = node
        self.machine = machine
        self.daemons = Daemons(root=node.folder / "mps" / f"{DRIVER}-{NODE}", find_tools=self._find_tools, isolates=False)

    def uuid(self, device: str) -> str:
        """A device's UUID, as it is published."""
        value: str = self.node.devices()[device]["attributes"]["uuid"]["string"]
        return value

    def modes(self) -> dict[str, int]:
        """The compute mode of each GPU that has another than the default, by UUID."""
        found = {}
        with open_nvml(open_mock_backend(self.machine, self.node.mock_state)) as library:
            for index in range(library.device_count()):
                device = library.device_handle_by_index(index)
                mode = library.device_compute_mode(device)
                if mode:
                    found[library.device_uuid(device)] = mode
        return found

    def time_slice(self, uuid: str) -> int:
        """What is set on a GPU."""
        return read_time_slice(self.node.mock_state / "root", uuid)

    def ask(self, daemon: str, command: str, timeout_s: float = 20.0) -> str | None:
        """What a daemon answers; None where it does not."""
        return tell(DaemonSpec(name=daemon, uuids=()), self.daemons.files(daemon), self._find_tools(), [command], timeout_s)

    def pid(self, daemon: str) -> process.Identity | None:
        """The daemon's process, if it runs."""
        return self.daemons.read_identity(daemon)

    def spec(self, claim: ClaimRef) -> dict[str, Any]:
        """The claim's CDI file."""
        (path,) = [path for path in self.node.cdi_files() if claim.uid in path.name]
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _find_tools(self) -> Tools:
        program = self.node.mock_state / "root" / "driver" / "usr" / "bin" / "nvidia-cuda-mps-control"
        return Tools(program=program, libraries={})


@pytest.fixture
def node() -> Iterator[OneNode]:
    with one_node() as made:
        yield made
        sharing = SharingNode(made)
        for name in sharing.daemons.list_names():
            sharing.daemons.stop(name)


@pytest.fixture
def shared(node: OneNode) -> SharingNode:
    """A DGX H100, and the plugin on it."""
    node.start()
    node.wait_published(8)
    return SharingNode(node)


def wait_for(path: Path, node: OneNode) -> None:
    """Until a file is there."""
    node.wait(path.exists)
