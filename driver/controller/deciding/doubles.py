"""A device in two claims: what a lease cannot rule out (R28), found as soon as both are seen.

Only devices of our driver are looked at. Admin access takes nothing; a shared device may be in many claims under different
share ids, but is in two if one of them has it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from driver.allocator.device_node import DeviceId
from driver.controller.objects.life import parse_time_s
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import is_guard, is_ours, is_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """A device that several claims have; ``uids`` in order."""

    device: DeviceId
    uids: tuple[str, ...]


class DoubleWatch:
    """Who has which device. A change costs as much as the claim has devices."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._holders: dict[DeviceId, dict[str, frozenset[str]]] = {}
        self._devices_of: dict[str, frozenset[DeviceId]] = {}
        self._doubles: dict[DeviceId, Double] = {}

    def note(self, claim: Claim) -> None:
        """A claim as it is now."""
        shares: dict[DeviceId, set[str]] = {}
        for each in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            if each.driver == self._driver and not each.admin_access:
                shares.setdefault(DeviceId(each.driver, each.pool, each.device), set()).add(each.share_id or "")
        self._replace(claim.metadata.uid, {device: frozenset(ids) for device, ids in shares.items()})

    def forget(self, uid: str) -> None:
        """The claim is gone."""
        self._replace(uid, {})

    def doubles(self) -> tuple[Double, ...]:
        """All that there are now."""
        return tuple(self._doubles.values())

    def _replace(self, uid: str, shares: Mapping[DeviceId, frozenset[str]]) -> None:
        before = self._devices_of.pop(uid, frozenset())
        for device in before - shares.keys():
            holders = self._holders[device]
            del holders[uid]
            if not holders:
                del self._holders[device]
            self._judge(device)
        for device, ids in shares.items():
            self._holders.setdefault(device, {})[uid] = ids
            self._judge(device)
        if shares:
            self._devices_of[uid] = frozenset(shares)

    def _judge(self, device: DeviceId) -> None:
        holders = self._holders.get(device, {})
        if len(holders) > 1 and _clash(holders.values()):
            self._doubles[device] = Double(device=device, uids=tuple(sorted(holders)))
        else:
            self._doubles.pop(device, None)


def choose_loser(claims: Iterable[Claim], pods: Mapping[str, Pod]) -> Claim | None:
    """Whose allocation is taken back: the youngest of ours that no bound pod uses. None where there is no such."""
    ours = [each for each in claims if is_ours(each) and not _is_bound(each, pods)]
    return max(ours, key=_age_key, default=None)


def _age_key(claim: Claim) -> tuple[float, float, str]:
    allocation = claim.status.allocation
    allocated_s = parse_time_s(allocation.allocation_timestamp) if allocation is not None else 0.0
    return allocated_s, parse_time_s(claim.metadata.creation_timestamp), claim.metadata.uid


def _is_bound(claim: Claim, pods: Mapping[str, Pod]) -> bool:
    """Whether a pod runs with it, or something that is no pod keeps it. A pod that is not known is read by the writer."""
    for each in claim.status.reserved_for:
        if is_guard(each):
            continue
        pod = pods.get(each.uid)
        if not is_pod(each) or (pod is not None and pod.spec.node_name):
            return True
    return False


def _clash(holders: Iterable[frozenset[str]]) -> bool:
    """Whether two claims have the same device: the same share of it, or one of them all of it."""
    seen: set[str] = set()
    for ids in holders:
        if ids & seen or (seen and ("" in ids or "" in seen)):
            return True
        seen |= ids
    return False
