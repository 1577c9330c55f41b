"""From a pass to everybody who hears of it, with everything around it in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from driver.api.resource_v1 import Taint
from driver.errors import ApiUnreachable, NvmlError
from driver.health.model import HEALTHY, Health, Kind, Trouble
from driver.names import DeviceName
from driver.node.machine import Pass
from driver.node.words import Word
from driver.nvml.readings import GpuFailure, MachineReading
from driver.resourceslice.health_taints import TaintRules
from driver.topology.mig_offer import MigSetting
from tests.unit.node.publication_ports import FENCED, NODE_UID, Around
from tests.unit.node.readings import failure, machine
from tests.unit.topology import machines


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


def test_a_pass_reaches_slices_prepares_health_and_the_inventory(around: Around) -> None:
    """One source, four readers."""
    assert around.see(machine(0, 1))
    names = ["gpu-0000-01-00-0", "gpu-0000-02-00-0"]
    assert around.published() == names
    assert sorted(around.state.read().devices) == names
    assert [(each.device, each.last_updated_s) for each in around.health.snapshot()] == [
        (name, 1_700_000_000) for name in names
    ]
    assert [device.name for device in around.inventory.read().devices] == names
    assert around.repairs == 1
    assert around.words == []


def test_a_pass_without_an_answer_changes_nothing(around: Around) -> None:
    """No empty slice replaces a good one, and it is said once, not at each try."""
    around.see(machine(0))
    for _ in range(3):
        assert around.publication.note_pass(Pass(reading=None, error=NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED")))
    assert len(around.contents) == 1
    assert [word.reason for word in around.words] == ["NvmlUnavailable"]
    assert len(around.state.read().devices) == 1


def test_prepares_know_the_devices_before_the_api_server_answers(around: Around) -> None:
    """Publishing waits for the node's uid; a claim that is allocated already does not."""
    around.node_uid = ApiUnreachable("GET /api/v1/nodes/node-a", 0, "connection refused")
    assert not around.see(machine(0))
    assert around.contents == []
    assert list(around.state.read().devices) == ["gpu-0000-01-00-0"]
    around.node_uid = NODE_UID
    assert around.see(machine(0))
    assert around.published() == ["gpu-0000-01-00-0"]


def test_a_node_that_was_made_again_gives_its_islands_another_name(around: Around) -> None:
    """And one that is gone, or cannot be asked, leaves them as they are."""

    def islands() -> set[str]:
        devices = [device for content in around.contents[-1] for device in content.devices]
        return {(device.attributes["nvlinkIsland"].string or "").partition("-")[0] for device in devices}

    around.see(machines.hgx_8())
    assert islands() == {"a939d989cf39"}
    around.node_uid = ApiUnreachable("GET /api/v1/nodes/node-a", 0, "connection refused")
    assert around.see(machines.hgx_8())
    assert islands() == {"a939d989cf39"}
    around.node_uid = "b1b2b3b4-cf39-4608-bbce-df67c38058dd"
    assert around.see(machines.hgx_8())
    assert islands() == {"b1b2b3b4cf39"}


def test_a_gpu_that_went_stays_published_until_nobody_holds_it(around: Around) -> None:
    """Unknown holders keep it, a holder keeps it, no holder lets it go."""
    second = DeviceName("gpu-0000-02-00-0")
    around.see(machine(0, 1))
    for held in (None, frozenset({second})):
        around.held = held
        around.see(machine(0))
        assert around.published() == ["gpu-0000-01-00-0", second]
    around.held = frozenset()
    around.see(machine(0))
    assert around.published() == ["gpu-0000-01-00-0"]
    assert [word.reason for word in around.words] == ["DeviceLost", "DeviceWithdrawn"]


def test_a_word_is_said_again_only_after_it_was_untrue(around: Around) -> None:
    """An event a trouble, not an event a pass."""
    sick, well = machine(0, failures=(failure(1),)), machine(0, 1)
    for reading in (sick, sick, well, sick):
        around.see(reading)
    assert [word.reason for word in around.words if word.reason == "GpuFailed"] == ["GpuFailed", "GpuFailed"]


