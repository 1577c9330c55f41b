"""What the node has now, kept in memory for everybody who asks: prepares, health streams, probes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from driver.api.resource_v1 import Attribute, Device
from driver.claims.effects import Catalog
from driver.host.epoch import read_epoch
from driver.host.roots import Roots
from driver.names import DeviceName
from driver.topology.mig import NodeDevice
from driver.topology.mig_offer import GpuOffer
from driver.topology.model import Gpu, Topology

FIRST_PASS_S = 5.0
"""How long a prepare right after the start waits for the first pass: less than the kubelet's pause before it asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last pass that NVML answered, and the devices made of it."""

    unread: str = "the first pass is not done"
    driver_version: str = ""
    devices: Mapping[DeviceName, NodeDevice] = field(default_factory=dict)
    attributes: Mapping[DeviceName, Mapping[str, Attribute]] = field(default_factory=dict)
    divided: frozenset[DeviceName] = frozenset()
    cards: Mapping[DeviceName, Gpu] = field(default_factory=dict)


class NodeState:
    """The ``DeviceCatalog`` that claims are prepared from."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._changed = threading.Condition()
        self._has_passed = False
        self._seen = Seen()

    def note(self, topology: Topology, offers: Sequence[GpuOffer], devices: tuple[Device, ...]) -> None:
        """Take over a new pass; ``devices`` are those that may be prepared, of what is offered."""
        published = {DeviceName(device.name): device.attributes for device in devices}
        offered: dict[DeviceName, NodeDevice] = {offer.gpu.name: offer.gpu for offer in offers}
        offered |= {each.name: each for offer in offers for each in offer.partitions}
        seen = Seen(
            unread="",
            driver_version=topology.driver_version,
            devices={name: offered[name] for name in published if name in offered},
            attributes=published,
            divided=frozenset(offer.gpu.name for offer in offers if offer.is_dynamic),
            cards={gpu.name: gpu for gpu in topology.gpus},
        )
        self._take(seen)

    def note_silence(self, reason: str) -> None:
        """NVML did not answer a pass: what was seen before still holds."""
        with self._changed:
            self._take(replace(self._seen, unread=reason) if self._seen.unread else self._seen)

    def read(self) -> Catalog:
        """The devices of the last pass, and the epoch as it is at this moment.

        Raises:
            DeviceNotReady: the boot id cannot be read.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_passed, FIRST_PASS_S)
            seen = self._seen
        epoch = read_epoch(self._roots, seen.driver_version)
        return Catalog(
            devices=seen.devices,
            epoch=epoch,
            attributes=seen.attributes,
            unread=seen.unread,
            divided=seen.divided,
            cards=seen.cards,
        )

    def seen(self) -> Seen:
        """The last pass, without waiting for one."""
        with self._changed:
            return self._seen

    def _take(self, seen: Seen) -> None:
        with self._changed:
            self._seen = seen
            self._has_passed = True
            self._changed.notify_all()
