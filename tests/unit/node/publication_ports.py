"""Everything that a publication touches, as simple as can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driver.api.resource_v1 import Taint
from driver.claims.mig_upkeep import MigClaims
from driver.errors import ApiError
from driver.health.model import HEALTHY
from driver.host.roots import Roots
from driver.names import DeviceName, PoolName
from driver.node.fencing import Fence
from driver.node.inventory_file import InventoryFile
from driver.node.machine import Pass
from driver.node.mig_offers import MigOffers
from driver.node.publication import Inputs, Outlets, Publication
from driver.node.state import NodeState
from driver.node.words import Word
from driver.nvml.readings import MachineReading
from driver.plugin.health import HealthBoard
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.content import SliceContent
from driver.resourceslice.health_taints import TaintRules
from driver.topology.mig_offer import MigSetting

NODE_UID = "a939d989-cf39-4608-bbce-df67c38058dd"
UNFENCED = Fence(allocator=Allocator.SCHEDULER, time_added="2026-12-02T01:00:00Z")
FENCED = Fence(allocator=Allocator.CONTROLLER, time_added="2026-12-02T02:00:00Z")


class FakeCounters:
    """An API server that keeps shared counters, drops them, or cannot be asked."""

    def __init__(self) -> None:
        self.answer: bool | ApiError = True
        self.asked = 0

    def read(self) -> bool:
        self.asked += 1
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    def recall(self) -> bool:
        return self.answer is not False

    def note_lost(self) -> None:
        self.answer = False


class Around:
    """Everything that a publication touches."""

    def __init__(self, folder: Path, mig: MigSetting = MigSetting.OFF) -> None:
        self.mig = mig
        self.clock_s = 1000.0
        self.counters = FakeCounters()
        self.claims = MigClaims()
        (folder / "proc/sys/kernel/random").mkdir(parents=True)
        (folder / "proc/sys/kernel/random/boot_id").write_text("11111111-1111-4111-8111-111111111111\n")
        self.contents: list[Sequence[SliceContent]] = []
        self.words: list[Word] = []
        self.repairs = 0
        self.held: frozenset[DeviceName] | None = frozenset()
        self.node_uid: str | ApiError = NODE_UID
        self.fence: Fence | None = UNFENCED
        self.state = NodeState(Roots(proc=folder / "proc", sys=folder / "sys"))
        self.health = HealthBoard()
        self.known = HEALTHY
        self.rules: TaintRules | ApiError = TaintRules()
        self.inventory = InventoryFile(folder)
        inputs = Inputs(
            pool=PoolName("node-a"),
            read_fence=lambda: self.fence,
            read_node_uid=self._read_node_uid,
            read_held=lambda: self.held,
            mig=MigOffers(
                setting=self.mig,
                counters=self.counters,
                read_claims=lambda: self.claims,
                read_inventory=self.inventory.read,
            ),
            read_health=lambda: self.known,
            read_taint_rules=self._read_rules,
            now_s=lambda: 1_700_000_000.9,
            clock_s=lambda: self.clock_s,
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

    def _read_rules(self) -> TaintRules:
        if isinstance(self.rules, ApiError):
            raise self.rules
        return self.rules

    def publish(self, contents: Sequence[SliceContent]) -> None:
        self.contents.append(contents)

    def see(self, reading: MachineReading) -> bool:
        return self.publication.note_pass(Pass(reading=reading))

    def published(self) -> list[str]:
        return [device.name for content in self.contents[-1] for device in content.devices]

    def said(self) -> set[tuple[str, tuple[Taint, ...]]]:
        """Whose the published devices are, by their attribute and their taints."""
        devices = [device for content in self.contents[-1] for device in content.devices]
        return {(device.attributes["allocator"].string or "", device.taints) for device in devices}

    def _read_node_uid(self) -> str:
        if isinstance(self.node_uid, ApiError):
            raise self.node_uid
        return self.node_uid

    def _repair(self) -> None:
        self.repairs += 1