def test_a_state_folder_that_cannot_be_written_is_said_and_tried_again(around: Around, tmp_path: Path) -> None:
    """Nothing is published that would be forgotten by the next start."""
    (tmp_path / "inventory.json").mkdir()
    assert not around.see(machine(0))
    assert around.contents == []
    assert [word.reason for word in around.words] == ["StateUnwritable"]


def test_a_hang_of_all_of_nvml_is_an_event_and_costs_no_claim(around: Around) -> None:
    """Devices stay published and known to prepares; a node that never was read says what it waits for."""
    around.publication.note_hang("NVML has not come back")
    assert around.state.read().unread == "NVML has not come back"
    around.see(machine(0))
    around.publication.note_hang("NVML has not come back")
    assert around.words == [Word(reason="NvmlHangs", message="NVML has not come back")] * 2
    assert (around.state.read().unread, len(around.state.read().devices), len(around.contents)) == ("", 1, 1)


def test_nothing_is_published_while_nobody_knows_whose_the_devices_are(around: Around) -> None:
    """Claims that are allocated already are prepared all the same."""
    around.fence = None
    assert not around.see(machine(0))
    assert around.contents == []
    assert list(around.state.read().devices) == ["gpu-0000-01-00-0"]


def test_a_fenced_device_says_so_by_taint_and_attribute_with_one_moment(around: Around) -> None:
    """The lost one, too; its fence comes first."""
    around.see(machine(0, 1))
    assert around.said() == {("scheduler", ())}
    around.fence, around.held = FENCED, None
    around.see(machine(0))
    fence = Taint(key="gpu.nvidia.com/allocator", value="controller", effect="NoSchedule", time_added="2026-12-02T02:00:00Z")
    lost = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule")
    assert around.said() == {("controller", (fence,)), ("controller", (fence, lost))}
    assert {device.attributes["allocator"].string for device in around.inventory.read().devices} == {"controller"}


