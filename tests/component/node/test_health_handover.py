"""Two instances on one node while a GPU is sick: everybody sees what they saw, whoever of the two ends, and however."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.nvml.mock.faults import XidEvent
from driver.resourceslice.publisher_lock import FilePublisherLock
from tests.component.node.one_node import DRIVER, OneNode, one_node
from tests.component.node.test_process import start

GPU_3, GPU_5 = "gpu-0000-61-00-0", "gpu-0000-c3-00-0"


class Handover:
    """A node with a claim on GPU 3, and as many instances as are started."""

    def __init__(self, node: OneNode) -> None:
        self.node = node
        node.mock_state = node.plugin_dir / "mock"
        self.kubeconfig: Path = node.api.write_kubeconfig(node.folder / "kubeconfig")
        self.played: list[XidEvent] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.claim = ""

    def start(self) -> subprocess.Popen[bytes]:
        """An instance that publishes."""
        before = len(self.node.kubelet.plugins(DRIVER))
        process = start(self.node, self.kubeconfig, machine="dgx-h200")
        self.processes.append(process)
        self.node.wait(lambda: len(self.node.kubelet.plugins(DRIVER)) > before, 60.0)
        self.node.wait(lambda: len(self.node.devices()) == 8)
        self.node.wait(lambda: self._count_tickets() == len(self.processes))
        return process

    def hold(self) -> None:
        claim = self.node.allocate("held", [GPU_3])
        self.node.prepare(claim)
        self.claim = claim.name

    def play(self, *xids: tuple[int, int]) -> None:
        """XIDs, as GPU and number, on top of those that there were."""
        self.played += [XidEvent(gpu=gpu, xid=xid, id=str(len(self.played) + at)) for at, (gpu, xid) in enumerate(xids)]
        self.node.play(*self.played)

    def seen(self) -> dict[str, object]:
        """All that must stay as it is."""
        devices = self.node.devices()
        claim = next(each for each in self.node.api.objects("resourceclaims") if each["metadata"]["name"] == self.claim)
        return {
            "taints": {name: each.get("taints") for name, each in devices.items() if each.get("taints")},
            "conditions": [each["conditions"] for each in claim["status"].get("devices", [])],
            "events": sorted(each["note"] for each in self.node.api.objects("events") if each["reason"].startswith("Gpu")),
            "kubelet": self._read_states(),
        }

    def counts(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = json.loads((self.node.plugin_dir / "health.json").read_text())["counts"]
        return found

    def wait_sick(self, *names: str) -> dict[str, object]:
        """Until all is said of these: the XID, and what the driver asks for, which a look shows a moment later."""

        def is_said() -> bool:
            text = {name: str(value) for name, value in self.seen().items()}
            return all(text["taints"].count(f"'{name}'") == 1 for name in names) and (
                text["taints"].count("gpu.nvidia.com/recovery") == text["kubelet"].count("asks for") == len(names)
                and text["conditions"].count("asks for") == (GPU_3 in names)
            )

        self.node.wait(is_said, 40.0)
        return self.seen()

    def _read_states(self) -> dict[str, tuple[str, str]]:
        """What the newest instance that lives tells the kubelet."""
        living = [each for each in self.node.kubelet.plugins(DRIVER) if each.health]
        return {name: state for (_, name), state in living[-1].health.items() if state[0] != "HEALTHY"} if living else {}

    def _count_tickets(self) -> int:
        text = (self.node.plugin_dir / "publish.lock").read_text().strip()
        return int(text or 0)


@pytest.fixture
def handover() -> Iterator[Handover]:
    with one_node() as node:
        found = Handover(node)
        try:
            yield found
        finally:
            for process in found.processes:
                process.kill()
                process.wait()


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL], ids=["ends", "is killed"])
def test_the_old_instance(handover: Handover, ends: signal.Signals) -> None:
    """A rolling update: an XID before, between and after; the moments stay, each is counted once."""
    old = handover.start()
    handover.hold()
    handover.play((3, 79), (5, 13))
    handover.node.wait(lambda: handover.counts() == {GPU_3: {"79": 1}, GPU_5: {"13": 1}})
    before = handover.wait_sick(GPU_3)
    handover.start()
    handover.play((5, 31), (5, 48))
    between = handover.wait_sick(GPU_3, GPU_5)
    assert between["conditions"] == before["conditions"]
    assert between["taints"][GPU_3] == before["taints"][GPU_3]  # type: ignore[index]
    os.kill(old.pid, ends)
    old.wait(20.0)
    handover.play((5, 43))
    counts = {GPU_3: {"79": 1}, GPU_5: {"13": 1, "31": 1, "43": 1, "48": 1}}
    handover.node.wait(lambda: handover.counts() == counts, 10.0)
    after = handover.wait_sick(GPU_3, GPU_5)
    assert {name: after[name] for name in ("taints", "conditions", "kubelet")} == {
        name: between[name] for name in ("taints", "conditions", "kubelet")
    }
    assert len(after["events"]) == len(set(after["events"]))  # type: ignore[call-overload,arg-type]


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL], ids=["ends", "is killed"])
def test_the_new_instance(handover: Handover, ends: signal.Signals) -> None:
    """A roll back: the old one goes on from what the new one wrote."""
    handover.start()
    handover.hold()
    new = handover.start()
    handover.play((3, 79), (5, 13))
    handover.node.wait(lambda: handover.counts() == {GPU_3: {"79": 1}, GPU_5: {"13": 1}})
    before = handover.wait_sick(GPU_3)
    os.kill(new.pid, ends)
    new.wait(20.0)
    handover.play((5, 31))
    counts = {GPU_3: {"79": 1}, GPU_5: {"13": 1, "31": 1}}
    handover.node.wait(lambda: handover.counts() == counts, 10.0)
    after = handover.wait_sick(GPU_3)
    assert {name: after[name] for name in ("taints", "conditions", "kubelet")} == {
        name: before[name] for name in ("taints", "conditions", "kubelet")
    }
    assert len(after["events"]) == len(set(after["events"]))  # type: ignore[call-overload,arg-type]


def test_a_new_instance_that_goes_at_once(handover: Handover) -> None:
    """The kubelet forgets all states when its stream ends, and the old one sees neither come nor go: its ticket tells."""
    handover.start()
    handover.hold()
    handover.play((3, 79))
    before = handover.wait_sick(GPU_3)
    (old,) = handover.node.kubelet.plugins(DRIVER)
    brief = FilePublisherLock(handover.node.plugin_dir / "publish.lock")
    brief.acquire()
    brief.release()
    old.health.clear()
    handover.node.wait(lambda: handover.seen() == before, 20.0)
