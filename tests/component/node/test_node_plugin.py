"""The node half from a mock machine to CDI files, between a fake kubelet and a fake API server."""

from __future__ import annotations

import json

import pytest

from driver.errors import AnotherPublisher
from driver.nvml.mock.faults import CallFails, CallHangs, GpuLost
from driver.nvml.mock.machine import reboot
from tests.component.node.one_node import DRIVER, OneNode
from tests.fakes.kube_api import Fault
from tests.fakes.kubelet import CallFailed


def test_a_claim_of_four_gets_its_four_devices_and_gives_them_back(node: OneNode) -> None:
    """The main walk: published, prepared, granted by one CDI file, released."""
    node.start()
    node.wait_published(8)
    names = sorted(node.devices())[:4]
    claim = node.allocate("four", names)
    prepared = node.prepare(claim)[claim.uid]
    assert [each.device for each in prepared] == names
    (file,) = node.cdi_files()
    spec = json.loads(file.read_text())
    assert [device["name"] for device in spec["devices"]] == [f"{claim.uid}-{name}" for name in names]
    paths = {edit["path"] for device in spec["devices"] for edit in device["containerEdits"]["deviceNodes"]}
    assert len([path for path in paths if path.removeprefix("/dev/nvidia").isdigit()]) == 4
    assert node.prepare(claim)[claim.uid] == prepared
    node.unprepare(claim)
    assert node.cdi_files() == []
    assert list((node.plugin_dir / "claims").glob("*.json")) == []


def test_bad_claims_of_a_call_get_their_own_errors_and_the_good_one_is_prepared(node: OneNode) -> None:
    """Each kind of bad claim beside a good one, alone and all in one call (B59); the kubelet reports the first."""
    node.start()
    node.wait_published(8)
    first, second, *_ = sorted(node.devices())
    held = node.allocate("held", [first])
    node.prepare(held)
    good = node.allocate("good", [second])
    taken = node.allocate("taken", [first])
    unknown = node.allocate("unknown", ["gpu-0000-ff-00-0"])
    foreign = node.allocate("foreign", [second], pool="node-b")
    for bad, why in ((taken, f"{first} is held by"), (unknown, "'gpu-0000-ff-00-0'"), (foreign, "'node-b'")):
        with pytest.raises(CallFailed, match=f"for ResourceClaim {bad.name}: .*{why}"):
            node.prepare(good, bad)
    with pytest.raises(CallFailed):
        node.prepare(good, taken, unknown, foreign)
    assert node.prepare(good)[good.uid][0].device == second


def test_nothing_is_written_when_the_plugin_starts_again(node: OneNode) -> None:
    """Same machine, same slices: no write at a restart."""
    plugin = node.start()
    node.wait_published(8)
    node.stop(plugin)
    node.api.forget_requests()
    node.start()
    node.kubelet.wait_registered(DRIVER)
    node.wait(lambda: node.api.count("watch", resource="resourceslices") >= 1)
    assert node.api.count("create", "update", "patch", "delete", resource="resourceslices") == 0


def test_slices_that_the_kubelet_deletes_come_back(node: OneNode) -> None:
    """B28: three times in a row."""
    node.start()
    node.wait_published(8)
    for _ in range(3):
        assert node.api.delete_all("resourceslices") == 1
        node.wait(lambda: len(node.devices()) == 8)


def test_a_gpu_that_fails_is_left_out_alone_and_named_in_an_event(node: OneNode) -> None:
    """One of eight refuses a required call: seven are published."""
    node.play(CallFails(call="nvmlDeviceGetUUID", code="UNKNOWN", gpu=3))
    node.start()
    node.wait_published(7)
    node.wait(lambda: len(node.events("GpuFailed")) == 1)
    assert "GPU 3" in node.events("GpuFailed")[0]


def test_a_gpu_that_comes_back_is_published_without_a_restart(node: OneNode) -> None:
    """B30: the machine is looked at again soon while one is missing."""
    node.play(GpuLost(gpu=2))
    node.start()
    node.wait_published(7)
    node.play()
    node.wait_published(8)


def test_a_gpu_that_falls_off_keeps_its_device_with_a_taint_while_a_claim_has_it(node: OneNode) -> None:
    """R23: pods go on, nobody new gets it, the kubelet is told; it is withdrawn when the claim has gone."""
    plugin = node.start()
    node.wait_published(8)
    name = sorted(node.devices())[5]
    claim = node.allocate("one", [name])
    node.prepare(claim)
    node.play(GpuLost(gpu=5))
    plugin.look_again()
    node.wait(lambda: "taints" in node.devices()[name])
    assert [taint["key"] for taint in node.devices()[name]["taints"]] == ["gpu.nvidia.com/gpu-lost"]
    node.wait(lambda: node.kubelet.health(DRIVER).get(("node-a", name), ("", ""))[0] == "UNHEALTHY")
    node.unprepare(claim)
    node.api.delete("resourceclaims", "one", namespace="team")
    plugin.look_again()
    node.wait(lambda: name not in node.devices())


def test_the_plugin_starts_before_nvml_and_publishes_when_it_is_there(node: OneNode) -> None:
    """B31: registered at once, no empty slice, eight devices later without a restart."""
    node.play(CallFails(call="nvmlInit", code="DRIVER_NOT_LOADED"))
    node.start()
    node.kubelet.wait_registered(DRIVER)
    assert node.api.objects("resourceslices") == []
    claim = node.allocate("early", ["gpu-0000-1b-00-0"])
    with pytest.raises(CallFailed, match=r"not been read yet.*DRIVER_NOT_LOADED"):
        node.prepare(claim)
    node.play()
    node.wait_published(8)
    assert len(node.prepare(claim)[claim.uid]) == 1


