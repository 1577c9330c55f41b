"""MPS on MIG devices that claims make: the daemon serves the instance, which goes after it."""

from __future__ import annotations

from typing import Any

import pytest

from driver.topology.mig_offer import MigSetting
from tests.component.node.mig_node import list_instances
from tests.component.node.one_node import OneNode
from tests.component.sharing.conftest import MIG_CONFIG, SharingNode, mps, time_slicing
from tests.fakes.kubelet_wire import CallFailed

MACHINE = "hgx-h100-4"


@pytest.fixture
def divided(node: OneNode) -> SharingNode:
    node.start(MACHINE, mig=MigSetting.AUTO)
    node.wait_published(4 * 26)
    return SharingNode(node, MACHINE)


def part_of(node: OneNode, profile: str) -> str:
    """A device of this profile."""
    return next(
        name
        for name, device in sorted(node.devices().items())
        if device["attributes"].get("profile", {}).get("string") == profile
    )


def mig_mps(**config: Any) -> dict[str, Any]:
    return {**MIG_CONFIG, "sharing": {"strategy": "MPS", "mpsConfig": config}}


def test_the_daemon_serves_the_instance_that_was_made_for_the_claim(divided: SharingNode) -> None:
    node = divided.node
    claim = node.allocate("part", [part_of(node, "3g.40gb")], configs=[mig_mps(defaultPinnedDeviceMemoryLimit="4Gi")])
    node.prepare(claim)
    (edits,) = [each["containerEdits"] for each in divided.spec(claim)["devices"]]
    (uuid,) = [text.split("=")[1] for text in edits["env"] if text.startswith("GPU_DRA_DEVICE_")]
    assert uuid.startswith("MIG-")
    assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in edits["env"]
    daemon = f"{claim.uid}-config-0"
    assert divided.ask(daemon, f"get_default_device_pinned_mem_limit {uuid}") == "4096M\n"
    assert divided.modes() == {}, "a MIG device has no compute mode"
    node.unprepare(claim)
    assert divided.daemons.list_names() == ()
    assert list_instances(MACHINE, node.mock_state) == []


def test_b63_a_mig_device_takes_time_slicing_and_sets_nothing(divided: SharingNode) -> None:
    """NVIDIA's driver accepts the strategy and does nothing; an interval is no field of this kind."""
    node = divided.node
    name = part_of(node, "1g.10gb")
    plain = node.allocate("plain", [name], configs=[{**MIG_CONFIG, "sharing": {"strategy": "TimeSlicing"}}])
    node.prepare(plain)
    node.unprepare(plain)
    wrong = node.allocate("wrong", [name], configs=[{**time_slicing("Long"), "kind": "MigDeviceConfig"}])
    with pytest.raises(CallFailed, match=r"sharing\.timeSlicingConfig: unknown field, allowed are mpsConfig, strategy"):
        node.prepare(wrong)


def test_each_kind_of_config_is_for_its_kind_of_device(divided: SharingNode) -> None:
    """One claim for both: each config finds its own, as in NVIDIA's driver."""
    node = divided.node
    whole = next(name for name, device in node.devices().items() if device["attributes"]["type"]["string"] == "gpu")
    part = next(name for name in sorted(node.devices()) if "-mig-1g-10gb-" in name and not name.startswith(f"{whole}-"))
    claim = node.allocate("both", [whole, part], configs=[mps(), mig_mps(defaultActiveThreadPercentage=50)])
    node.prepare(claim)
    assert divided.daemons.list_names() == (f"{claim.uid}-config-0", f"{claim.uid}-config-1")
    assert divided.ask(f"{claim.uid}-config-1", "get_default_active_thread_percentage") == "50.0\n"
    assert list(divided.modes()) == [divided.uuid(whole)]
    node.unprepare(claim)
    assert divided.daemons.list_names() == ()
