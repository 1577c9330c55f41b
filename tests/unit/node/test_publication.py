"""From a pass to everybody who hears of it, with everything around it in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from driver.errors import ApiError, ApiUnreachable, NvmlError
from driver.host.roots import Roots
from driver.names import DeviceName, PoolName
from driver.node.inventory_file import InventoryFile
from driver.node.machine import Pass
from driver.node.publication import Inputs, Outlets, Publication
from driver.node.state import NodeState
from driver.node.words import Word
from driver.nvml.readings import MachineReading
from driver.plugin.health import HealthBoard
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.content import SliceContent
from tests.unit.node.readings import failure, machine

NODE_UID = "a939d989-cf39-4608-bbce-df67c38058dd"


class Around:
    """Everything that a publication touches."""

    def __init__(self, folder: Path) -> None:
        (folder / "proc/sys/kernel/random").mkdir(parents=True)
        (folder / "proc/sys/kernel/random/boot_id").write_text("11111111-1111-4111-8111-111111111111\n")
        self.contents: list[Sequence[SliceContent]] = []
        self.words: list[Word] = []
        self.repairs = 0
        self.held: frozenset[DeviceName] | None = frozenset()
        self.node_uid: str | ApiError = NODE_UID
        self.state = NodeState(Roots(proc=folder / "proc", sys=folder / "sys"))
        self.health = HealthBoard()
        self.inventory = InventoryFile(folder)
        inputs = Inputs(
            pool=PoolName("node-a"),
            allocator=Allocator.SCHEDULER,
            read_node_uid=self._read_node_uid,
            read_held=lambda: self.held,
            now_s=lambda: 1_700_000_000.9,
        )
        outlets = Outlets(
            state=self.state,
            inventory=self.inventory,
            publisher=self,
            health=self.health,
            say=self.words.append,
            on_devices=self._repair,
        )
        self.publication = Publication(inputs, outlets)

    def publish(self, contents: Sequence[SliceContent]) -> None:
        self.contents.append(contents)

    def see(self, reading: MachineReading) -> bool:
        return self.publication.note_pass(Pass(reading=reading))

    def published(self) -> list[str]:
        return [device.name for content in self.contents[-1] for device in content.devices]

    def _read_node_uid(self) -> str:
        if isinstance(self.node_uid, ApiError):
            raise self.node_uid
        return self.node_uid

    def _repair(self) -> None:
        self.repairs += 1


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
