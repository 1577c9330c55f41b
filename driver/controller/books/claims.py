"""Claims, what they hold of the fleet, and what was decided for them but is not yet seen in the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.result import build_holding
from driver.api.resource_v1 import AllocationResult
from driver.controller.objects.model import Claim, NodeSelector
from driver.kube.changes import Change, ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a claim was given, and where."""

    holdings: tuple[Holding, ...]
    node: str


class ClaimBook:
    """Claims by uid. What any of them holds of this driver's devices, whoever allocated it, is held in the fleet."""

    def __init__(self, driver: str, fleet: Fleet) -> None:
        self._driver = driver
        self._fleet = fleet
        self._claims: dict[str, Claim] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._held: dict[str, tuple[Holding, ...]] = {}
        self._reserved: dict[str, Reservation] = {}
        self._written: dict[str, int] = {}
        self.by_uid: Mapping[str, Claim] = MappingProxyType(self._claims)
        self.reserved: Mapping[str, Reservation] = MappingProxyType(self._reserved)
        """By the claim's uid."""

    def find(self, namespace: str, name: str) -> Claim | None:
        """The claim of this name."""
        uid = self._uids.get((namespace, name))
        return None if uid is None else self._claims[uid]

    def is_open(self, claim: Claim) -> bool:
        """Neither allocated nor about to be."""
        return claim.status.allocation is None and claim.metadata.uid not in self._reserved

    def node_of(self, claim: Claim) -> str | None:
        """The one node that the claim is tied to, by its reservation or its allocation; None where there is a choice."""
        reservation = self._reserved.get(claim.metadata.uid)
        if reservation is not None:
            return reservation.node
        allocation = claim.status.allocation
        selector = None if allocation is None else allocation.node_selector
        return None if selector is None else find_only_node(selector)

    def note(self, change: Change[Claim]) -> frozenset[str]:
        """A claim came, changed or went. The nodes of which more or less is held now."""
        claim = change.item
        uid = claim.metadata.uid
        if change.kind is ChangeKind.DELETED:
            return self._forget(claim)
        if uid in self._written:
            if _version(claim) < self._written[uid]:
                return frozenset()
            del self._written[uid]
        self._claims[uid] = claim
        self._uids[claim.metadata.key] = uid
        if claim.status.allocation is None and uid in self._reserved:
            return frozenset()
        return self._hold(uid, self._list_holdings(claim))

    def note_written(self, claim: Claim) -> frozenset[str]:
        """The answer to a write of ours. What the watch tells later of older states must not free what is now held."""
        uid = claim.metadata.uid
        known = self._claims.get(uid)
        if known is None or _version(known) >= _version(claim):
            return frozenset()
        changed = self.note(Change(kind=ChangeKind.MODIFIED, item=claim))
        self._written[uid] = _version(claim)
        return changed

    def reserve(self, uid: str, reservation: Reservation) -> frozenset[str]:
        """Hold this for a claim until it is seen to be allocated, is deleted, or the reservation is cancelled."""
        self._reserved[uid] = reservation
        return self._hold(uid, reservation.holdings, is_reserved=True)

    def cancel(self, uid: str) -> frozenset[str]:
        """The claim does not get what was reserved for it."""
        if self._reserved.pop(uid, None) is None:
            return frozenset()
        claim = self._claims.get(uid)
        return self._hold(uid, () if claim is None else self._list_holdings(claim))

    def _forget(self, claim: Claim) -> frozenset[str]:
        uid = claim.metadata.uid
        self._claims.pop(uid, None)
        self._written.pop(uid, None)
        self._reserved.pop(uid, None)
        if self._uids.get(claim.metadata.key) == uid:
            del self._uids[claim.metadata.key]
        return self._hold(uid, ())

    def _hold(self, uid: str, holdings: tuple[Holding, ...], *, is_reserved: bool = False) -> frozenset[str]:
        """The claim holds these now. The new is taken before the old is given back, so that nothing is free in between."""
        before = self._held.pop(uid, ())
        if not is_reserved:
            self._reserved.pop(uid, None)
        if holdings:
            self._held[uid] = holdings
        if holdings == before:
            return frozenset()
        self._fleet.hold(holdings)
        self._fleet.release(before)
        return self._nodes((*before, *holdings))

    def _nodes(self, holdings: Sequence[Holding]) -> frozenset[str]:
        nodes = {self._fleet.node_of(each.device) for each in holdings}
        return frozenset(node for node in nodes if node is not None)

    def _list_holdings(self, claim: Claim) -> tuple[Holding, ...]:
        allocation = claim.status.allocation
        results: Iterable[AllocationResult] = () if allocation is None else allocation.devices.results
        return tuple(_build(each) for each in results if each.driver == self._driver and not each.admin_access)


def find_only_node(selector: NodeSelector) -> str | None:
    """The node of a selector that names exactly one, as allocations have it."""
    if len(selector.node_selector_terms) != 1:
        return None
    term = selector.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return None
    field = term.match_fields[0]
    is_name = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_name else None


def _build(result: AllocationResult) -> Holding:
    """A share of an amount that cannot be read takes the whole device: nobody must get what may be somebody's."""
    try:
        return build_holding(result)
    except ValueError:
        return Holding(device=DeviceId(result.driver, result.pool, result.device))


def _version(claim: Claim) -> int:
    """Versions of one object grow (Kubernetes 1.35 says so; they always did). One that is no number is the newest."""
    text = claim.metadata.resource_version
    return int(text) if text.isdecimal() else 1 << 64
