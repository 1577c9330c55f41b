"""From a pass over the machine to what is published, remembered, prepared from, and said about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver import log
from driver.api.resource_v1 import Device
from driver.errors import ApiError, StateUnwritable
from driver.health.model import HEALTHY, Health
from driver.names import DeviceName, PoolName
from driver.node.fencing import Fence
from driver.node.inventory_file import InventoryFile
from driver.node.machine import Pass
from driver.node.mig_offers import MigOffers, Offered
from driver.node.state import NodeState
from driver.node.words import HealthSeen, Word, build_health, words_of_merge, words_of_reading
from driver.nvml.readings import MachineReading
from driver.plugin.health import HealthBoard
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import BuiltDevices, build_devices, build_slice_contents
from driver.resourceslice.content import SliceContent
from driver.resourceslice.fence import stamp_fence
from driver.resourceslice.health_taints import TaintRules, mark_away, taint_devices
from driver.resourceslice.inventory import MergedDevices, merge_inventory
from driver.resourceslice.shares import NO_SHARES, ShareSetting
from driver.topology.build import build_topology
from driver.topology.mig import Partition
from driver.topology.model import Topology

_LOG = log.logger(__name__)

AWAY_S = 60.0
"""A driver that is loaded anew is silent for less; after this nothing new is given to the node until NVML answers."""


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
    on_health: Callable[[HealthSeen], None] = lambda _: None
    """So the devices are now; returns at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What else the outcome depends on."""

    pool: PoolName
    read_fence: Callable[[], Fence | None]
    """Whose the devices are to be; None while nobody knows. Raises ``ApiError``, ``StateUnwritable``."""
    read_node_uid: Callable[[], str]
    """Of the Node as it is now, asked with each pass. Raises ``ApiError``."""
    read_held: Callable[[], frozenset[DeviceName] | None]
    mig: MigOffers
    read_shares: Callable[[], ShareSetting] = ShareSetting
    """Which GPUs are divided by memory, if the server keeps such devices. Raises ``ApiError``."""
    read_health: Callable[[], Health] = lambda: HEALTHY
    read_taint_rules: Callable[[], TaintRules] = TaintRules
    """Raises ``ApiError``."""
    now_s: Callable[[], float] = time.time
    clock_s: Callable[[], float] = time.monotonic


class Publication:
    """Called with each pass by one thread, and with each change of health by another; they wait for each other.

    ``note_hang`` is called by any.
    """

    def __init__(self, inputs: Inputs, outlets: Outlets) -> None:
        self._inputs = inputs
        self._outlets = outlets
        self._turn = threading.Lock()
        self._said: frozenset[Word] = frozenset()
        self._node_uid = ""
        self._fence: Fence | None = None
        self._is_fence_published = False
        self._reading: MachineReading | None = None
        self._silent_since_s: float | None = None
        self._is_away_published = False

    def note_pass(self, seen: Pass) -> bool:
        """Carry the pass on; False where it must be made again soon.

        A pass that NVML did not answer takes nothing away: no empty slice replaces a good one (B31). But what was read before
        changes sides all the same, if it has to, and is given to nobody new while NVML stays silent.
        """
        with self._turn:
            return self._note_pass(seen)

    def note_health(self) -> bool:
        """Publish what was read last with the health that is known now; False where it must be tried again soon."""
        with self._turn:
            if self._reading is None:
                return True
            try:
                fence = self._read_fence()
                if fence is not None:
                    self._publish(self._reading, fence)
            except (ApiError, StateUnwritable) as err:
                log.event(_LOG, log.WARNING, "the GPUs' health cannot be published now", error=err)
                return False
            return fence is not None

    def _note_pass(self, seen: Pass) -> bool:
        try:
            if seen.reading is not None:
                self._silent_since_s = None
                return self._carry_on(seen.reading)
            if self._silent_since_s is None:
                self._silent_since_s = self._inputs.clock_s()
            self._outlets.state.note_silence(str(seen.error))
            self._say_new((Word(reason="NvmlUnavailable", message=f"GPUs cannot be read: {seen.error}"),))
            return self._publish_again()
        except ApiError as err:
            log.event(_LOG, log.WARNING, "the API server does not answer; devices are published later", error=err)
            return False
        except StateUnwritable as err:
            self._say_new((Word(reason="StateUnwritable", message=str(err)),))
            return False

    def note_hang(self, message: str) -> None:
        """A pass does not end. Called by another thread than the passes', which is the one that hangs."""
        self._outlets.state.note_silence(message)
        self._outlets.say(Word(reason="NvmlHangs", message=message))

    def _carry_on(self, reading: MachineReading) -> bool:
        self._reading = reading
        topology = build_topology(reading)
        # Prepares need no API server to know the devices, only attributes that name the node or its allocator do.
        offered = self._inputs.mig.note_pass(topology)
        self._outlets.state.note(topology, offered.offers, self._build(topology, offered).devices)
        self._outlets.on_devices()
        fence = self._read_fence()
        if fence is None:
            return False
        built, merged = self._publish(reading, fence)
        notes = tuple(Word(reason="DeviceLimited", message=note) for note in built.notes)
        self._say_new((*words_of_reading(reading, topology), *words_of_merge(merged), *notes))
        return offered.is_settled

    def _publish_again(self) -> bool:
        """Publish what was read last anew, where it is to have another allocator, or the driver has been away for long."""
        if self._reading is None:
            return True
        fence, before = self._read_fence(), self._fence
        is_same = fence == before and self._is_fence_published and self._is_away() == self._is_away_published
        if fence is not None and not is_same:
            self._publish(self._reading, fence)
        return fence is not None

    def _is_away(self) -> bool:
        return self._silent_since_s is not None and self._inputs.clock_s() - self._silent_since_s >= AWAY_S

    def _read_fence(self) -> Fence | None:
        self._node_uid = self._read_node_uid()
        return self._inputs.read_fence()

    def _read_node_uid(self) -> str:
        """A Node that is gone has the uid that it had, until it is made again."""
        try:
            return self._inputs.read_node_uid()
        except ApiError:
            if not self._node_uid:
                raise
            return self._node_uid

    def _publish(self, reading: MachineReading, fence: Fence) -> tuple[BuiltDevices, MergedDevices]:
        self._fence, self._is_fence_published = fence, False
        topology = build_topology(reading)
        offered = self._inputs.mig.build(topology)
        built = self._build(topology, offered, self._inputs.read_shares())
        self._outlets.state.note(topology, offered.offers, built.devices)
        merged = self._merge(built.devices, fence.allocator)
        self._outlets.inventory.write(merged.inventory)
        partitions: dict[str, Partition] = {each.name: each for offer in offered.offers for each in offer.partitions}
        health = self._inputs.read_health()
        is_away = self._is_away()
        rules = self._inputs.read_taint_rules() if health.troubles or is_away else TaintRules()
        tainted = taint_devices(merged.devices, health, partitions, rules)
        tainted = mark_away(tainted, rules) if is_away else tainted
        devices = stamp_fence(tainted, fence.time_added)
        self._outlets.publisher.publish(build_slice_contents(devices, built.counter_sets))
        self._is_fence_published, self._is_away_published = True, is_away
        seen = HealthSeen(merged=merged, failures=reading.failures, health=health, partitions=partitions)
        self._outlets.health.post(build_health(self._inputs.pool, seen, now_s=int(self._inputs.now_s())))
        self._outlets.on_health(seen)
        return built, merged

    def _build(self, topology: Topology, offered: Offered, shares: ShareSetting = NO_SHARES) -> BuiltDevices:
        return build_devices(
            topology,
            node_uid=self._node_uid or "unknown",
            allocator=self._fence.allocator if self._fence is not None else Allocator.SCHEDULER,
            offers=offered.offers,
            leftovers=offered.leftovers,
            shares=shares,
        )

    def _merge(self, devices: tuple[Device, ...], allocator: Allocator) -> MergedDevices:
        before = self._outlets.inventory.read()
        merged = merge_inventory(before, devices, held=None, allocator=allocator)
        if not merged.lost:
            return merged
        return merge_inventory(before, devices, held=self._inputs.read_held(), allocator=allocator)

    def _say_new(self, words: tuple[Word, ...]) -> None:
        for word in words:
            if word not in self._said:
                self._outlets.say(word)
        self._said = frozenset(words)
