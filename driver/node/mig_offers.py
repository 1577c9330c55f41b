"""What of each GPU is offered now: the setting, the hardware, the records of claims, and the API server, brought together.

A claim may begin or end while the machine is read. What the records say is therefore read after the machine, and an instance
that then seems to be nobody's, or a GPU in MIG mode for nobody, counts only once a second pass has seen it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from driver.api.resource_v1 import Device
from driver.claims.mig_upkeep import MigClaims
from driver.resourceslice.inventory import Inventory, read_mig_names
from driver.topology.mig import Footprint, OwnedInstance
from driver.topology.mig_offer import (
    GpuOffer,
    MigSetting,
    OfferInputs,
    build_offers,
    explain_not_dynamic,
    find_ownerless,
)
from driver.topology.model import Topology


class Counters(Protocol):
    """``counter_support.CounterSupport``."""

    def read(self) -> bool:
        """Whether the API server keeps shared counters. Raises ``ApiError``."""

    def recall(self) -> bool:
        """What it said last."""

    def note_lost(self) -> None:
        """It dropped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What one pass comes to."""

    offers: tuple[GpuOffer, ...]
    leftovers: tuple[Footprint, ...]
    """What instances take that are yet to be removed."""
    is_settled: bool = True
    """False where another pass must confirm what this one saw, or see what it could not."""


@dataclass(slots=True, kw_only=True)
class MigOffers:
    """Keeps what the last pass saw, for one thread."""

    setting: MigSetting
    counters: Counters
    read_claims: Callable[[], MigClaims]
    """Raises ``StateUnwritable``."""
    read_inventory: Callable[[], Inventory]
    _suspects: frozenset[str] | None = None
    """GPUs on which the last pass saw something of nobody's; None before the first, when no claim is under way."""
    _claims: MigClaims = field(default_factory=MigClaims)
    _owned: frozenset[OwnedInstance] = frozenset()
    """What is not taken for somebody else's. Beside what claims answer for now: of a GPU that could not be read, what they
    answered for when it could, since that may be gone by now."""
    _unconfirmed: frozenset[str] = frozenset()

    def note_pass(self, topology: Topology) -> Offered:
        """What a new pass over the machine comes to, without asking the API server: for preparing."""
        claims = self.read_claims()
        faults = {gpu.reading.uuid for gpu in topology.gpus if gpu.reading.mig is not None and gpu.reading.mig.fault}
        self._owned = claims.owned | {each for each in self._owned if each.gpu_uuid in faults}
        seen = find_ownerless(topology, self._owned)
        unconfirmed = seen - (seen if self._suspects is None else self._suspects)
        self._suspects = seen
        self._claims, self._unconfirmed = claims, unconfirmed
        return self._build(topology, has_counters=self.counters.recall(), is_settled=not unconfirmed and not faults)

    def build(self, topology: Topology) -> Offered:
        """The same for publishing.

        Raises:
            ApiError: whether the server keeps counters cannot be known now.
        """
        may_divide = self.setting in {MigSetting.AUTO, MigSetting.DYNAMIC}
        is_asked = may_divide and any(not explain_not_dynamic(gpu.reading) for gpu in topology.gpus)
        return self._build(topology, has_counters=is_asked and self.counters.read(), is_settled=True)

    def note_stored(self, asked: Sequence[Device], stored: Sequence[Device]) -> bool:
        """Whether the API server keeps what was published; False once it has dropped counters, and then it is not trusted."""
        kept = {device.name for device in stored if device.consumes_counters}
        is_kept = all(device.name in kept for device in asked if device.consumes_counters)
        if not is_kept:
            self.counters.note_lost()
        return is_kept

    def _build(self, topology: Topology, *, has_counters: bool, is_settled: bool) -> Offered:
        inputs = OfferInputs(
            setting=self.setting,
            has_counters=has_counters,
            owned=self._owned,
            unconfirmed=self._unconfirmed,
            names=read_mig_names(self.read_inventory()),
        )
        return Offered(offers=build_offers(topology, inputs), leftovers=self._claims.leftovers, is_settled=is_settled)
