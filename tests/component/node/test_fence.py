"""A node changes sides, between a fake kubelet and a fake API server: by its label, by an upgrade, and over crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from driver.nvml.mock.faults import CallFails, GpuLost
from driver.resourceslice.attributes import Allocator
from driver.topology.mig_offer import MigSetting
from tests.component.node.one_node import DRIVER, NODE, OneNode, one_node
from tests.fakes.kube_api import Fault

LABEL = "gpu.nvidia.com/allocator"
DRAINED = "gpu.nvidia.com/allocator-drained"
OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


class FencedNode(OneNode):
    """A node with words for its fence."""

    def label(self, value: str | None) -> None:
        """Set the node's label, or take it away."""
        self.api.edit("nodes", NODE, lambda now: _with(now, "labels", LABEL, value))

    def acknowledge(self, time_added: str) -> None:
        """As the controller does."""
        self.api.edit("nodes", NODE, lambda now: _with(now, "annotations", DRAINED, time_added))

    def allocators(self) -> set[tuple[str, str]]:
        """What the devices say: their attribute, and the value of the fence's taint (empty without one)."""
        return {
            (device["attributes"]["allocator"]["string"], _fence(device).get("value", "")) for device in self.devices().values()
        }

    def fence_times(self) -> set[str]:
        """The fence's moments; one, unless something is wrong."""
        return {_fence(device).get("timeAdded", "") for device in self.devices().values()}

    def wait_side(self, allocator: str) -> None:
        """Wait until every device is on this side."""
        self.wait(lambda: self.allocators() == {(allocator, "" if allocator == "scheduler" else allocator)})

    def history(self) -> list[str]:
        """Whose the pool has been, as every watcher could see it, without repetitions."""
        sides: list[str] = []
        for event in self.api.store.history:
            if event.kind.plural == "resourceslices" and event.after is not None:
                for side in sorted({_side(device) for device in event.after["spec"].get("devices", [])}):
                    if not sides or sides[-1] != side:
                        sides.append(side)
        return sides

    def record(self) -> dict[str, Any]:
        """What is on disk."""
        found: dict[str, Any] = json.loads((self.plugin_dir / "fence.json").read_text())
        return found


def _with(node: dict[str, Any], field: str, key: str, value: str | None) -> dict[str, Any]:
    pairs = {**node["metadata"].get(field, {}), key: value}
    kept = {name: text for name, text in pairs.items() if text is not None}
    return {**node, "metadata": {**node["metadata"], field: kept}}


def _fence(device: dict[str, Any]) -> dict[str, Any]:
    return next((taint for taint in device.get("taints", []) if taint["key"] == LABEL), {})


def _side(device: dict[str, Any]) -> str:
    return f"{device['attributes']['allocator']['string']}/{_fence(device).get('value', '')}"


@pytest.fixture
def node() -> Iterator[FencedNode]:
    with one_node() as made:
        node = FencedNode(made.folder, made.api, made.kubelet)
        node.plugins = made.plugins
        yield node


def test_a_new_node_of_the_controller_is_fenced_from_the_first_slice_on(node: FencedNode) -> None:
    """Never published unfenced: nothing to wait for, and no watcher ever saw a device without its taint."""
    node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    assert node.allocators() == {("controller", "controller")}
    assert node.history() == ["controller/controller"]


def test_the_label_beats_the_setting(node: FencedNode) -> None:
    node.label("controller")
    node.start(allocator=Allocator.SCHEDULER)
    node.wait_published(8)
    assert node.history() == ["controller/controller"]


def test_by_label_to_the_controller_and_back_without_a_restart(node: FencedNode) -> None:
    """Through draining both ways: by time one way, by the controller's word for this very drain the other."""
    node.start(drain_s=1.0)
    node.wait_side("scheduler")
    node.label("controller")
    node.wait_side("controller")
    node.label(None)
    node.wait_side("draining")
    node.wait(lambda: bool(node.events("FenceWaitsForController")))
    (since,) = node.fence_times()
    node.acknowledge("2020-01-01T00:00:00Z")
    node.label("scheduler")
    assert node.allocators() == {("draining", "draining")}
    node.acknowledge(since)
    node.wait_side("scheduler")
    assert node.history() == [
        "scheduler/", "draining/draining", "controller/controller", "draining/draining", "scheduler/",
    ]  # fmt: skip


def test_a_node_that_drains_is_nobodys_until_the_time_is_over(node: FencedNode) -> None:
    """And goes back at once when it was not meant: the controller had nothing of it yet."""
    node.start(drain_s=900.0)
    node.wait_side("scheduler")
    node.label("controller")
    node.wait_side("draining")
    node.wait(lambda: "fenced_from" in node.record() and node.record()["fenced_from"] is not None)
    node.wait(lambda: bool(node.events("FenceDraining")))
    node.label(None)
    node.wait_side("scheduler")


