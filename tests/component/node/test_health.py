"""What goes wrong on a GPU reaches everybody who has to know, and nobody else; and it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from driver.health.model import Kind
from driver.node.health.watch import HealthSettings
from driver.node.node_plugin import NodePlugin
from driver.nvml.mock.faults import CallFails, EccEvent, GpuLost, LinkDown, NeedsRecovery, XidEvent
from driver.nvml.mock.machine import reboot
from tests.component.node.one_node import DRIVER, OneNode, one_node

GPU_3 = "gpu-0000-61-00-0"
XID_79 = [("gpu.nvidia.com/xid", "79", "NoSchedule"), ("gpu.nvidia.com/recovery", "node-reboot", "NoSchedule")]


class SickNode:
    """A node with words for its health."""

    def __init__(self, node: OneNode) -> None:
        self.node = node

    def run(self, machine: str = "dgx-h200", health: HealthSettings | None = None) -> NodePlugin:
        """A plugin that is published and listens."""
        plugin = self.node.start(machine, health=health or HealthSettings())
        self.node.wait_published(8)
        self.node.wait((self.node.plugin_dir / "health.json").exists)
        return plugin

    def taints(self) -> dict[str, list[tuple[str, str, str]]]:
        """Key, value and effect of the taints of each device that has any."""
        return {
            name: [(each["key"], each.get("value", ""), each["effect"]) for each in device["taints"]]
            for name, device in self.node.devices().items()
            if device.get("taints")
        }

    def wait_taints(self, expected: dict[str, list[tuple[str, str, str]]], timeout_s: float = 20.0) -> None:
        """Wait until these devices have these taints, and no other has one."""
        self.node.wait(lambda: self.taints() == expected, timeout_s)

    def times(self, name: str) -> list[str]:
        """The moments of a device's taints."""
        return [each["timeAdded"] for each in self.node.devices()[name].get("taints", [])]

    def states(self) -> dict[str, tuple[str, str]]:
        """What the kubelet was told last, by device."""
        return {device: state for (_, device), state in self.node.kubelet.health(DRIVER).items()}

    def ill(self) -> list[str]:
        """The devices that the kubelet was told are unhealthy."""
        return [name for name, (state, _) in self.states().items() if state == "UNHEALTHY"]

    def wait_ill(self, *names: str) -> None:
        """Wait until the kubelet was told that just these are."""
        self.node.wait(lambda: len(self.states()) == 8 and self.ill() == list(names))

    def counts(self) -> dict[str, dict[str, int]]:
        """What is on disk, once the plugin has ended."""
        found: dict[str, dict[str, int]] = json.loads((self.node.plugin_dir / "health.json").read_text())["counts"]
        return found


@pytest.fixture
def sick() -> Iterator[SickNode]:
    """A node."""
    with one_node() as node:
        yield SickNode(node)


def test_an_xid_taints_its_gpu_alone_and_everybody_is_told(sick: SickNode) -> None:
    sick.run()
    sick.node.play(XidEvent(gpu=3, xid=79))
    sick.wait_taints({GPU_3: XID_79})
    sick.wait_ill(GPU_3)
    assert sick.states()[GPU_3][1].startswith("XID 79: the GPU fell off the bus (since 20")
    said = f"{GPU_3}: XID 79: the GPU fell off the bus; it is given to no new claim."
    sick.node.wait(lambda: any(each.startswith(said) for each in sick.node.events("GpuUnhealthy")))


def test_an_xid_of_a_program_is_counted_and_taints_nothing(sick: SickNode) -> None:
    """B75: nothing that an application did to itself takes a GPU out."""
    plugin = sick.run()
    sick.node.play(*(XidEvent(gpu=3, xid=xid) for xid in (13, 31, 43, 45, 68, 109)), XidEvent(gpu=3, xid=13, id="again"))
    sick.node.wait(lambda: len(sick.node.events("GpuXid")) == 6)
    sick.node.stop(plugin)
    assert sick.counts() == {GPU_3: {"13": 2, "31": 1, "43": 1, "45": 1, "68": 1, "109": 1}}
    assert sick.taints() == {}


def test_a_restart_keeps_the_taint_and_its_moment(sick: SickNode) -> None:
    plugin = sick.run()
    sick.node.play(XidEvent(gpu=3, xid=79))
    sick.wait_taints({GPU_3: XID_79})
    before = sick.times(GPU_3)
    sick.node.stop(plugin)
    sick.run()
    sick.wait_ill(GPU_3)
    assert sick.taints() == {GPU_3: XID_79}
    assert sick.times(GPU_3) == before


def test_a_reboot_clears_what_an_event_told(sick: SickNode) -> None:
    plugin = sick.run()
    sick.node.play(XidEvent(gpu=3, xid=79))
    sick.wait_taints({GPU_3: XID_79})
    sick.node.stop(plugin)
    sick.node.play()
    reboot(sick.node.mock_state)
    sick.run()
    sick.wait_taints({})
    sick.wait_ill()