def test_the_node_changes_sides_while_nvml_is_silent(around: Around) -> None:
    """With what was read last, once; where nothing was read yet, there is nothing to publish."""
    silent = Pass(reading=None, error=NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED"))
    assert around.publication.note_pass(silent)
    assert around.contents == []
    around.see(machine(0))
    around.fence = FENCED
    for _ in range(2):
        assert around.publication.note_pass(silent)
    assert len(around.contents) == 2
    assert {allocator for allocator, _ in around.said()} == {"controller"}
    around.fence = None
    assert not around.publication.note_pass(silent)


def test_a_divided_machine_is_published_with_counters_and_prepared_from(tmp_path: Path) -> None:
    """Whole GPUs and every placement; each in the catalog, with the GPUs that claims divide."""
    around = Around(tmp_path, MigSetting.AUTO)
    assert around.see(machines.machine([machines.hopper(0, machines.mig("h100-80gb"))]))
    assert [len(content.shared_counters) for content in around.contents[-1]] == [1, 0]
    assert len(around.published()) == 26
    catalog = around.state.read()
    assert set(catalog.devices) == set(around.published())
    assert catalog.divided == {"gpu-0000-10-00-0"}
    assert (around.counters.asked, around.said()) == (1, {("scheduler", ())})


def test_without_an_answer_about_counters_nothing_is_published_and_claims_are_prepared(tmp_path: Path) -> None:
    around = Around(tmp_path, MigSetting.AUTO)
    around.counters.answer = ApiUnreachable("GET /version", 0, "connection refused")
    assert not around.see(machines.machine([machines.hopper(0, machines.mig("h100-80gb"))]))
    assert around.contents == []
    assert len(around.state.read().devices) == 26


def test_an_instance_of_nobody_is_confirmed_by_a_second_pass_and_said(tmp_path: Path) -> None:
    around = Around(tmp_path, MigSetting.DYNAMIC)
    around.see(machines.machine([machines.hopper(0, machines.mig("h100-80gb"))]))
    divided = machines.mig("h100-80gb", machines.mig_instance("h100-80gb", 9, 4))
    assert not around.see(machines.machine([machines.hopper(0, divided)]))
    assert len(around.published()) == 26
    assert around.see(machines.machine([machines.hopper(0, divided)]))
    assert len(around.published()) == 14
    assert any("no claim made" in word.message for word in around.words)


def test_a_mig_device_whose_gpu_is_lost_is_unhealthy_for_the_gpus_reason(tmp_path: Path) -> None:
    around = Around(tmp_path, MigSetting.AUTO)
    around.see(machines.machine([machines.hopper(0, machines.mig("h100-80gb"))]))
    held = DeviceName("gpu-0000-10-00-0-mig-1g-10gb-p19-3")
    around.held = frozenset({held})
    lost = GpuFailure(index=0, pci=machines.pci(0), uuid=None, reason="GPU_IS_LOST", is_lost=True)
    around.see(MachineReading(driver_version="580.159.04", cuda_driver_version=(13, 0), gpus=(), failures=(lost,)))
    assert around.published() == [held]
    (health,) = around.health.snapshot()
    assert (health.device, health.message) == (held, "GPU_IS_LOST")


SICK = Health(
    troubles=(
        Trouble(
            device=DeviceName("gpu-0000-01-00-0"),
            kind=Kind.XID,
            value="79",
            since=datetime(2026, 12, 2, 5, tzinfo=UTC),
            message="XID 79: the GPU fell off the bus",
            advice="Reboot.",
        ),
    )
)
XID_79 = Taint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule", time_added="2026-12-02T05:00:00Z")


def test_health_that_changes_is_published_without_another_pass(tmp_path: Path) -> None:
    """The pass may hang in the very GPU that is sick."""
    around = Around(tmp_path)
    around.see(machine(0, 1))
    around.known = SICK
    assert around.publication.note_health()
    assert [device.taints for content in around.contents[-1] for device in content.devices] == [(XID_79,), ()]
    assert [state.message for state in around.health.snapshot()] == [
        "XID 79: the GPU fell off the bus (since 2026-12-02T05:00:00Z)",
        "",
    ]
    around.known = HEALTHY
    assert around.publication.note_health()
    assert around.contents[-1] == around.contents[0]


def test_the_fence_stays_first_on_a_sick_device(tmp_path: Path) -> None:
    around = Around(tmp_path)
    around.fence, around.known = FENCED, SICK
    around.see(machine(0))
    ((device,),) = [content.devices for content in around.contents[-1]]
    assert [taint.key for taint in device.taints] == ["gpu.nvidia.com/allocator", "gpu.nvidia.com/xid"]


def test_health_before_the_first_pass_waits_for_it(tmp_path: Path) -> None:
    around = Around(tmp_path)
    around.known = SICK
    assert around.publication.note_health()
    assert around.contents == []
    around.see(machine(0))
    assert [device.taints for content in around.contents[-1] for device in content.devices] == [(XID_79,)]


def test_health_is_tried_again_while_the_server_does_not_say_which_taints_it_takes(tmp_path: Path) -> None:
    around = Around(tmp_path)
    around.see(machine(0))
    around.known, around.rules = SICK, ApiUnreachable("POST", 0, "no answer")
    assert not around.publication.note_health()
    around.rules = TaintRules()
    assert around.publication.note_health()
    assert [device.taints for content in around.contents[-1] for device in content.devices] == [(XID_79,)]


def test_a_healthy_node_asks_the_server_for_nothing(tmp_path: Path) -> None:
    around = Around(tmp_path)
    around.rules = ApiUnreachable("POST", 0, "no answer")
    assert around.see(machine(0))


def test_what_is_remembered_of_a_device_has_no_taints(tmp_path: Path) -> None:
    """The inventory outlives the trouble."""
    around = Around(tmp_path)
    around.known = SICK
    around.see(machine(0))
    assert [device.taints for device in around.inventory.read().devices] == [()]
