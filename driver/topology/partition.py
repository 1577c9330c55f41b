"""Which GPUs belong together: components, islands, quads and pairs, from the link matrix alone.

* A *component* is what NVLinks hold together in any number of hops.
* An *island* is a set in which every pair is linked. A component that is one (switches, bridges, a small direct mesh) is an
  island. One that is not (the cube mesh of a DGX-1) is cut into its best quads; of what is left over, the sets in which every
  pair is linked, then GPUs alone (R16).
* A *quad* is four GPUs of an island on a ring of NVLinks; a *pair* is two linked GPUs of one quad, or of what the island's
  quads leave over (R17). PCIe alone makes no set.

Quads come first and pairs are sought inside them, so that sets nest. Of all ways to cut, the best is taken as
``driver.topology.matching`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from driver.topology.matching import choose_disjoint_rings
from driver.topology.model import LinkMatrix

_Sets = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """For each position the lowest position of its set; its own position where it is in none."""

    components: tuple[int, ...]
    islands: tuple[int, ...]
    quads: tuple[int, ...]
    pairs: tuple[int, ...]


def build_partition(links: LinkMatrix, numa_nodes: Sequence[int | None]) -> Partition:
    """Cuts the GPUs into sets. ``numa_nodes`` has one entry a position and only breaks ties."""
    components = _find_components(links.nvlinks)
    islands: _Sets = []
    quads: _Sets = []
    pairs: _Sets = []
    for component in components:
        component_quads = choose_disjoint_rings(component, 4, links, numa_nodes)
        whole = _every_pair_is_linked(component, links.nvlinks)
        component_islands = [component] if whole else _cut_islands(component, component_quads, links, numa_nodes)
        in_quads = {position for quad in component_quads for position in quad}
        rests = [_without(island, in_quads) for island in component_islands]
        islands += component_islands
        quads += component_quads
        for members in [*component_quads, *rests]:
            pairs += choose_disjoint_rings(members, 2, links, numa_nodes)
    size = len(links.nvlinks)
    return Partition(
        components=_lowest_of_set(size, components),
        islands=_lowest_of_set(size, islands),
        quads=_lowest_of_set(size, quads),
        pairs=_lowest_of_set(size, pairs),
    )


def _find_components(nvlinks: tuple[tuple[int, ...], ...]) -> _Sets:
    unseen = set(range(len(nvlinks)))
    components: _Sets = []
    while unseen:
        found, edge = set[int](), {min(unseen)}
        while edge:
            found |= edge
            edge = {b for a in edge for b, count in enumerate(nvlinks[a]) if count and b not in found}
        unseen -= found
        components.append(tuple(sorted(found)))
    return components


def _cut_islands(component: tuple[int, ...], quads: _Sets, links: LinkMatrix, numa_nodes: Sequence[int | None]) -> _Sets:
    """The islands of a component in which not every pair is linked: its quads, then triples and pairs of the rest.

    The quads are as many as there can be, so the rest holds no four that are all linked.
    """
    islands = list(quads)
    for size in (3, 2):
        rest = _without(component, {position for island in islands for position in island})
        islands += choose_disjoint_rings(rest, size, links, numa_nodes)
    return islands


def _every_pair_is_linked(members: tuple[int, ...], nvlinks: tuple[tuple[int, ...], ...]) -> bool:
    return all(nvlinks[a][b] for a, b in combinations(members, 2))


def _without(members: tuple[int, ...], taken: set[int]) -> tuple[int, ...]:
    return tuple(position for position in members if position not in taken)


def _lowest_of_set(size: int, sets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    lowest = list(range(size))
    for members in sets:
        for position in members:
            lowest[position] = min(members)
    return tuple(lowest)