def test_the_time_goes_on_over_a_restart(node: FencedNode) -> None:
    """It is counted from when the API server had the fence, by the machine's uptime, on disk."""
    plugin = node.start(drain_s=900.0)
    node.wait_side("scheduler")
    node.label("controller")
    node.wait(lambda: node.allocators() == {("draining", "draining")} and node.record()["fenced_from"] is not None)
    started = node.record()["fenced_from"]
    node.stop(plugin)
    record = node.record() | {"fenced_from": started | {"uptime_s": started["uptime_s"] - 1000}}
    (node.plugin_dir / "fence.json").write_text(json.dumps(record))
    node.start(drain_s=900.0)
    node.wait_side("controller")


def test_a_node_without_a_controller_leaves_it_after_the_draining_time(node: FencedNode) -> None:
    """No lease for that long: nobody can have anything under way. A lease that is renewed keeps the node waiting."""
    node.start(allocator=Allocator.CONTROLLER, drain_s=0.5)
    node.wait_side("controller")
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 1}
    node.api.create("leases", {"metadata": {"name": "gpu-dra-controller", "namespace": "gpu-dra"}, "spec": spec})
    node.label("scheduler")
    node.wait_side("draining")
    node.wait_side("scheduler")
    node.wait(lambda: bool(node.events("FenceWithoutController")))


