"""Sets of whole GPUs of one node: what is free, how large a claim could be now, what has to come free for a larger one.

Sets are bit masks of positions. Scopes are those of ``TopologyPolicy``, as if it were required.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

from driver.allocator.choices import split
from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.draws import pay, remaining_counters
from driver.allocator.tables import LinkTables, positions_of
from driver.api.topology_policy import Scope

SIZES = (16, 8, 4, 2, 1)
"""Sizes that people ask for, and that are counted."""
_MOST_SETS = 5000
"""So many sets of one group of GPUs are tried. Only GPUs that are linked in part need trying; eight of these have 70 fours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMasks:
    """A node's whole GPUs."""

    all: int
    healthy: int
    """Without a taint in the way, somebody's or not."""
    free: int
    """Those that are nobody's, wholly."""


def read_masks(node: DeviceNode, taken: Taken) -> GpuMasks:
    """The masks of a node, whoever allocates its devices."""
    lefts, blocked = remaining_counters(node.shape, taken)
    gone = taken.mask | blocked | sum(1 << at for at in taken.shares)
    healthy = node.whole & node.tolerated(())
    free = sum(1 << at for at in positions_of(healthy & ~gone) if pay(node.shape, lefts, at) is not None)
    return GpuMasks(all=node.whole, healthy=healthy, free=free)


def count_partitions(node: DeviceNode, taken: Taken) -> dict[str, int]:
    """For each MIG profile how many devices of it are free, each looked at alone: one may take the place of others."""
    lefts, blocked = remaining_counters(node.shape, taken)
    gone = taken.mask | blocked | node.whole
    counts: dict[str, int] = {}
    for at in positions_of(node.tolerated(()) & ~gone):
        profile = node.devices[at].attributes.get("profile")
        if profile is not None and profile.string and pay(node.shape, lefts, at) is not None:
            counts[profile.string] = counts.get(profile.string, 0) + 1
    return dict(sorted(counts.items()))


def count_sets(tables: LinkTables, free: int) -> dict[int, int]:
    """For each size how many of the machine's best sets the free GPUs hold at the same time."""
    return {size: tables.disjoint(free, size) for size in SIZES if size <= tables.size}


def list_groups(tables: LinkTables, mask: int, scope: Scope) -> list[int]:
    """The GPUs of a mask that have the scope in common, as far as that can be said without looking at rings."""
    if scope is Scope.NVLINK:
        return list(_components(tables, mask))
    if scope is Scope.NODE:
        return [mask] if mask else []
    return split([mask], tables.model.numas if scope is Scope.NUMA else tables.model.roots)


def find_largest(tables: LinkTables, free: int, scope: Scope) -> int:
    """The largest set of free GPUs that has the scope: what a claim could get now at most."""
    largest = 0
    for group in list_groups(tables, free, scope):
        for size in range(group.bit_count(), largest, -1):
            if next(_list_sets(tables, group, size, scope), 0):
                largest = size
                break
    return largest


def list_legal_sets(tables: LinkTables, healthy: int, size: int, scope: Scope) -> Iterator[int]:
    """Sets of this size with the scope, taken or not: a group of which every set will do comes once, whole."""
    for group in list_groups(tables, healthy, scope):
        if group.bit_count() >= size:
            yield from [group] if _will_all_do(tables, group, size, scope) else _list_sets(tables, group, size, scope)


def _will_all_do(tables: LinkTables, group: int, size: int, scope: Scope) -> bool:
    if scope is not Scope.NVLINK or size < 2:
        return True
    return all(group & ~(1 << at) & ~tables.model.nvlinked[at] == 0 for at in positions_of(group))


def _list_sets(tables: LinkTables, group: int, size: int, scope: Scope) -> Iterator[int]:
    """Sets of this size out of a group that have the scope, at most some thousand of them looked at."""
    if size and _will_all_do(tables, group, size, scope):
        yield _lowest(group, size)
        return
    tried = islice(combinations(positions_of(group), size), min(comb(group.bit_count(), size), _MOST_SETS))
    for members in tried:
        mask = sum(1 << at for at in members)
        if tables.is_nvlink_ring(mask):
            yield mask


def _lowest(mask: int, count: int) -> int:
    return sum(1 << at for at in islice(positions_of(mask), count))


def _components(tables: LinkTables, mask: int) -> Iterator[int]:
    """What NVLink holds together within a mask."""
    rest = mask
    while rest:
        component = edge = rest & -rest
        while edge:
            reached = _union(tables.model.nvlinked[at] for at in positions_of(edge)) & mask
            edge = reached & ~component
            component |= edge
        yield component
        rest &= ~component


def _union(masks: Iterable[int]) -> int:
    union = 0
    for each in masks:
        union |= each
    return union


def number_islands(values: tuple[int, ...], whole: int) -> dict[int, int]:
    """A number for each position of a whole GPU: that of its island, counted in order of the first GPU."""
    numbers: dict[int, int] = {}
    found: dict[int, int] = {}
    for at in positions_of(whole):
        key = values[at] if values[at] >= 0 else -1 - at
        found[at] = numbers.setdefault(key, len(numbers))
    return found
