"""Claims with NVIDIA's sharing configs, from the kubelet's call to the GPU and back: the real node half on a mock machine."""

from __future__ import annotations

import re
import signal

import pytest

from driver.mps import process
from driver.nvml.enums import ComputeMode
from driver.nvml.mock import reload_driver, write_faults
from driver.nvml.mock.faults import CallFails, NotReady
from tests.component.node.one_node import OneNode
from tests.component.sharing.conftest import GPU_CONFIG, SharingNode, mps, time_slicing
from tests.fakes.kubelet_wire import CallFailed


def first_devices(node: OneNode, count: int) -> list[str]:
    return sorted(node.devices())[:count]


def test_nothing_is_set_that_nobody_asked_for(shared: SharingNode) -> None:
    """B63: also a config without a ``sharing`` block asks for nothing."""
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("plain", [device], configs=[GPU_CONFIG])
    write_faults(node.mock_state, [CallFails(call="nvmlDeviceSetComputeMode", code="NOT_SUPPORTED")])
    node.prepare(claim)
    node.unprepare(claim)
    assert not (node.folder / "mps").exists()


def test_a_time_slice_is_set_in_prepare_and_taken_back_in_unprepare(shared: SharingNode) -> None:
    node = shared.node
    device, other = first_devices(node, 2)
    claim = node.allocate("slices", [device], configs=[time_slicing("Long")])
    first = node.prepare(claim)
    assert (shared.time_slice(shared.uuid(device)), shared.time_slice(shared.uuid(other))) == (3, 0)
    assert node.prepare(claim) == first
    node.unprepare(claim)
    assert shared.time_slice(shared.uuid(device)) == 0


def test_mps_runs_a_daemon_and_keeps_everybody_else_from_the_gpu(shared: SharingNode) -> None:
    node = shared.node
    device, other = first_devices(node, 2)
    config = {
        "defaultActiveThreadPercentage": 50,
        "defaultPinnedDeviceMemoryLimit": "10Gi",
        "defaultPerDevicePinnedMemoryLimit": {shared.uuid(other): "5Gi"},
        "multiUser": True,
    }
    claim = node.allocate("mps", [device, other], configs=[mps(config)])
    first = node.prepare(claim)
    daemon = f"{claim.uid}-config-0"
    assert shared.modes() == dict.fromkeys((shared.uuid(device), shared.uuid(other)), ComputeMode.EXCLUSIVE_PROCESS)
    assert shared.ask(daemon, "get_default_active_thread_percentage") == "50.0\n"
    assert shared.ask(daemon, f"get_default_device_pinned_mem_limit {shared.uuid(device)}") == "10240M\n"
    assert shared.ask(daemon, f"get_default_device_pinned_mem_limit {shared.uuid(other)}") == "5120M\n"
    assert "multi-user yes" in shared.daemons.files(daemon).output.read_text()
    for edits in (each["containerEdits"] for each in shared.spec(claim)["devices"]):
        assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in edits["env"]
        mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
        files = shared.daemons.files(daemon)
        assert mounts == {"/tmp/nvidia-mps": str(files.pipe), "/dev/shm": str(files.shared_memory)}
    running = shared.pid(daemon)
    assert node.prepare(claim) == first
    assert shared.pid(daemon) == running
    node.unprepare(claim)
    assert running is not None
    assert not process.is_alive(running)
    assert shared.modes() == {}
    assert shared.daemons.list_names() == ()


def test_a_restarted_plugin_finds_its_daemon_and_looks_after_it(shared: SharingNode) -> None:
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("mps", [device], configs=[mps({"defaultActiveThreadPercentage": 25})])
    node.prepare(claim)
    daemon = f"{claim.uid}-config-0"
    running = shared.pid(daemon)
    assert running is not None
    node.stop(node.plugins[0])
    assert process.is_alive(running), "pods go on"
    node.start()
    node.wait_published(8)
    assert shared.pid(daemon) == running
    process.send(running, signal.SIGKILL)
    node.wait(lambda: shared.pid(daemon) not in (None, running))
    node.wait(lambda: shared.ask(daemon, "get_default_active_thread_percentage", 1.0) == "25.0\n", 60.0)
    node.wait(lambda: any("runs again" in text for text in node.events("MpsDaemonTrouble")))
    node.unprepare(claim)
    assert shared.daemons.list_names() == ()


