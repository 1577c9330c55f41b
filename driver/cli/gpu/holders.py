"""Who has which devices, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.allocator.device_node import DeviceId, DeviceNode
from driver.api.resource_v1 import AllocationResult
from driver.controller.books.mirror import Cluster
from driver.controller.objects.life import parse_time_s
from driver.controller.objects.model import Claim
from driver.controller.objects.ownership import is_ours, is_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A claim with some of a node's devices."""

    claim: Claim
    positions: int
    """The devices of the node that are not free because of it: its own, and GPUs of which it has a part."""

    @property
    def name(self) -> str:
        """``namespace/name`` of the claim."""
        return self.claim.metadata.full_name

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods that it is reserved for, in the claim's namespace."""
        return tuple(sorted(each.name for each in self.claim.status.reserved_for if is_pod(each)))

    @property
    def since_s(self) -> float:
        """When it was allocated, in unix seconds; when it was made, where that is not told."""
        return allocated_at_s(self.claim)


class Holders:
    """The claims that hold something, by device."""

    def __init__(self, cluster: Cluster) -> None:
        self._of_device: dict[DeviceId, list[Claim]] = {}
        for claim in cluster.claims.values():
            for each in list_results(claim):
                self._of_device.setdefault(DeviceId(each.driver, each.pool, each.device), []).append(claim)

    def on(self, node: DeviceNode) -> tuple[Holder, ...]:
        """The claims that hold devices of the node, by name."""
        positions: dict[str, int] = {}
        claims: dict[str, Claim] = {}
        for at, id_ in enumerate(node.ids):
            for claim in self._of_device.get(id_, ()):
                uid = claim.metadata.uid
                claims[uid] = claim
                positions[uid] = positions.get(uid, 0) | _blocked_by(node, at)
        found = [Holder(claim=claims[uid], positions=mask) for uid, mask in positions.items()]
        return tuple(sorted(found, key=lambda each: each.name))

    def of(self, id_: DeviceId) -> tuple[Claim, ...]:
        """The claims that hold a device, by name; one that has it twice comes twice."""
        return tuple(sorted(self._of_device.get(id_, ()), key=lambda each: each.metadata.key))

    def used(self, node: DeviceNode) -> int:
        """The devices of the node that are somebody's, wholly or in part."""
        used = 0
        for each in self.on(node):
            used |= each.positions
        return used


def list_results(claim: Claim) -> Sequence[AllocationResult]:
    """The devices that nobody else can have because of the claim: admin access holds nothing."""
    results = () if claim.status.allocation is None else claim.status.allocation.devices.results
    return [each for each in results if not each.admin_access]


def allocated_at_s(claim: Claim) -> float:
    """When the claim was allocated, in unix seconds; when it was made, where that is not told."""
    allocation = claim.status.allocation
    stamp = None if allocation is None else allocation.allocation_timestamp
    return parse_time_s(stamp or claim.metadata.creation_timestamp)


def allocator_of(claim: Claim) -> str:
    """Who allocated it: ``controller`` or ``kube-scheduler``."""
    return "controller" if is_ours(claim) else "kube-scheduler"


def choose_fewest(holders: Sequence[Holder], among: int, need: int) -> tuple[Holder, ...]:
    """The fewest claims that have to end for ``need`` devices of a set to come free; those that hold most go first."""
    chosen: list[Holder] = []
    left = need
    ranked = sorted(holders, key=lambda each: (-(each.positions & among).bit_count(), each.since_s, each.name))
    for each in ranked:
        held = (each.positions & among).bit_count()
        if left <= 0 or not held:
            break
        chosen.append(each)
        left -= held
    return tuple(chosen)


def _blocked_by(node: DeviceNode, at: int) -> int:
    """The device itself, and the GPU that it is a part of: that is not whole while a part of it is somebody's."""
    group = node.shape.group_of[at]
    return 1 << at if group < 0 else 1 << at | node.shape.groups[group].whole_mask
