"""Nodes that exist only as Node and ResourceSlices: as many and as large as a story needs, with no process on them.

What such a node would publish is what ``gpu-dra inspect`` says of the machine. Pods can be bound there, and never start.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from hack.devcluster import cluster
from hack.devcluster.layout import Layout
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import Json, KubeApi, TimedOut
from tests.e2e.process import REPOSITORY

_NAME = "the-name-of-the-node"
_READY_WITHIN_S = 400.0
"""Of thousands, on a busy machine."""


@functools.cache
def read_slices_text(machine: str, allocation: str) -> str:
    """The slices of a mock machine as JSON, for a node with a name to be replaced."""
    command = [sys.executable, "-m", "driver.cli.main", "inspect", "--nvml", f"mock:{machine}", "--node-name", _NAME]
    command += ["--mig", "off", "--allocation", allocation, "-o", "slices"]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=120).stdout


def build_slices(machine: str, node: str, *, is_fenced: bool) -> list[Json]:
    """The slices that this node would publish."""
    text = read_slices_text(machine, "controller" if is_fenced else "scheduler").replace(_NAME, node)
    slices: list[Json] = json.loads(text)["items"]
    return slices


@dataclass(slots=True, kw_only=True)
class MockFleet:
    """The nodes of this kind that there are now."""

    layout: Layout
    api: KubeApi
    names: set[str] = field(default_factory=set)

    def add(self, machines: Mapping[str, str], *, is_fenced: bool = True) -> None:
        """Have these nodes (a machine for each name) besides those that there are; they are Ready, and have their slices."""
        self.names |= set(machines)
        cluster.write_mock_nodes(self.layout, sorted(self.names))
        for node, machine in machines.items():
            for each in build_slices(machine, node, is_fenced=is_fenced):
                self.api.create(each)

        def are_ready() -> bool:
            nodes = self.api.find("Node")  # no watch: each of thousands of nodes changes several times
            return set(machines) <= {each["metadata"]["name"] for each in nodes if _is_ready(each)}

        if not wait_until(are_ready, timeout_s=_READY_WITHIN_S, interval_s=0.2):
            raise TimedOut(f"after {_READY_WITHIN_S:.0f} s {len(machines)} nodes ({min(machines)}, ...) are not all Ready")

    def remove_all(self) -> None:
        """No mock nodes, and no slices of theirs."""
        if not self.names:
            return
        for each in self.api.find("ResourceSlice"):
            if each["spec"].get("nodeName") in self.names:
                self.api.delete("ResourceSlice", None, each["metadata"]["name"])
        cluster.write_mock_nodes(self.layout, [])

        def are_gone() -> bool:
            return not self.names & {each["metadata"]["name"] for each in self.api.find("Node")}

        if not wait_until(are_gone, timeout_s=_READY_WITHIN_S, interval_s=0.2):
            raise TimedOut(f"after {_READY_WITHIN_S:.0f} s mock nodes are left")
        self.names.clear()

    def devices(self, node: str) -> Mapping[str, Json]:
        """The devices of a node by name."""
        slices = self.api.find("ResourceSlice", query=f"fieldSelector=spec.nodeName%3D{node},spec.driver%3D{objects.DRIVER}")
        return objects.slice_devices(slices)


def _is_ready(node: Json) -> bool:
    conditions = node["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not node["spec"].get("taints")
