"""A claim says how its devices are: as soon as one is ill, and until it is well again; and nobody's claim is harmed by it."""

from __future__ import annotations

from typing import Any

import pytest

from driver.claims.model import ClaimRef
from driver.nvml.mock.faults import GpuLost, LinkDown, NeedsRecovery, XidEvent
from tests.component.node.one_node import DRIVER, NODE, OneNode
from tests.fakes.kube_api import Fault

GPU_3 = "gpu-0000-61-00-0"
GPU_0 = "gpu-0000-1b-00-0"
FOREIGN = {"driver": "nic.example.com", "pool": "p", "device": "nic-0", "data": {"mtu": 9000}}
POD = {"resource": "pods", "name": "train", "uid": "77777777-0000-4000-8000-000000000000"}


def start(node: OneNode, *claimed: str) -> ClaimRef:
    """A plugin that listens, and a prepared claim of these devices."""
    node.start("dgx-h200")
    node.wait_published(8)
    node.wait((node.plugin_dir / "health.json").exists)
    claim = node.allocate("gpus", claimed)
    node.prepare(claim)
    return claim


def read(node: OneNode) -> dict[str, Any]:
    (claim,) = node.api.objects("resourceclaims")
    return claim


def said(node: OneNode) -> dict[str, tuple[str, str]]:
    """Status and reason of the condition, by device."""
    return {
        each["device"]: (condition["status"], condition["reason"])
        for each in read(node)["status"].get("devices", [])
        for condition in each.get("conditions", [])
        if condition["type"] == "Healthy"
    }


def pod_events(node: OneNode) -> dict[str, dict[str, Any]]:
    """By reason."""
    return {each["reason"]: each for each in node.api.objects("events") if each["regarding"]["kind"] == "Pod"}


def recover(node: OneNode) -> None:
    """The driver asks for nothing any more; an event has the GPU looked at now."""
    node.play(NeedsRecovery(gpu=3, action="none"), XidEvent(gpu=3, xid=13))


def edit_status(node: OneNode, **fields: Any) -> None:
    node.api.edit(
        "resourceclaims", "gpus", lambda now: now | {"status": now["status"] | fields}, namespace="team", is_status=True
    )


def test_a_claim_is_told_of_its_sick_device_and_of_its_recovery(node: OneNode) -> None:
    """The other device of the claim, which was never ill, has nothing to say."""
    start(node, GPU_0, GPU_3)
    edit_status(node, reservedFor=[POD])
    assert node.api.requests["patch", "resourceclaims"] == 0
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: said(node) == {GPU_3: ("False", "Xid79")})
    (entry,) = read(node)["status"]["devices"]
    assert {key: entry[key] for key in ("driver", "pool", "device")} == {"driver": DRIVER, "pool": NODE, "device": GPU_3}
    assert entry["conditions"][0]["message"].startswith("XID 79: the GPU fell off the bus")
    recover(node)
    node.wait(lambda: said(node) == {GPU_3: ("True", "Recovered")}, 60.0)
    node.wait(lambda: len(pod_events(node)) == 2)
    told = pod_events(node)
    assert {each["regarding"]["uid"] for each in told.values()} == {POD["uid"]}
    assert told["GpuUnhealthy"]["note"].startswith(f"{GPU_3} of claim gpus on {NODE}: XID 79: the GPU fell off the bus")
    assert told["GpuRecovered"]["note"] == f"{GPU_3} of claim gpus on {NODE} is well again"


def test_what_others_say_stays(node: OneNode) -> None:
    """Another driver's device with data that we do not know, and another's condition on our device."""
    start(node, GPU_3)
    other = {"type": "Ready", "status": "True", "reason": "Set", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ours = {"driver": DRIVER, "pool": NODE, "device": GPU_3, "conditions": [other], "networkData": {"interfaceName": "x"}}
    claim = read(node)
    foreign = {key: FOREIGN[key] for key in ("driver", "pool", "device")} | {"request": "gpus"}
    results = [*claim["status"]["allocation"]["devices"]["results"], foreign]
    node.api.store.objects[next(key for key in node.api.store.objects if key[2] == "gpus")]["status"]["allocation"]["devices"][
        "results"
    ] = results
    edit_status(node, devices=[FOREIGN, ours])
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: said(node) == {GPU_3: ("False", "Xid79")})
    kept, mine = read(node)["status"]["devices"]
    assert kept == FOREIGN
    assert mine["conditions"][0] == other
    assert mine["networkData"] == {"interfaceName": "x"}


