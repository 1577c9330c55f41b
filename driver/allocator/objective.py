"""What is better: the order of preferences over placements on one node, as tuples of which the smaller is better.

In this order (``docs/allocation.md`` has the reasons): earlier alternatives of ``firstAvailable``; less loss of link class
against the best set of that size on that machine when empty, by weakest hop of the ring, then by sum; fewer ideal eights, then
fours, broken; the fuller node; fewer twos broken, fewer GPUs made unusable, less bandwidth lost to others; fewer NUMA nodes and
PCIe roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from driver.allocator.device_node import Shape
from driver.allocator.tables import positions_of
from driver.api.topology_policy import Mode, Policy, Scope

Loss = tuple[int, int, int]
"""NUMA nodes or PCIe roots too many, then parts of the weakest hop and of the sum that are lost."""

Score = tuple[object, ...]


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

    def damage(self, free: int, left: int) -> tuple[int, int, int]:
        """Ideal eights, fours and twos that ``free`` has and ``left`` has not."""
        return self._tables.damage(free, free & ~left)

    def links_lost(self, free: int, left: int) -> int:
        """The bandwidth that those who come later can no longer have: of all links to GPUs that are free no longer."""
        return self._tables.bandwidth(free) - self._tables.bandwidth(left)

    def span(self, mask: int) -> int:
        """NUMA nodes and PCIe roots that the set lies on."""
        whole = mask & self._tables.full
        return self._tables.numa_nodes(whole) + self._tables.pcie_roots(whole)

    def usable(self, taken: int, counters: Sequence[Fraction]) -> int:
        """The whole GPUs that an ordinary claim could have."""
        free = self._shape.healthy & ~taken
        if not self._shape.counters:
            return free
        return sum(1 << at for at in positions_of(free) if all(amount <= counters[c] for c, amount in self._shape.draws[at]))

    def _spanned(self, scope: Scope, mask: int) -> int:
        if scope is Scope.NUMA:
            return self._tables.numa_nodes(mask)
        return self._tables.pcie_roots(mask) if scope is Scope.PCIE else 1