@pytest.mark.parametrize("restarts", [True, False], ids=["the plugin starts", "the kubelet asks again"])
def test_a_daemon_whose_folder_was_lost_is_made_again(shared: SharingNode, restarts: bool) -> None:
    """B13 for what lies in memory beside the CDI files: a node that is a container loses /run and keeps its boot id."""
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("mps", [device], configs=[mps({"defaultActiveThreadPercentage": 25})])
    first = node.prepare(claim)
    daemon = f"{claim.uid}-config-0"
    running = shared.pid(daemon)
    assert running is not None
    if restarts:
        node.stop(node.plugins[0])
    (node.folder / "mps").rename(node.folder / "lost")
    process.send(running, signal.SIGKILL)
    if restarts:
        node.start()
        node.wait_published(8)
        node.wait(lambda: shared.pid(daemon) not in (None, running))
    assert node.prepare(claim) == first
    again = shared.pid(daemon)
    assert shared.ask(daemon, "get_default_active_thread_percentage") == "25.0\n"
    assert again is not None
    process.send(again, signal.SIGKILL)
    node.wait(lambda: shared.pid(daemon) not in (None, again))
    node.unprepare(claim)
    assert shared.daemons.list_names() == ()


def test_a_daemon_of_no_claim_is_ended_at_start(shared: SharingNode) -> None:
    """A record may have been lost with its disk, the process not."""
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("mps", [device], configs=[mps()])
    node.prepare(claim)
    running = shared.pid(f"{claim.uid}-config-0")
    node.stop(node.plugins[0])
    for path in [*(node.plugin_dir / "claims").glob("*.json"), *node.cdi_files()]:
        path.unlink()
    node.start()
    node.wait(lambda: shared.daemons.list_names() == ())
    assert running is not None
    assert not process.is_alive(running)


def test_a_driver_that_is_loaded_anew_is_set_again(shared: SharingNode) -> None:
    """Settings go with the driver; the kubelet may not ask again for a pod that runs."""
    node = shared.node
    device, other = first_devices(node, 2)
    claims = [
        node.allocate("slices", [device], configs=[time_slicing("Short")]),
        node.allocate("mps", [other], configs=[mps()]),
    ]
    node.prepare(*claims)
    reload_driver(node.mock_state)
    assert shared.modes() == {}
    node.plugins[0].look_again()
    node.wait(lambda: shared.time_slice(shared.uuid(device)) == 1)
    node.wait(lambda: shared.modes() == {shared.uuid(other): ComputeMode.EXCLUSIVE_PROCESS})
    node.unprepare(*claims)
    assert (shared.modes(), shared.time_slice(shared.uuid(device))) == ({}, 0)


def test_one_claims_daemon_that_does_not_come_up_holds_up_no_other(shared: SharingNode) -> None:
    node = shared.node
    device, other = first_devices(node, 2)
    program = node.mock_state / "root" / "driver" / "usr" / "bin" / "nvidia-cuda-mps-control"
    good = program.read_text()
    program.write_text("#!/bin/sh\necho no more GPUs >&2\nexit 5\n")
    bad = node.allocate("bad", [device], configs=[mps()])
    fine = node.allocate("fine", [other])
    with pytest.raises(CallFailed, match=r"ended with 5 instead of serving GPU-.*no more GPUs"):
        node.prepare(bad)
    node.prepare(fine)
    assert shared.daemons.list_names() == ()
    program.write_text(good)
    node.prepare(bad)
    node.unprepare(bad, fine)
    assert shared.modes() == {}


def test_a_claim_that_cannot_be_shared_is_refused_whole_and_can_go(shared: SharingNode) -> None:
    node = shared.node
    device, _ = first_devices(node, 2)
    write_faults(node.mock_state, [CallFails(call="nvmlDeviceSetComputeMode", code="NOT_SUPPORTED")])
    claim = node.allocate("mps", [device], configs=[mps()])
    with pytest.raises(CallFailed, match=r"cannot be shared as its config asks: NVML nvmlDeviceSetComputeMode: NOT_SUPPORTED"):
        node.prepare(claim)
    node.unprepare(claim)
    assert list((node.plugin_dir / "claims").glob("*.json")) == []


