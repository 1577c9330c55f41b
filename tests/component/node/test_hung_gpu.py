"""A GPU whose NVML call hangs, on a running node: it is left out alone, named in an event, and comes back by itself."""

from __future__ import annotations

import dataclasses
import threading

from driver.cli.backend import OpenedForEachPass
from driver.node.machine import MachineReader
from driver.nvml.mock.faults import CallHangs, GpuLost
from driver.nvml.reading_threads import ReadingThreads
from tests.component.node.one_node import OneNode

HANGS = CallHangs(call="nvmlDeviceGetUUID", gpu=3)
DEADLINE_S = 3.0
"""Enough for seven GPUs that answer, on a busy machine."""


def hurry(reader: MachineReader) -> MachineReader:
    """The same machine, whose hung GPUs are given up sooner."""
    assert isinstance(reader, OpenedForEachPass)
    return OpenedForEachPass(dataclasses.replace(reader.backend, threads=ReadingThreads(deadline_s=DEADLINE_S)))


def count_hung_threads() -> int:
    return sum(thread.name == "nvml-gpu-3" for thread in threading.enumerate())


def test_a_gpu_that_hangs_at_start_is_left_out_alone_and_comes_back(node: OneNode) -> None:
    """Seven devices and one event, however often it is looked; eight after the call is back, without a restart."""
    node.play(HANGS)
    plugin = node.start(wrap=hurry)
    node.wait_published(7)
    assert "gpu-0000-61-00-0" not in node.devices()
    node.wait(lambda: len(node.events("GpuFailed")) == 1)
    assert node.events("GpuFailed") == ["GPU 3 (gpu-0000-61-00-0) is left out: no answer within 3 s from nvmlDeviceGetUUID"]
    for _ in range(3):
        plugin.look_again()
    claim = node.allocate("one", ["gpu-0000-1b-00-0"])
    assert len(node.prepare(claim)[claim.uid]) == 1
    assert count_hung_threads() == 1
    node.play()
    node.wait_published(8)
    node.wait(lambda: count_hung_threads() == 0)
    assert len(node.events("GpuFailed")) == 1
    assert node.events("NvmlHangs") == []


def test_a_gpu_that_hangs_while_a_claim_has_it_is_tainted_and_its_claim_can_end(node: OneNode) -> None:
    """The pod goes on, nobody new gets the GPU, and unprepare does not wait for NVML."""
    plugin = node.start(wrap=hurry)
    node.wait_published(8)
    claim = node.allocate("one", ["gpu-0000-61-00-0"])
    node.prepare(claim)
    node.play(HANGS)
    plugin.look_again()
    node.wait(lambda: "taints" in node.devices()["gpu-0000-61-00-0"])
    assert [name for name, device in node.devices().items() if "taints" in device] == ["gpu-0000-61-00-0"]
    node.unprepare(claim)
    assert node.cdi_files() == []
    node.play()
    node.wait(lambda: not any("taints" in device for device in node.devices().values()))
    assert len(node.devices()) == 8


def test_the_plugin_ends_while_a_call_hangs(node: OneNode) -> None:
    """R13: exit waits for no blocked thread."""
    node.play(HANGS)
    plugin = node.start(wrap=hurry)
    node.wait_published(7)
    node.stop(plugin)
    assert count_hung_threads() == 1
    node.play()
    node.wait(lambda: count_hung_threads() == 0)


def test_a_hang_of_all_of_nvml_is_said_once_and_costs_no_claim(node: OneNode) -> None:
    """Devices stay published, the node ready, claims are prepared; news comes again when the call is back."""
    plugin = node.start()
    node.wait_published(8)
    plugin._machine._hang_s = 0.5  # a minute and a half on a node: no setting, since nobody would set it
    node.play(CallHangs(call="nvmlDeviceGetCount"))
    plugin.look_again()
    node.wait(lambda: len(node.events("NvmlHangs")) == 1)
    plugin.look_again()
    claim = node.allocate("one", ["gpu-0000-1b-00-0"])
    assert len(node.prepare(claim)[claim.uid]) == 1
    node.unprepare(claim)
    assert (len(node.devices()), plugin._server.is_ready()) == (8, True)
    assert "devices stay published as they are and claims are prepared" in node.events("NvmlHangs")[0]
    node.play(GpuLost(gpu=2))
    node.wait(lambda: len(node.devices()) == 7)
    assert len(node.events("NvmlHangs")) == 1