def test_a_restart_writes_nothing_that_is_said_and_ends_what_is_over(node: OneNode) -> None:
    """What was written follows from the records and the GPUs' health; no file of its own is needed."""
    start(node, GPU_3)
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: said(node) == {GPU_3: ("False", "Xid79")})
    # What the driver asks for after the XID is seen by a look of its own, and may be written later.
    node.wait(lambda: "the driver asks for node reboot" in str(read(node)["status"]["devices"]), 60.0)
    before = read(node)["metadata"]["resourceVersion"]
    node.stop(node.plugins[0])
    node.api.forget_requests()
    node.start("dgx-h200")
    node.wait_published(8)
    node.wait(lambda: node.api.requests["get", "resourceclaims"] > 0)
    assert read(node)["metadata"]["resourceVersion"] == before
    node.stop(node.plugins[0])
    (node.plugin_dir / "health.json").unlink()
    node.play(NeedsRecovery(gpu=3, action="none"))
    node.start("dgx-h200")
    node.wait(lambda: said(node) == {GPU_3: ("True", "Recovered")}, 60.0)


def test_a_claim_of_the_same_name_and_another_uid_is_not_touched(node: OneNode) -> None:
    start(node, GPU_3)
    node.api.delete("resourceclaims", "gpus", namespace="team")
    node.allocate("gpus", (GPU_3,))
    before = read(node)
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: bool(node.events("GpuUnhealthy")))
    node.wait(lambda: node.api.requests["get", "resourceclaims"] > 1)
    assert read(node) == before
    assert node.api.requests["patch", "resourceclaims"] == 0


@pytest.mark.parametrize("status", [403, 422], ids=["a right is missing", "refused as invalid"])
def test_a_refusal_is_no_hot_loop_and_holds_up_no_prepare(node: OneNode, status: int) -> None:
    start(node, GPU_3)
    node.api.fail(Fault(verb="patch", resource="resourceclaims", times=1000, status=status, reason="Forbidden"))
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: node.api.requests["patch", "resourceclaims"] > 0)
    claim = node.allocate("more", (GPU_0,))
    node.prepare(claim)
    node.play(XidEvent(gpu=3, xid=79), XidEvent(gpu=0, xid=79))
    node.wait(lambda: "gpu.nvidia.com/xid" in str(node.devices()[GPU_0].get("taints")))
    assert node.api.requests["patch", "resourceclaims"] <= 2


def test_a_server_that_is_down_gets_the_newest_state_alone(node: OneNode) -> None:
    start(node, GPU_3)
    node.api.fail(Fault(verb="patch", resource="resourceclaims", times=2, status=503))
    node.play(XidEvent(gpu=3, xid=79))
    node.wait(lambda: said(node) == {GPU_3: ("False", "Xid79")}, 30.0)


def test_what_only_warns_writes_nothing_into_claims(node: OneNode) -> None:
    start(node, GPU_3)
    node.play(LinkDown(gpu=3, links=(0, 1)), XidEvent(gpu=3, xid=13))
    node.wait(lambda: "gpu.nvidia.com/nvlink" in str(node.devices()[GPU_3].get("taints")))
    assert node.api.requests["patch", "resourceclaims"] == 0


def test_a_lost_gpu_is_told_to_its_claim_alone(node: OneNode) -> None:
    start(node, GPU_3)
    node.prepare(other := node.allocate("other", (GPU_0,)))
    node.play(GpuLost(gpu=3))
    node.plugins[0].look_again()

    def devices(name: str) -> Any:
        found = {each["metadata"]["name"]: each for each in node.api.objects("resourceclaims")}
        return found[name]["status"].get("devices", [])

    node.wait(lambda: [each["conditions"][0]["status"] for each in devices("gpus")] == ["False"], 30.0)
    assert devices(other.name) == []
