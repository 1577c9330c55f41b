"""A GPU gets sick while something else does not answer: the API server, or NVML as the process has to end."""

from __future__ import annotations

import json
import signal
import time

from driver.nvml.mock.faults import CallHangs, XidEvent
from tests.component.node.one_node import DRIVER, NODE, OneNode
from tests.component.node.test_process import GRACE_S, start
from tests.fakes.kube_api import Fault

GPU_3, GPU_5 = "gpu-0000-61-00-0", "gpu-0000-c3-00-0"
VERBS = ("get", "create", "update", "patch")


def test_what_happened_while_the_api_server_was_down_is_told_once_it_is_back(node: OneNode) -> None:
    """Taints and conditions come; the kubelet and the disk had it at once. Events are a courtesy: none of it is said twice."""
    node.start("dgx-h200")
    node.wait_published(8)
    node.wait((node.plugin_dir / "health.json").exists)
    node.prepare(node.allocate("gpus", [GPU_3]))
    for verb in VERBS:
        node.api.fail(Fault(verb=verb, resource="*", times=2, status=503))
    node.play(XidEvent(gpu=3, xid=79), XidEvent(gpu=5, xid=13))
    node.wait(lambda: '"79": 1' in (node.plugin_dir / "health.json").read_text())
    assert not any(each.get("taints") for each in node.devices().values())
    node.wait(lambda: "gpu.nvidia.com/recovery" in str(node.devices()[GPU_3].get("taints")), 60.0)
    node.wait(lambda: "asks for" in str(node.api.objects("resourceclaims")[0]["status"].get("devices")), 90.0)
    node.wait(lambda: node.kubelet.health(DRIVER)[NODE, GPU_3][0] == "UNHEALTHY")
    said = [each["note"] for each in node.api.objects("events") if each["reason"].startswith("Gpu")]
    assert len(said) == len(set(said))
    assert [name for name, each in node.devices().items() if each.get("taints")] == [GPU_3]


def test_sigterm_ends_it_while_nvml_hangs_and_nothing_that_was_heard_is_lost(node: OneNode) -> None:
    """Every look hangs: the listener's thread, and the next pass, are left behind."""
    node.mock_state = node.plugin_dir / "mock"
    process = start(node, node.api.write_kubeconfig(node.folder / "kubeconfig"), machine="dgx-h200")
    try:
        node.wait_published(8)
        node.wait((node.plugin_dir / "health.json").exists)
        hangs = [CallHangs(call="nvmlDeviceGetRemappedRows", gpu=gpu) for gpu in range(8)]
        node.play(*hangs, XidEvent(gpu=3, xid=79), XidEvent(gpu=5, xid=13))
        node.wait(lambda: "gpu.nvidia.com/xid" in str(node.devices()[GPU_3].get("taints")))
        begun_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 0
        assert time.monotonic() - begun_s < GRACE_S + 8.0
    finally:
        process.kill()
        process.wait()
    state = json.loads((node.plugin_dir / "health.json").read_text())
    assert state["counts"] == {GPU_3: {"79": 1}, GPU_5: {"13": 1}}
    assert [each["value"] for each in state["troubles"]] == ["79"]
