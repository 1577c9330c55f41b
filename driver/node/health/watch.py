"""The health of the node's GPUs, put together: who listens, who keeps it, who has it published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver.claims.flock import FileLock
from driver.errors import DeviceNotReady
from driver.health.file import HealthFile
from driver.health.model import Health, Kind
from driver.health.observations import LostSeen
from driver.health.state import Rules
from driver.host.epoch import read_epoch
from driver.host.roots import Roots
from driver.node.clock import read_now
from driver.node.health.keeper import LOCK_NAME, HealthKeeper, KeeperOutlets
from driver.node.health.listener import HealthListener, ListenerSettings
from driver.node.health.relay import HealthRelay
from driver.node.machine import Pass
from driver.node.words import Word
from driver.nvml.library import OpenNvml
from driver.topology.names import gpu_device_name


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """What an administrator says."""

    ignored_xids: frozenset[int] = frozenset()
    evicts: frozenset[Kind] = frozenset()
    holds_nvml: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPorts:
    """What it reaches out to."""

    folder: Path
    roots: Roots
    open_nvml: OpenNvml
    say: Callable[[Word], None]
    publish: Callable[[], bool]
    """Publish the devices with what is known now; False where it must be tried again."""
    look_again: Callable[[], None]
    """Read the machine anew: links went or came."""
    leads: Callable[[], bool] = lambda: True
    """Whether this instance is the one that publishes, or nobody is."""
    resync: Callable[[], None] = lambda: None
    """Compare what is published with what should be: this instance leads now, and another one did."""


SAVE_REST_S = 2.0
"""What may wait, the counts, is written down at most this late, and no more often."""


class HealthWatch:
    """Three threads: one listens, one publishes, one writes down what may wait."""

    def __init__(self, settings: HealthSettings, ports: HealthPorts) -> None:
        self._roots = ports.roots
        self._relay = HealthRelay(ports.publish)
        self._saver = HealthRelay(self._save, name="health-saver", rest_s=SAVE_REST_S)
        self._keeper = HealthKeeper(
            HealthFile(ports.folder),
            FileLock(str(ports.folder / LOCK_NAME)),
            Rules(ignored_xids=settings.ignored_xids),
            KeeperOutlets(
                say=ports.say,
                on_change=self._relay.wake,
                on_links=ports.look_again,
                on_unsaved=self._saver.wake,
                on_lead=ports.resync,
                leads=ports.leads,
            ),
        )
        self._listener = HealthListener(
            ports.open_nvml, self._keeper.note, self._read_epoch, settings=ListenerSettings(holds_nvml=settings.holds_nvml)
        )

    def start(self) -> None:
        """Listen, from what the last process knew."""
        self._keeper.start()
        self._relay.start()
        self._saver.start()
        self._listener.start()

    def read(self) -> Health:
        """What is known now."""
        return self._keeper.read()

    def note_pass(self, seen: Pass) -> None:
        """A pass over the machine found GPUs lost, or NVML silent: then the listener's opening may be an old driver's.

        There is a pass, too, when an instance of the plugin came or ended: then this one may be the one that leads.
        """
        if seen.reading is None:
            self._listener.reopen()
        failures = () if seen.reading is None else seen.reading.failures
        now = read_now()
        lost = [each.pci for each in failures if each.is_lost and each.pci is not None]
        self._keeper.note([LostSeen(device=gpu_device_name(pci), at=now) for pci in lost])

    def stop(self) -> None:
        """What is known stays on disk."""
        self._listener.stop()
        self._relay.stop()
        self._saver.stop()
        self._keeper.close()

    def _save(self) -> bool:
        self._keeper.save()
        return True

    def _read_epoch(self) -> str:
        """Empty where it cannot be known: then nothing is taken for over."""
        try:
            epoch = read_epoch(self._roots, "")
        except DeviceNotReady:
            return ""
        return f"{epoch.boot_id} {epoch.load_marker}".strip()
