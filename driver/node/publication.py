"""From a pass over the machine to what is published, remembered, prepared from, and said about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver import log
from driver.api.resource_v1 import Device
from driver.errors import ApiError, StateUnwritable
from driver.names import DeviceName, PoolName
from driver.node.inventory_file import InventoryFile
from driver.node.machine import Pass
from driver.node.state import NodeState
from driver.node.words import Word, build_health, words_of_merge, words_of_reading
from driver.nvml.readings import MachineReading
from driver.plugin.health import HealthBoard
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices, build_slice_contents
from driver.resourceslice.content import SliceContent
from driver.resourceslice.inventory import MergedDevices, merge_inventory
from driver.topology.build import build_topology

_LOG = log.logger(__name__)


class SlicePublisher(Protocol):
    """Keeps the API server's slices at what it was told last."""

    def publish(self, contents: Sequence[SliceContent]) -> None:
        """Returns at once; the writes follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the outcome of a pass goes."""

    state: NodeState
    inventory: InventoryFile
    publisher: SlicePublisher
    health: HealthBoard
    say: Callable[[Word], None]
    """Called once for each new word, not at each pass."""
    on_devices: Callable[[], None]
    """The devices or the driver may be others now: CDI files are brought into step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What else the outcome depends on."""

    pool: PoolName
    allocator: Allocator
    read_node_uid: Callable[[], str]
    """Raises ``ApiError``."""
    read_held: Callable[[], frozenset[DeviceName] | None]
    now_s: Callable[[], float] = time.time


class Publication:
    """Called with each pass, by one thread; ``note_hang`` by any."""

    def __init__(self, inputs: Inputs, outlets: Outlets) -> None:
        self._inputs = inputs
        self._outlets = outlets
        self._said: frozenset[Word] = frozenset()
        self._node_uid = ""

    def note_pass(self, seen: Pass) -> bool:
        """Carry the pass on; False where it must be made again soon.

        A pass that NVML did not answer changes nothing: no empty slice replaces a good one (B31).
        """
        if seen.reading is None:
            self._outlets.state.note_silence(str(seen.error))
            self._say_new((Word(reason="NvmlUnavailable", message=f"GPUs cannot be read: {seen.error}"),))
            return True
        try:
            self._carry_on(seen.reading)
        except ApiError as err:
            log.event(_LOG, log.WARNING, "the API server does not answer; devices are published later", error=err)
            return False
        except StateUnwritable as err:
            self._say_new((Word(reason="StateUnwritable", message=str(err)),))
            return False
        return True

    def note_hang(self, message: str) -> None:
        """A pass does not end. Called by another thread than the passes', which is the one that hangs."""
        self._outlets.state.note_silence(message)
        self._outlets.say(Word(reason="NvmlHangs", message=message))

    def _carry_on(self, reading: MachineReading) -> None:
        topology = build_topology(reading)
        # Prepares need no API server to know the devices, only attributes that name the node need its uid.
        built = build_devices(topology, node_uid=self._node_uid or "unknown", allocator=self._inputs.allocator)
        self._outlets.state.note(topology, built.devices)
        self._outlets.on_devices()
        if not self._node_uid:
            self._node_uid = self._inputs.read_node_uid()
            built = build_devices(topology, node_uid=self._node_uid, allocator=self._inputs.allocator)
            self._outlets.state.note(topology, built.devices)
        merged = self._merge(built.devices)
        self._outlets.inventory.write(merged.inventory)
        self._outlets.publisher.publish(build_slice_contents(merged.devices))
        self._outlets.health.post(build_health(self._inputs.pool, merged, reading.failures, now_s=int(self._inputs.now_s())))
        notes = tuple(Word(reason="DeviceLimited", message=note) for note in built.notes)
        self._say_new((*words_of_reading(reading, topology), *words_of_merge(merged), *notes))

    def _merge(self, devices: tuple[Device, ...]) -> MergedDevices:
        before = self._outlets.inventory.read()
        merged = merge_inventory(before, devices, held=None, allocator=self._inputs.allocator)
        if not merged.lost:
            return merged
        return merge_inventory(before, devices, held=self._inputs.read_held(), allocator=self._inputs.allocator)

    def _say_new(self, words: tuple[Word, ...]) -> None:
        for word in words:
            if word not in self._said:
                self._outlets.say(word)
        self._said = frozenset(words)