def test_an_old_kubernetes_refuses_the_fence_and_says_so(node: FencedNode) -> None:
    """1.34 takes taints and drops them: ``allocator=controller`` is never published there."""
    node.api.version = {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
    node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    node.wait(lambda: bool(node.events("FenceRefused")))
    assert node.history() == ["scheduler/"]
    assert "v1.34.4 keeps no device taints" in node.events("FenceRefused")[0]
    assert node.api.count("create", resource="resourceslices") == 1


def test_a_new_kubernetes_with_the_gate_off_is_found_out_before_anything_is_published() -> None:
    """By a slice that is only tried."""
    with one_node(gates_off=("DRADeviceTaints",)) as made:
        node = FencedNode(made.folder, made.api, made.kubelet)
        node.plugins = made.plugins
        node.start(allocator=Allocator.CONTROLLER)
        node.wait_published(8)
        node.wait(lambda: bool(node.events("FenceRefused")))
        assert node.history() == ["scheduler/"]
        assert "DRADeviceTaints is off" in node.events("FenceRefused")[0]


def test_a_server_that_drops_the_fence_later_makes_the_node_kube_schedulers(node: FencedNode) -> None:
    """What is published without a taint is kube-scheduler's, whatever was asked for: it is said, not hidden."""
    node.start(drain_s=900.0)
    node.wait_side("scheduler")
    node.label("controller")
    node.wait_side("draining")
    node.api.store.gates_off = frozenset({"DRADeviceTaints"})
    node.api.delete_all("resourceslices")
    node.wait(lambda: bool(node.events("FenceLost")))
    node.wait_side("scheduler")


def test_nothing_is_published_while_the_label_cannot_be_read(node: FencedNode) -> None:
    """Fail closed: the setting might be the wrong side."""
    node.api.fail(Fault(verb="list", resource="nodes", status=403, reason="Forbidden", times=3))
    node.start()
    node.kubelet.wait_registered(DRIVER)
    node.wait(lambda: bool(node.events("AllocatorUnknown")))
    assert node.devices() == {}
    assert "needs get, list and watch of nodes" in node.events("AllocatorUnknown")[0]
    node.wait_side("scheduler")


def test_a_label_that_makes_no_sense_changes_nothing(node: FencedNode) -> None:
    node.start(drain_s=0.2)
    node.wait_side("scheduler")
    node.label("contoller")
    node.wait(lambda: bool(node.events("AllocatorUnknown")))
    assert "contoller is none of scheduler, controller" in node.events("AllocatorUnknown")[0]
    assert node.allocators() == {("scheduler", "")}


def test_a_published_node_goes_on_as_it_was_when_the_label_cannot_be_read_at_start(node: FencedNode) -> None:
    """The record says whose the devices are; no write is needed."""
    plugin = node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    node.stop(plugin)
    node.api.fail(Fault(verb="list", resource="nodes", status=500, times=1000))
    node.api.delete_all("resourceslices")
    node.start(allocator=Allocator.SCHEDULER)
    node.wait_side("controller")


def test_an_upgrade_that_changes_the_setting_drains_first(node: FencedNode) -> None:
    """R3: two instances with different settings; the newer one decides, and the older one writes nothing."""
    old = node.start(instance=OLD)
    node.wait_side("scheduler")
    node.start(instance=NEW, allocator=Allocator.CONTROLLER, drain_s=1.0)
    node.wait_side("controller")
    node.api.delete_all("resourceslices")  # the kubelet restarts: both instances see that the slices are gone
    node.wait_side("controller")
    node.stop(old)
    assert node.history() == ["scheduler/", "draining/draining", "controller/controller"]


def test_an_older_instance_that_takes_up_again_goes_on_from_the_record(node: FencedNode) -> None:
    """The newer one dies: its fence stays up, though the older one last published without it."""
    node.start(instance=OLD)
    node.wait_side("scheduler")
    new = node.start(instance=NEW, allocator=Allocator.CONTROLLER, drain_s=0.5)
    node.wait_side("controller")
    node.stop(new)
    node.api.delete_all("resourceslices")  # a reason for the older one to publish
    node.wait_side("draining")
    (since,) = node.fence_times()
    node.acknowledge(since)
    node.wait_side("scheduler")
    assert node.history() == [
        "scheduler/", "draining/draining", "controller/controller", "draining/draining", "scheduler/",
    ]  # fmt: skip


@pytest.mark.parametrize("damage", ["wiped", "torn"])
def test_a_lost_record_is_made_again_from_what_the_devices_say(node: FencedNode, damage: str) -> None:
    """A fenced node stays fenced, and still waits for the controller before it leaves."""
    plugin = node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    node.stop(plugin)
    file = node.plugin_dir / "fence.json"
    file.unlink() if damage == "wiped" else file.write_text('{"version": 1, "state": "contr')
    node.start(allocator=Allocator.CONTROLLER)
    node.wait(lambda: bool(node.events("FenceRecordLost")) and file.exists())
    assert node.history() == ["controller/controller"]
    node.label("scheduler")
    node.wait_side("draining")


def test_a_record_that_is_lost_while_the_slices_are_gone_is_made_from_the_inventory(node: FencedNode) -> None:
    """The kubelet wiped the slices, somebody the record: the node does not go over to kube-scheduler by that."""
    plugin = node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    node.stop(plugin)
    node.api.delete_all("resourceslices")
    (node.plugin_dir / "fence.json").unlink()
    node.start(allocator=Allocator.SCHEDULER)
    node.wait_side("draining")


def test_a_lost_gpu_carries_the_fence_too(node: FencedNode) -> None:
    """First of its taints, on both sides of a change."""
    plugin = node.start(allocator=Allocator.CONTROLLER)
    node.wait_published(8)
    lost = sorted(node.devices())[5]
    node.prepare(node.allocate("one", [lost]))
    node.play(GpuLost(gpu=5))
    plugin.look_again()
    node.wait(lambda: len(node.devices()[lost].get("taints", [])) == 2)
    assert [taint["key"] for taint in node.devices()[lost]["taints"]] == [LABEL, "gpu.nvidia.com/gpu-lost"]
    node.label("scheduler")
    node.wait_side("draining")
    assert len(node.devices()[lost]["taints"]) == 2


def test_a_node_changes_sides_while_nvml_is_away(node: FencedNode) -> None:
    """With the devices that were read last; claims on it are not touched."""
    plugin = node.start(drain_s=0.5)
    node.wait_side("scheduler")
    node.play(CallFails(call="nvmlInit", code="DRIVER_NOT_LOADED"))
    plugin.look_again()
    node.wait(lambda: bool(node.events("NvmlUnavailable")))
    node.label("controller")
    node.wait_side("controller")


def test_claims_stay_prepared_over_a_change_of_sides(node: FencedNode) -> None:
    """The fence is about new claims: what was prepared answers the same, and is given back."""
    node.start(drain_s=0.5)
    node.wait_side("scheduler")
    claim = node.allocate("one", [sorted(node.devices())[0]])
    before = node.prepare(claim)
    node.label("controller")
    node.wait_side("controller")
    assert node.prepare(claim) == before
    node.unprepare(claim)
    assert node.cdi_files() == []


def test_a_start_on_kube_schedulers_side_asks_no_more_of_the_server_than_before(node: FencedNode) -> None:
    """No probe of the server, no lease, and one look for slices of a time before the record."""
    node.start()
    node.wait_side("scheduler")
    assert node.api.count("create", resource="resourceslices") == 1
    assert node.api.count(resource="leases") == 0


def test_mig_devices_are_fenced_as_their_gpus_are(node: FencedNode) -> None:
    """All of a pool, of several slices: partitions that claims make, and the whole GPUs beside them."""
    node.start("dgx-h100", mig=MigSetting.DYNAMIC, drain_s=1.0)
    node.wait(lambda: len(node.devices()) > 64 and node.allocators() == {("scheduler", "")})
    node.label("controller")
    node.wait_side("controller")
    kinds = {device["attributes"]["type"]["string"] for device in node.devices().values()}
    assert kinds == {"gpu", "mig"}
    assert len(node.fence_times()) == 1
    assert node.history() == ["scheduler/", "draining/draining", "controller/controller"]
