"""What is better: the order of preferences over placements on one node, as tuples of which the smaller is better.

In this order (``docs/allocation.md`` has the reasons): earlier alternatives of ``firstAvailable``; less loss of link class
against the best set of that size on that machine when empty, by weakest hop of the ring, then by sum; fewer ideal eights, then
fours, broken; fewer GPUs made unusable; fewer large, then small partitions that can no longer be had; the fuller node; fewer
twos broken, less bandwidth lost to others; fewer NUMA nodes and PCIe roots; the fuller GPU.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import zip_longest
from typing import NamedTuple

from driver.allocator.device_node import Shape
from driver.allocator.draws import free_gpus
from driver.allocator.partitions import PARTS, Lefts, Wealth
from driver.allocator.tables import Damage, positions_of
from driver.api.topology_policy import Mode, Policy, Scope

Loss = tuple[int, int, int]
"""NUMA nodes or PCIe roots too many, then parts of the weakest hop and of the sum that are lost."""

Score = tuple[object, ...]


class Room(NamedTuple):
    """What a node has left to give."""

    free: int
    """Whole GPUs that an ordinary claim could have."""
    gone: int
    """Devices that are somebody's."""
    lefts: Lefts


class Harm(NamedTuple):
    """What a choice costs those who come later."""

    damage: Damage
    """Ideal eights, fours and twos that are no longer there."""
    unusable: int
    """Whole GPUs that are no longer free."""
    drawn: int
    """Of whole GPUs and of counters, in thousandths: a part of a GPU does where either would."""
    partitions: Wealth
    """On the GPUs that are cut: how many partitions of each kind can no longer be had, the largest kind first."""
    links: int
    """Bandwidth of all links to GPUs that are free no longer."""
    rest: int
    """What is left of the GPUs that are cut: the less, the fuller they are."""


class Objective:
    """Judges sets on nodes of one shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._tables = shape.tables

    def is_met(self, policy: Policy, mask: int) -> bool:
        """True when the set has what a policy requires."""
        if policy.mode is not Mode.REQUIRED or policy.scope is Scope.NODE or mask.bit_count() < 2:
            return True
        if mask & ~self._tables.full:
            return False
        if policy.scope is Scope.NVLINK:
            return self._tables.is_nvlink_ring(mask)
        return self._spanned(policy.scope, mask) == 1

    def loss(self, policy: Policy, mask: int) -> Loss:
        """How far the set is from what the policy would like best."""
        whole = mask & self._tables.full
        if policy.scope is Scope.NODE or whole.bit_count() < 2:
            return 0, 0, 0
        return max(0, self._spanned(policy.scope, whole) - 1), *self._tables.loss(whole)

    def ring_loss(self, mask: int) -> tuple[int, int]:
        """The loss of all claims' GPUs as one set."""
        whole = mask & self._tables.full
        return self._tables.loss(whole) if whole.bit_count() > 1 else (0, 0)

    def room(self, gone: int, lefts: Lefts) -> Room:
        """What is left with these devices gone."""
        return Room(free_gpus(self._shape, gone, lefts), gone, lefts)

    def take(self, room: Room, mask: int, in_use: Container[int]) -> Room:
        """What is left with the set taken as well. Shared devices that are in use draw nothing more."""
        shape, lefts = self._shape, list(room.lefts)
        free = room.free & ~mask
        for at in positions_of(mask) if lefts else ():
            number = shape.group_of[at]
            if number < 0 or at in in_use:
                continue
            group = shape.groups[number]
            left = group.tables.pay(lefts[number], group.local_of(at))
            if left is not None:
                lefts[number] = left
                free &= ~group.whole_mask | group.spread(group.tables.affordable(left))
        return Room(free, room.gone | mask, tuple(lefts))

    def harm(self, before: Room, after: Room) -> Harm:
        """What is lost between the two."""
        left = before.free & after.free
        cut = [
            (group, old, new)
            for group, old, new in zip(self._shape.groups, before.lefts, after.lefts, strict=True)
            if old != new and not group.whole_mask & after.gone & ~before.gone
        ]
        lost: Wealth = ()
        for group, old, new in cut:
            had = group.tables.wealth(old, group.local(before.gone))
            has = group.tables.wealth(new, group.local(after.gone))
            more = [one - other for one, other in zip(had, has, strict=True)]
            lost = tuple([one + other for one, other in zip_longest(lost, more, fillvalue=0)])
        return Harm(
            damage=self._tables.damage(before.free, before.free & ~left),
            unusable=(before.free & ~left).bit_count(),
            drawn=sum(self._share(at) for at in positions_of(after.gone & ~before.gone)),
            partitions=lost,
            links=self._tables.bandwidth(before.free) - self._tables.bandwidth(left),
            rest=sum(group.tables.share_of(new) for group, _, new in cut),
        )

    def span(self, mask: int) -> int:
        """NUMA nodes and PCIe roots that the set lies on."""
        whole = mask & self._tables.full
        return self._tables.numa_nodes(whole) + self._tables.pcie_roots(whole)

    def _share(self, at: int) -> int:
        number = self._shape.group_of[at]
        if number < 0:
            return PARTS
        group = self._shape.groups[number]
        return group.tables.shares[group.local_of(at)]

    def _spanned(self, scope: Scope, mask: int) -> int:
        if scope is Scope.NUMA:
            return self._tables.numa_nodes(mask)
        return self._tables.pcie_roots(mask) if scope is Scope.PCIE else 1
