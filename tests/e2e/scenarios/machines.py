"""Odd and broken machines: what NVML does not say, what is too long, too many, or not there (yet)."""

from __future__ import annotations

import time
from pathlib import Path

from driver.nvml.mock.faults import NotReady
from driver.nvml.mock.machine import write_faults
from tests.e2e import calls, objects
from tests.e2e.kube import Json
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
ONE = objects.claim_spec([objects.exactly()])
_SLICE_DEVICES_MAX = 64
_TAINTS_SINCE_MINOR = 36
"""An older API server drops taints, unless a gate is turned on."""


@SUITE.add("PCIe cards bridged in pairs that are no neighbours")
def run_bridged_pairs(stage: Stage) -> str:
    """Four pods with a pair each: 0-2, 1-3, 4-5, 6-7, and nothing else."""
    stage.start_plugin("a100-pcie-bridged")
    pair = objects.claim_spec([objects.exactly(count=2)], [objects.same("nvlinkPair")])
    seen = []
    for number in range(4):
        view = stage.run_pod(f"pair-{number}", pair)
        stage.expect_own_devices(f"pair-{number}", view)
        seen.append(tuple(int(node.removeprefix("/dev/nvidia")) for node in view.gpu_nodes))
    expect(sorted(seen) == [(0, 2), (1, 3), (4, 5), (6, 7)], f"the pairs are {seen}")
    return f"pairs {seen}"


@SUITE.add("the plugin starts before NVML is there")
def start_before_nvml(stage: Stage) -> str:
    """It registers, publishes nothing, and publishes all once the driver is loaded; no restart is needed."""
    write_machine_faults(stage, is_ready=False)
    plugin = stage.new_plugin("dgx-h100")
    plugin.start()
    plugin.wait_registered()
    found = stage.api.find("ResourceSlice", query=stage.pool_query)
    expect(not objects.slice_devices(found), "devices are published that NVML does not know of")
    write_machine_faults(stage, is_ready=True)
    began = time.monotonic()
    stage.wait_pool(devices=8)
    took_s = time.monotonic() - began
    stage.expect_own_devices("pod", stage.run_pod("pod", ONE))
    return f"registered without NVML, published {took_s:.1f} s after it came"


@SUITE.add("unprepare with the API server down and NVML gone")
def unprepare_alone(stage: Stage) -> str:
    """A new process that has neither releases a claim from its record alone."""
    plugin = stage.start_plugin("dgx-h100")
    devices = list(objects.slice_devices(stage.wait_pool()))
    message = calls.claim_message(stage.create_allocated_claim("claim", devices[:2]))
    answer = calls.call_prepare(plugin.service_socket, [message])[message.uid]
    expect(not answer.error, f"prepare failed: {answer.error}")
    plugin.stop()
    write_machine_faults(stage, is_ready=False)
    stage.stop_component("apiserver")
    plugin.start()
    plugin.wait_registered()
    error = calls.call_unprepare(plugin.service_socket, [message])[message.uid]
    expect(not error, f"unprepare failed: {error}")
    left = [*stage.folders.list_records(), *stage.folders.list_cdi_files()]
    expect(not left, f"left behind: {left}")
    stage.restore_cluster()
    return "released by a new process from the record; nothing left"


@SUITE.add("one GPU of eight fails its calls")
def run_with_failing_gpu(stage: Stage) -> str:
    """Seven are published and used, the eighth is named in an event of the node."""
    stage.start_plugin("dgx-h100-gpu7-failing")
    stage.wait_pool(devices=7)

    def is_named(events: list[Json]) -> bool:
        return any("GPU 7" in event.get("message", "") for event in events)

    query = f"fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{stage.layout.node}"
    events = stage.api.wait("Event", None, is_named, what="an event that names GPU 7", query=query, timeout_s=30.0)
    seven = objects.claim_spec([objects.exactly(count=7)])
    stage.expect_own_devices("seven", stage.run_pod("seven", seven))
    return next(f"7 run; {event['reason']}: {event['message']}"[:200] for event in events if is_named([event]))