def test_a_link_that_goes_down_warns_and_moves_the_islands(sick: SickNode) -> None:
    """The devices can still be given out, alone."""
    sick.run("dgx-1v")
    devices = list(sick.node.devices())
    sick.node.wait(lambda: "links" in (sick.node.plugin_dir / "health.json").read_text())
    before = {name: each["attributes"]["nvlinkLinks"]["int"] for name, each in sick.node.devices().items()}
    sick.node.play(LinkDown(gpu=0, links=(0, 1)), XidEvent(gpu=0, xid=13))
    sick.node.wait(lambda: len(sick.taints()) == 1)
    ((tainted, taints),) = sick.taints().items()
    assert taints == [("gpu.nvidia.com/nvlink", "down", "None")]
    sick.node.wait(lambda: sick.node.devices()[tainted]["attributes"]["nvlinkLinks"]["int"] == before[tainted] - 2)
    assert len(devices) == 8
    sick.wait_ill()


def test_a_gpu_that_dies_taints_itself_alone(sick: SickNode) -> None:
    """NVIDIA's driver takes out the whole node (facts 1.13). A claim holds it: else the next pass leaves the dead one out."""
    sick.run()
    sick.node.prepare(sick.node.allocate("held", [GPU_3]))
    others = set(sick.node.devices()) - {GPU_3}
    sick.node.play(GpuLost(gpu=3), XidEvent(gpu=3, xid=79))
    sick.node.wait(lambda: ("gpu.nvidia.com/gpu-lost", "", "NoSchedule") in sick.taints().get(GPU_3, []))
    sick.wait_ill(GPU_3)
    assert set(sick.taints()) <= {GPU_3}
    assert others <= set(sick.node.devices())


def test_a_storm_of_events_is_a_handful_of_writes(sick: SickNode) -> None:
    plugin = sick.run()
    before = len(sick.node.api.store.history)
    sick.node.play(*(XidEvent(gpu=index % 2 * 3, xid=(13, 48)[index % 2], id=str(index)) for index in range(1000)))
    sick.node.wait(lambda: GPU_3 in sick.taints(), 60.0)
    sick.node.stop(plugin)
    assert len(sick.node.api.store.history) - before < 20


def test_an_ignored_xid_is_not_held_against_the_gpu(sick: SickNode) -> None:
    """But the driver's own word is."""
    sick.run(health=HealthSettings(ignored_xids=frozenset({48})))
    sick.node.play(XidEvent(gpu=3, xid=48), NeedsRecovery(gpu=3, action="none"))
    sick.node.wait(lambda: len(sick.node.events("GpuXid")) == 1)
    assert "ignored by the settings" in sick.node.events("GpuXid")[0]
    assert sick.taints() == {}


def test_pods_are_evicted_only_for_the_kinds_that_the_setting_names(sick: SickNode) -> None:
    sick.run(health=HealthSettings(evicts=frozenset({Kind.ECC})))
    sick.node.play(EccEvent(gpu=3))
    ecc = ("gpu.nvidia.com/ecc", "uncorrected", "NoExecute")
    sick.wait_taints({GPU_3: [ecc, ("gpu.nvidia.com/recovery", "gpu-reset", "NoSchedule")]})


CONDITION_CALLS = (
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetGpuFabricInfo",
)


def warnings_of(sick: SickNode) -> list[str]:
    return sorted(each["reason"] for each in sick.node.api.objects("events") if each["reason"].startswith("Gpu"))


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH"])
def test_facts_that_nvml_does_not_have_are_no_troubles(sick: SickNode, code: str) -> None:
    """The GPUs are as before; an XID is still held against its own."""
    sick.node.play(*(CallFails(call=call, code=code) for call in CONDITION_CALLS))
    sick.run()
    sick.node.play(*(CallFails(call=call, code=code) for call in CONDITION_CALLS), XidEvent(gpu=3, xid=48))
    sick.wait_taints({GPU_3: [("gpu.nvidia.com/xid", "48", "NoSchedule")]})
    assert warnings_of(sick) in ([], ["GpuUnhealthy"])


@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"])
def test_gpus_without_events_are_unmonitored_and_nothing_worse(sick: SickNode, call: str) -> None:
    """Even where NVML has none of the other facts; each is said once, and is given out all the same."""
    sick.node.play(
        CallFails(call=call, code="NOT_SUPPORTED"), *(CallFails(call=each, code="NOT_SUPPORTED") for each in CONDITION_CALLS)
    )
    sick.run()
    names = list(sick.node.devices())
    sick.wait_taints({name: [("gpu.nvidia.com/unmonitored", "events", "None")] for name in names})
    sick.wait_ill()
    assert len(warnings_of(sick)) <= 8
    assert set(warnings_of(sick)) <= {"GpuWarning"}
