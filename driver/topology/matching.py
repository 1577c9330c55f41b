"""The best way to take disjoint sets of one size, each on a ring of NVLinks, out of some GPUs.

"Best" compares sums over the chosen sets; the first that differs decides: more sets; wider ring bottlenecks; wider rings;
nearer on PCIe; fewer NUMA nodes. What is still equal goes to the lowest addresses, so the answer never changes by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from driver.nvml.readings import PcieLevel
from driver.topology.model import LinkMatrix

_RINGS_BY_PAIRS = {1: ((0,),), 3: ((0, 1, 2),), 6: ((0, 3, 5, 2), (0, 4, 5, 1), (1, 3, 4, 2))}
"""All rings through a set, as its pairs that are their hops; by how many pairs the set has, in ``combinations``' order."""

_MOST_MEMBERS = 16
"""No machine has more GPUs; beyond it the members are cut into runs by address, so that no input makes this slow."""

_MOST_STEPS = 20_000
"""A search that has not proved its best by then answers the best it found. No known machine comes near it."""

_FIELD_BITS = 32
"""Room for each part of a merit, so that a sum over all sets never carries into the next part."""


def choose_disjoint_rings(
    members: tuple[int, ...], size: int, links: LinkMatrix, numa_nodes: Sequence[int | None]
) -> list[tuple[int, ...]]:
    """Disjoint sets of ``size`` (2, 3 or 4) out of ``members`` (positions in order), lowest set first: the best, as above."""
    chosen: list[tuple[int, ...]] = []
    for start in range(0, len(members), _MOST_MEMBERS):
        merits = {}
        for candidate in combinations(members[start : start + _MOST_MEMBERS], size):
            merit = _ring_merit(candidate, links, numa_nodes)
            if merit is not None:
                merits[candidate] = merit
        chosen += _Search(merits, size).best()
    return sorted(chosen)


def _ring_merit(candidate: tuple[int, ...], links: LinkMatrix, numa_nodes: Sequence[int | None]) -> int | None:
    """One number that orders as the module's text says and adds up part by part; None where no ring is all NVLink."""
    pairs = list(combinations(candidate, 2))
    bottleneck, total = _best_ring(tuple([links.nvlinks[a][b] for a, b in pairs]))
    if bottleneck == 0:
        return None
    parts = (
        1,
        bottleneck,
        total,
        PcieLevel.UNKNOWN * len(pairs) - sum([links.pcie[a][b] for a, b in pairs]),
        len(candidate) - _count_numa_nodes([numa_nodes[position] for position in candidate]),
    )
    merit = 0
    for part in parts:
        merit = (merit << _FIELD_BITS) + part
    return merit


@lru_cache(maxsize=4096)
def _best_ring(pair_links: tuple[int, ...]) -> tuple[int, int]:
    """The fewest links of a hop, and the links of all hops, of the best ring. Most sets of a machine have the same links."""
    rings = ([pair_links[pair] for pair in ring] for ring in _RINGS_BY_PAIRS[len(pair_links)])
    return max((min(hops), sum(hops)) for hops in rings)


def _count_numa_nodes(nodes: list[int | None]) -> int:
    """Distinct nodes; each unknown one counts, because unknown is never near."""
    unknown = nodes.count(None)
    return len(set(nodes)) - (unknown > 0) + unknown


class _Search:
    """Branch and bound over sets, the lowest position first. Sets of positions are bit masks.

    A position's worth is the merit of the best set that it can be in, so no set is worth more than the least of its members.
    """

    def __init__(self, merits: dict[tuple[int, ...], int], size: int) -> None:
        self._size = size
        self._by_lowest: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
        self._worth: dict[int, int] = {}
        for candidate, merit in sorted(merits.items(), key=lambda item: (-item[1], item[0])):
            mask = sum(1 << position for position in candidate)
            self._by_lowest.setdefault(1 << candidate[0], []).append((mask, merit, candidate))
            for position in candidate:
                self._worth.setdefault(1 << position, merit)
        self._bounds: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._best_merit = 0
        self._best: list[tuple[int, ...]] = []
        self._steps = 0

    def best(self) -> list[tuple[int, ...]]:
        """Runs the search."""
        self._extend(sum(self._worth), [], 0)
        return self._best

    def _extend(self, rest: int, chosen: list[tuple[int, ...]], merit: int) -> None:
        if merit > self._best_merit:
            self._best_merit, self._best = merit, chosen
        self._steps += 1
        if self._steps > _MOST_STEPS or merit + self._bound(rest) <= self._best_merit or self._reached.get(rest, -1) >= merit:
            return
        self._reached[rest] = merit
        lowest = rest & -rest
        for mask, gain, candidate in self._by_lowest.get(lowest, ()):
            if mask & rest == mask and merit + gain + self._bound(rest ^ mask) > self._best_merit:
                self._extend(rest ^ mask, [*chosen, candidate], merit + gain)
        self._extend(rest ^ lowest, chosen, merit)

    def _bound(self, rest: int) -> int:
        """The most that sets out of ``rest`` can be worth together; 0 when it holds no whole set.

        Of the sets in falling order of worth, the n-th has n times ``size`` members that are all worth at least as much.
        """
        known = self._bounds.get(rest)
        if known is None:
            # Positions stand in falling order of worth: they were met with their best set first.
            worths = [worth for position, worth in self._worth.items() if position & rest]
            known = self._bounds[rest] = sum(worths[self._size - 1 :: self._size])
        return known