@SUITE.add("memory is NOT_SUPPORTED, the driver is 580.159.04")
def run_gb10(stage: Stage) -> str:
    """A GPU whose memory is the machine's has no memory capacity; the version is a legal semver, and the text says the rest."""
    stage.start_plugin("gb10")
    (device,) = objects.slice_devices(stage.wait_pool(devices=1)).values()
    version, text = objects.attribute(device, "driverVersion"), objects.attribute(device, "driverVersionText")
    expect(version == "580.159.4", f"driverVersion is {version}")
    expect(text == "580.159.04", f"driverVersionText is {text}")
    expect("memory" not in device.get("capacity", {}), f"capacity is {device.get('capacity')}")
    newer = 'device.attributes["gpu.nvidia.com"].driverVersion.compareTo(semver("580.100.0")) > 0'
    stage.expect_own_devices("pod", stage.run_pod("pod", objects.claim_spec([objects.exactly(selector=newer)])))
    return f"driverVersion {version}, driverVersionText {text}, no memory, selected as newer than 580.100.0"


@SUITE.add("a product name of 80 bytes")
def run_long_name(stage: Stage) -> str:
    """The name is cut to what the API allows, and the cards are used."""
    stage.start_plugin("long-name")
    names = {str(objects.attribute(each, "productName")) for each in objects.slice_devices(stage.wait_pool(devices=2)).values()}
    expect(all(0 < len(name.encode()) <= 64 for name in names), f"product names {names}")
    stage.expect_own_devices("pod", stage.run_pod("pod", ONE))
    return f"published as {names}"


@SUITE.add("sixteen GPUs")
def run_sixteen(stage: Stage) -> str:
    """A DGX-2 in one pod."""
    stage.start_plugin("dgx-2")
    stage.wait_pool(devices=16)
    sixteen = objects.claim_spec([objects.exactly(count=16)], [objects.same("nvlinkIsland")])
    names = stage.expect_own_devices("pod", stage.run_pod("pod", sixteen))
    return f"{len(names)} on one island"


@SUITE.add("more devices than one slice holds; GPUs that went stay while they are held")
def run_many(stage: Stage) -> str:
    """64 GPUs, 8 of them held, are exchanged for 64 others: 72 devices in two slices of one generation, 8 of them tainted."""
    old = stage.start_plugin(str(_write_big_machine(stage.folders.logs, domain=0)))
    names = list(objects.slice_devices(stage.wait_pool(devices=64)))
    held = calls.claim_message(stage.create_allocated_claim("held", names[:8]))
    expect(not calls.call_prepare(old.service_socket, [held])[held.uid].error, "prepare failed")
    old.stop()
    new = stage.start_plugin(str(_write_big_machine(stage.folders.logs, domain=1)))
    slices = stage.wait_pool(devices=72)
    sizes = sorted(len(each["spec"]["devices"]) for each in slices)
    expect(len(slices) == 2 and max(sizes) <= _SLICE_DEVICES_MAX, f"slices of {sizes} devices")
    devices = objects.slice_devices(slices)
    lost = sorted(name for name, device in devices.items() if "gpu-lost" in str(device.get("taints")))
    expected = sorted(names[:8]) if stage.minor >= _TAINTS_SINCE_MINOR else []
    expect(lost == expected, f"{lost} are tainted, and {names[:8]} are held")
    last = [device for name, device in devices.items() if name not in names][-1]
    chosen = f'device.attributes["gpu.nvidia.com"].uuid == "{objects.attribute(last, "uuid")}"'
    stage.expect_own_devices("pod", stage.run_pod("pod", objects.claim_spec([objects.exactly(selector=chosen)])))
    error = calls.call_unprepare(new.service_socket, [held])[held.uid]
    expect(not error, f"the claim on GPUs that went cannot be released: {error}")
    return f"72 devices in slices of {sizes}, {len(lost)} tainted gpu-lost; a pod runs on {last['name']}"


def write_machine_faults(stage: Stage, *, is_ready: bool) -> None:
    """Load or unload the driver of the mock machine, as it runs or before it starts."""
    stage.folders.mock_state.mkdir(parents=True, exist_ok=True)
    write_faults(stage.folders.mock_state, [] if is_ready else [NotReady()])


def _write_big_machine(folder: Path, *, domain: int) -> Path:
    """64 GPUs, as many as a mock machine may have."""
    addresses = ", ".join(f'"{domain:04x}:{bus:02x}:00.0"' for bus in range(1, 65))
    path = folder / f"many-gpus-{domain}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'name: many-gpus-{domain}\ndriver: "580.159.04"\ncuda: "13.0"\n'
        f"gpus:\n  - {{board: t4, numa: 0, root: pci{domain:04x}:00, pci: [{addresses}]}}\n"
    )
    return path