def test_what_cannot_be_taken_back_now_keeps_the_gpu_and_is_tried_again(shared: SharingNode) -> None:
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("mps", [device], configs=[mps()])
    node.prepare(claim)
    write_faults(node.mock_state, [CallFails(call="nvmlDeviceSetComputeMode", code="IN_USE")])
    with pytest.raises(CallFailed, match="cannot be taken back yet"):
        node.unprepare(claim)
    next_one = node.allocate("next", [device])
    with pytest.raises(CallFailed, match="is held by"):
        node.prepare(next_one)
    write_faults(node.mock_state, [])
    node.unprepare(claim)
    node.prepare(next_one)
    assert shared.modes() == {}


def test_a_claim_ends_while_the_driver_is_away(shared: SharingNode) -> None:
    """A drain for a new driver must not hang on what went with the old one (B17)."""
    node = shared.node
    (device,) = first_devices(node, 1)
    claim = node.allocate("mps", [device], configs=[mps()])
    node.prepare(claim)
    write_faults(node.mock_state, [NotReady()])
    node.unprepare(claim)
    assert shared.daemons.list_names() == ()


def test_b66_a_monitor_sets_nothing_and_takes_nothing_back(shared: SharingNode) -> None:
    node = shared.node
    (device,) = first_devices(node, 1)
    user = node.allocate("user", [device], configs=[mps()])
    monitor = node.allocate("monitor", [device], adminAccess=True)
    node.prepare(user)
    node.prepare(monitor)
    node.unprepare(monitor)
    assert shared.modes() == {shared.uuid(device): ComputeMode.EXCLUSIVE_PROCESS}
    assert shared.pid(f"{user.uid}-config-0") is not None
    refused = node.allocate("nosy", [device], adminAccess=True, configs=[time_slicing("Long")])
    with pytest.raises(CallFailed, match="adminAccess, which takes no config"):
        node.prepare(refused)


def test_b67_every_fault_of_a_config_is_told_at_once(shared: SharingNode) -> None:
    node = shared.node
    (device,) = first_devices(node, 1)
    bad = mps({"defaultActiveThreadPercentage": 0, "defaultPinnedDeviceMemoryLimit": "1Ki", "x": 1})
    claim = node.allocate("bad", [device], configs=[bad])
    with pytest.raises(CallFailed) as caught:
        node.prepare(claim)
    for words in (
        "sharing.mpsConfig.x: unknown field",
        "sharing.mpsConfig.defaultActiveThreadPercentage: 0 is no whole number from 1 to 100",
        'sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: "1Ki" is no amount of memory',
    ):
        assert re.search(re.escape(words), str(caught.value)), words


@pytest.mark.parametrize("machine", ["dgx-1p"])
def test_b63_pascal_is_prepared_plain_and_refused_with_the_reason(node: OneNode, machine: str) -> None:
    node.start(machine)
    node.wait_published(8)
    device = first_devices(node, 1)
    plain = node.allocate("plain", device)
    node.prepare(plain)
    node.unprepare(plain)
    default = node.allocate("default", device, configs=[time_slicing()])
    node.prepare(default)
    node.unprepare(default)
    for name, config in (("mps", mps()), ("long", time_slicing("Long"))):
        claim = node.allocate(name, device, configs=[config])
        with pytest.raises(CallFailed, match=r"compute capability is 6\.0: 7\.0 is needed"):
            node.prepare(claim)


def test_the_default_slice_of_a_gpu_that_has_no_other_is_what_it_has(node: OneNode) -> None:
    """A virtual GPU refuses every length, and its compute capability does not tell.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1183
    """
    node.play(CallFails(call="nvmlDeviceGetCudaComputeCapability", code="NOT_SUPPORTED"))
    node.start("dgx-1p")
    node.wait_published(8)
    device = first_devices(node, 1)
    default = node.allocate("default", device, configs=[time_slicing()])
    node.prepare(default)
    node.unprepare(default)
    with pytest.raises(CallFailed, match=r"cannot be shared as its config asks: .*NOT_SUPPORTED"):
        node.prepare(node.allocate("long", device, configs=[time_slicing("Long")]))