def test_a_prepare_right_after_the_start_waits_for_the_first_pass(node: OneNode) -> None:
    """A pod that starts as the plugin is restarted does not have to be asked for twice."""
    claim = node.allocate("early", ["gpu-0000-1b-00-0"])
    node.play(CallHangs(call="nvmlInit", seconds=1.0, times=1))
    node.start()
    node.kubelet.wait_registered(DRIVER)
    assert len(node.prepare(claim)[claim.uid]) == 1


def test_the_plugin_starts_while_the_api_server_is_away(node: OneNode) -> None:
    """It registers, unprepares, and publishes when the server is back."""
    plugin = node.start()
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    node.prepare(claim)
    node.stop(plugin)
    node.api.stop()
    node.start()
    node.kubelet.wait_registered(DRIVER)
    node.unprepare(claim)
    assert node.cdi_files() == []
    node.api.start()
    node.api.delete_all("resourceslices")
    node.wait_published(8)


def test_unprepare_works_with_nvml_and_the_api_server_gone(node: OneNode) -> None:
    """The record alone is enough (B17)."""
    node.start()
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    node.prepare(claim)
    node.play(CallFails(call="nvmlInit", code="DRIVER_NOT_LOADED"))
    node.api.stop()
    node.unprepare(claim)
    assert node.cdi_files() == []


def test_a_wiped_cdi_folder_is_filled_again_at_start(node: OneNode) -> None:
    """B13: the kubelet may not call again, so the start repairs."""
    plugin = node.start()
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    node.prepare(claim)
    (file,) = node.cdi_files()
    before = file.read_bytes()
    node.stop(plugin)
    file.unlink()
    node.start()
    node.wait(lambda: len(node.cdi_files()) == 1)
    assert file.read_bytes() == before


def test_after_a_reboot_a_claim_is_prepared_afresh_under_the_same_ids(node: OneNode) -> None:
    """R24, B12: another boot id voids what the record says of the hardware."""
    plugin = node.start()
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    before = node.prepare(claim)[claim.uid]
    node.stop(plugin)
    reboot(node.mock_state)
    for file in node.cdi_files():
        file.unlink()
    node.start()
    node.wait_published(8)
    assert node.prepare(claim)[claim.uid] == before
    assert len(node.cdi_files()) == 1


def test_two_instances_share_the_claims_and_one_publishes(node: OneNode) -> None:
    """A rolling update: what the old one prepared the new one answers, and the slices are not fought over (R3)."""
    old = node.start(instance="11111111-1111-4111-8111-111111111111")
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    before = node.prepare(claim)
    node.start(instance="22222222-2222-4222-8222-222222222222")
    node.kubelet.wait_registered(DRIVER, count=2)
    assert node.prepare(claim) == before
    node.api.forget_requests()
    node.stop(old)
    node.unprepare(claim)
    assert node.api.count("create", "update", "patch", "delete", resource="resourceslices") == 0
    assert len(node.devices()) == 8


def test_slices_of_another_driver_of_our_name_end_the_process(node: OneNode) -> None:
    """R30: two drivers of one name would give the same GPUs out twice; theirs stay untouched."""
    spec = {
        "driver": DRIVER,
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
    }
    node.api.create("resourceslices", {"metadata": {"name": "node-a-gpu.nvidia.com-x7x7x"}, "spec": spec})
    plugin = node.start()
    with pytest.raises(AnotherPublisher, match="drain the node"):
        plugin.wait()
    assert list(node.devices()) == ["gpu-0"]


def test_a_claim_that_cannot_be_read_is_answered_with_the_servers_refusal(node: OneNode) -> None:
    """An API server in trouble is the claim's own error, and the next call works."""
    node.start()
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    node.api.fail(Fault(verb="get", resource="resourceclaims", status=503, reason="ServiceUnavailable"))
    with pytest.raises(CallFailed, match="503"):
        node.prepare(claim)
    assert len(node.prepare(claim)[claim.uid]) == 1


def test_a_device_plugin_on_the_same_node_is_told(node: OneNode) -> None:
    """B74: both would give out the same GPUs. Once for each time that it appears."""
    node.start()
    node.wait_published(8)
    status = {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    node.api.edit("nodes", "node-a", lambda now: now | status, is_status=True)
    node.wait(lambda: "DevicePluginOnNode" in [each["reason"] for each in node.api.objects("events")])
    (event,) = [each for each in node.api.objects("events") if each["reason"] == "DevicePluginOnNode"]
    assert event["type"] == "Warning"
    assert event["note"].startswith("a device plugin offers nvidia.com/gpu: 8 on this node")


def test_a_node_that_is_made_again_gets_islands_of_its_own(node: OneNode) -> None:
    """Its uid is in their names; nobody restarts the plugin."""
    node.start()
    node.wait_published(8)
    before = {device["attributes"]["nvlinkIsland"]["string"] for device in node.devices().values()}
    node.api.delete("nodes", "node-a")
    node.api.create("nodes", {"metadata": {"name": "node-a"}})
    node.wait(lambda: not before & {each["attributes"]["nvlinkIsland"]["string"] for each in node.devices().values()})
