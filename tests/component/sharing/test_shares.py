"""A GPU that several claims divide by memory: published so where the server keeps it, prepared side by side."""

from __future__ import annotations

from typing import Any

import pytest

from driver.claims.model import ClaimRef
from driver.resourceslice.shares import ShareSetting
from tests.component.node.one_node import OneNode, one_node
from tests.component.sharing.conftest import SharingNode, mps, time_slicing
from tests.fakes.kubelet_wire import CallFailed

GIB = 1024**3
TOTAL = "81559Mi"
ALL = ShareSetting(is_on=True)


def share_id(number: int) -> str:
    return f"5a5a5a5a-0000-4000-8000-{number:012x}"


@pytest.fixture
def divided(node: OneNode) -> SharingNode:
    """A DGX H100 whose GPUs may be divided."""
    node.start(shares=ALL)
    node.wait_published(8)
    return SharingNode(node)


def allocate(node: OneNode, number: int, device: str, amount: str, *configs: Any) -> ClaimRef:
    """A claim with a share of the device, as kube-scheduler writes it."""
    return node.allocate(
        f"share-{number}", [device], configs=configs, shareID=share_id(number), consumedCapacity={"memory": amount}
    )


def test_a_divided_gpu_says_how_it_may_be_divided(divided: SharingNode) -> None:
    for device in divided.node.devices().values():
        assert device["allowMultipleAllocations"] is True
        assert device["capacity"]["memory"] == {
            "value": TOTAL,
            "requestPolicy": {"default": TOTAL, "validRange": {"min": "1Mi", "max": TOTAL, "step": "1Mi"}},
        }


def test_the_setting_may_name_single_gpus(node: OneNode) -> None:
    node.start(shares=ShareSetting(is_on=True, only=frozenset({"0000:1b:00.0", "gpu-nowhere"})))
    node.wait_published(8)
    shared = {name for name, device in node.devices().items() if device.get("allowMultipleAllocations")}
    assert shared == {"gpu-0000-1b-00-0"}
    node.wait(lambda: any("gpu-nowhere" in text for text in node.events("DeviceLimited")))


def test_an_older_server_gets_whole_gpus_and_it_is_said() -> None:
    with one_node(gates_off=["DRAConsumableCapacity"]) as node:
        node.start(shares=ALL)
        node.wait_published(8)
        assert not any(device.get("allowMultipleAllocations") for device in node.devices().values())
        node.wait(lambda: any("consumable shares are set" in text for text in node.events("DeviceLimited")))


def test_four_claims_divide_a_gpu_and_each_is_told_its_part(divided: SharingNode) -> None:
    node = divided.node
    device = sorted(node.devices())[0]
    claims = [allocate(node, number, device, "20Gi") for number in range(3)]
    answers = node.prepare(*claims)
    for number, claim in enumerate(claims):
        (prepared,) = answers[claim.uid]
        assert (prepared.device, prepared.share_id) == (device, share_id(number))
        (edits,) = [each["containerEdits"] for each in divided.spec(claim)["devices"]]
        assert f"GPU_DRA_SHARE_BYTES_{device.removeprefix('gpu-').replace('-', '_')}={20 * GIB}" in edits["env"]
        assert "mounts" not in edits
    too_much = allocate(node, 7, device, "20Gi")
    with pytest.raises(CallFailed, match=rf"device {device} has .* bytes of memory, of which .*share-0.* are too much"):
        node.prepare(too_much)
    node.unprepare(claims[1])
    node.prepare(too_much)
    whole = node.allocate("whole", [device])
    with pytest.raises(CallFailed, match="is held by"):
        node.prepare(whole)


def test_a_share_with_mps_is_limited_to_its_memory_and_leaves_the_others_alone(divided: SharingNode) -> None:
    node = divided.node
    device = sorted(node.devices())[0]
    first, second, plain = (
        allocate(node, 1, device, "10Gi", mps()),
        allocate(node, 2, device, "20Gi", mps({"defaultPinnedDeviceMemoryLimit": "5Gi"})),
        allocate(node, 3, device, "20Gi"),
    )
    node.prepare(first, second, plain)
    uuid = divided.uuid(device)
    limit = f"get_default_device_pinned_mem_limit {uuid}"
    assert divided.ask(f"{first.uid}-share-0", limit) == "10240M\n"
    assert divided.ask(f"{second.uid}-share-0", limit) == "5120M\n"
    assert divided.modes() == {}, "the plain share must reach its GPU"
    node.unprepare(first)
    assert divided.daemons.list_names() == (f"{second.uid}-share-0",)


def test_a_share_cannot_ask_mps_for_more_than_it_has(divided: SharingNode) -> None:
    node = divided.node
    device = sorted(node.devices())[0]
    claim = allocate(node, 1, device, "10Gi", mps({"defaultPinnedDeviceMemoryLimit": "11Gi"}))
    with pytest.raises(CallFailed, match=r"a memory limit of 11264Mi .* is more than the share's 10240Mi"):
        node.prepare(claim)


def test_shares_have_one_time_slice_and_the_last_one_takes_it_back(divided: SharingNode) -> None:
    node = divided.node
    device = sorted(node.devices())[0]
    uuid = divided.uuid(device)
    first, second = (allocate(node, number, device, "10Gi", time_slicing("Long")) for number in (1, 2))
    other = allocate(node, 3, device, "10Gi", time_slicing("Short"))
    node.prepare(first, second)
    with pytest.raises(CallFailed, match="it has the time slice Long, and a GPU has one for all its shares"):
        node.prepare(other)
    node.unprepare(first)
    assert divided.time_slice(uuid) == 3
    node.unprepare(second)
    assert divided.time_slice(uuid) == 0
    node.prepare(other)
    assert divided.time_slice(uuid) == 1


def test_shares_are_held_apart_across_a_restart(divided: SharingNode) -> None:
    node = divided.node
    device = sorted(node.devices())[0]
    first, second = allocate(node, 1, device, "50Gi"), allocate(node, 2, device, "50Gi")
    node.prepare(first)
    node.stop(node.plugins[0])
    node.start(shares=ALL)
    node.wait_published(8)
    with pytest.raises(CallFailed, match="are too much"):
        node.prepare(second)
