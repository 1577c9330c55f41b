"""Islands, quads, pairs and components of known machines, and what holds for every machine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.nvml.readings import MachineReading, PcieLevel
from driver.topology.build import build_topology
from driver.topology.links import build_links
from driver.topology.matching import choose_disjoint_rings
from driver.topology.model import LinkMatrix
from driver.topology.partition import Partition, build_partition
from tests.unit.topology import machines

Sets = list[list[int]]


def sets_of(lowest: Iterable[int]) -> Sets:
    """The sets that "lowest position of my set" says, each in order, lowest first."""
    found: dict[int, list[int]] = {}
    for position, first in enumerate(lowest):
        found.setdefault(first, []).append(position)
    return sorted(found.values())


def partition_of(reading: MachineReading) -> Partition:
    return build_partition(build_links(reading.gpus, reading.pcie_levels), [gpu.numa_node for gpu in reading.gpus])


def alone(*positions: int) -> Sets:
    return [[position] for position in positions]


ALIGNED_QUADS_16 = [list(range(first, first + 4)) for first in range(0, 16, 4)]
ALIGNED_PAIRS_16 = [[first, first + 1] for first in range(0, 16, 2)]
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
MACHINES: dict[str, tuple[MachineReading, dict[str, Sets]]] = {
    "DGX-1 with P100": (
        machines.dgx_1p(),
        {"components": [list(range(8))], "islands": HALVES, "quads": HALVES, "pairs": [[0, 2], [1, 3], [4, 6], [5, 7]]},
    ),
    "DGX-1 with V100": (
        machines.dgx_1v(),
        {"components": [list(range(8))], "islands": HALVES, "quads": HALVES, "pairs": [[0, 3], [1, 2], [4, 7], [5, 6]]},
    ),
    "DGX-2": (
        machines.dgx_2(),
        {
            "components": [list(range(16))],
            "islands": [list(range(16))],
            "quads": ALIGNED_QUADS_16,
            "pairs": ALIGNED_PAIRS_16,
        },
    ),
    "HGX with 8": (
        machines.hgx_8(),
        {
            "components": [list(range(8))],
            "islands": [list(range(8))],
            "quads": HALVES,
            "pairs": [[0, 1], [2, 3], [4, 5], [6, 7]],
        },
    ),
    "HGX with one GPU whose links are all down": (
        machines.hgx_8(without_links=frozenset({2})),
        {
            "components": [[0, 1, 3, 4, 5, 6, 7], [2]],
            "islands": [[0, 1, 3, 4, 5, 6, 7], [2]],
            "quads": [*alone(0, 1, 2, 3), [4, 5, 6, 7]],
            "pairs": [[0, 1], *alone(2, 3), [4, 5], [6, 7]],
        },
    ),
    "HGX with all links down": (
        machines.hgx_8(without_links=frozenset(range(8))),
        {kind: alone(*range(8)) for kind in ("components", "islands", "quads", "pairs")},
    ),
    "one board of four": (
        machines.meshes_of_4(1),
        {"components": [[0, 1, 2, 3]], "islands": [[0, 1, 2, 3]], "quads": [[0, 1, 2, 3]], "pairs": [[0, 1], [2, 3]]},
    ),
    "two boards of four": (
        machines.meshes_of_4(2),
        {"components": HALVES, "islands": HALVES, "quads": HALVES, "pairs": [[0, 1], [2, 3], [4, 5], [6, 7]]},
    ),
    "bridges between slots that are no neighbours": (
        machines.bridged(),
        {
            "components": [[0, 2], [1, 3], [4, 5], [6, 7]],
            "islands": [[0, 2], [1, 3], [4, 5], [6, 7]],
            "quads": alone(*range(8)),
            "pairs": [[0, 2], [1, 3], [4, 5], [6, 7]],
        },
    ),
    "half bridged: PCIe is no pair": (
        machines.half_bridged(),
        {
            "components": [[0, 1], [2], [3]],
            "islands": [[0, 1], [2], [3]],
            "quads": alone(0, 1, 2, 3),
            "pairs": [[0, 1], [2], [3]],
        },
    ),
    "PCIe only": (machines.pcie_only(), {kind: alone(0, 1, 2, 3) for kind in ("components", "islands", "quads", "pairs")}),
    "one GPU": (
        machines.machine([machines.gpu(0)]),
        {kind: alone(0) for kind in ("components", "islands", "quads", "pairs")},
    ),
    "no GPU": (machines.machine([]), {kind: [] for kind in ("components", "islands", "quads", "pairs")}),
}


@pytest.mark.parametrize(("reading", "expected"), MACHINES.values(), ids=MACHINES.keys())
def test_a_known_machine_has_its_known_sets(reading: MachineReading, expected: dict[str, Sets]) -> None:
    found = partition_of(reading)
    assert {kind: sets_of(getattr(found, kind)) for kind in expected} == expected


def of_edges(size: int, edges: machines.Edges) -> Partition:
    return partition_of(machines.machine(machines.gpu(i, nvlinks=machines.direct_ports(i, edges)) for i in range(size)))


def test_a_ring_of_four_without_diagonals_is_cut_into_its_quad() -> None:
    """It is no set in which every pair is linked, but its best quad is all of it."""
    found = of_edges(4, {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1})
    assert (sets_of(found.islands), sets_of(found.quads)) == ([[0, 1, 2, 3]], [[0, 1, 2, 3]])


def test_a_star_is_no_island_beyond_one_pair() -> None:
    found = of_edges(4, {(0, 1): 1, (0, 2): 1, (0, 3): 1})
    assert sets_of(found.components) == [[0, 1, 2, 3]]
    assert sets_of(found.islands) == [[0, 1], [2], [3]]
    assert sets_of(found.quads) == alone(0, 1, 2, 3)
    assert sets_of(found.pairs) == [[0, 1], [2], [3]]


def test_what_the_quads_leave_over_makes_triangles_before_pairs() -> None:
    """A ring of four, a triangle hanging from it, and one more GPU at the end of a single link."""
    ring = {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1}
    found = of_edges(8, {**ring, (3, 4): 1, (4, 5): 1, (4, 6): 1, (5, 6): 1, (6, 7): 1})
    assert sets_of(found.islands) == [[0, 1, 2, 3], [4, 5, 6], [7]]
    assert sets_of(found.quads) == [[0, 1, 2, 3], *alone(4, 5, 6, 7)]
    assert sets_of(found.pairs) == [[0, 1], [2, 3], [4, 5], *alone(6, 7)]


def test_a_double_link_makes_the_pair_where_a_single_one_would_be_lower() -> None:
    found = of_edges(4, {**dict.fromkeys(combinations(range(4), 2), 1), (0, 3): 2, (1, 2): 2})
    assert sets_of(found.pairs) == [[0, 3], [1, 2]]


def matrix(size: int, edges: machines.Edges, levels: machines.Edges | None = None) -> LinkMatrix:
    near = levels or {}
    return LinkMatrix(
        nvlinks=tuple(tuple(edges.get((min(a, b), max(a, b)), 0) for b in range(size)) for a in range(size)),
        pcie=tuple(tuple(PcieLevel(near.get((min(a, b), max(a, b)), PcieLevel.SYS)) for b in range(size)) for a in range(size)),
    )


MESH = dict.fromkeys(combinations(range(4), 2), 1)
TIES: dict[str, tuple[LinkMatrix, list[int | None], list[tuple[int, ...]]]] = {
    "PCIe level first": (matrix(4, MESH, {(0, 2): 10, (1, 3): 10}), [0, 0, 1, 1], [(0, 2), (1, 3)]),
    "then NUMA": (matrix(4, MESH), [0, 1, 1, 0], [(0, 3), (1, 2)]),
    "then the lowest address": (matrix(4, MESH), [None] * 4, [(0, 1), (2, 3)]),
    "an unknown NUMA node is near to nothing": (matrix(4, MESH), [None, 0, None, 0], [(0, 2), (1, 3)]),
    "links before PCIe": (matrix(4, {**MESH, (0, 1): 2, (2, 3): 2}, {(0, 2): 0, (1, 3): 0}), [0] * 4, [(0, 1), (2, 3)]),
}


@pytest.mark.parametrize(("links", "numa_nodes", "pairs"), TIES.values(), ids=TIES.keys())
def test_ties_are_broken_in_a_fixed_order(
    links: LinkMatrix, numa_nodes: list[int | None], pairs: list[tuple[int, ...]]
) -> None:
    assert choose_disjoint_rings((0, 1, 2, 3), 2, links, numa_nodes) == pairs


def test_more_sets_come_before_better_ones() -> None:
    """In a path 0-1-2-3 the fat middle link would leave both ends alone."""
    links = matrix(4, {(0, 1): 1, (1, 2): 4, (2, 3): 1})
    assert choose_disjoint_rings((0, 1, 2, 3), 2, links, [None] * 4) == [(0, 1), (2, 3)]


def _ring(members: tuple[int, ...], links: LinkMatrix) -> tuple[int, int]:
    rings = ((members[0], *rest) for rest in permutations(members[1:]))
    hops = ([links.nvlinks[a][b] for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)] for ring in rings)
    return max((min(ring), sum(ring)) for ring in hops)


def _all_choices(members: tuple[int, ...], size: int, links: LinkMatrix) -> Iterable[list[tuple[int, ...]]]:
    yield []
    for chosen in combinations(members, size):
        if _ring(chosen, links)[0]:
            after = tuple(position for position in members if position > chosen[0] and position not in chosen)
            yield from ([chosen, *rest] for rest in _all_choices(after, size, links))


@st.composite
def matrices(draw: st.DrawFn, largest: int = 8) -> LinkMatrix:
    size = draw(st.integers(2, largest))
    edges = {pair: draw(st.sampled_from([0, 0, 1, 1, 2])) for pair in combinations(range(size), 2)}
    levels = {pair: draw(st.sampled_from([10, 50, 60])) for pair in combinations(range(size), 2)}
    return matrix(size, edges, levels)


@given(matrices(), st.sampled_from([2, 3, 4]))
@settings(max_examples=60, deadline=None)
def test_no_other_choice_is_better(links: LinkMatrix, size: int) -> None:
    """Compared with every choice there is."""
    members = tuple(range(len(links.nvlinks)))

    def value(sets: list[tuple[int, ...]]) -> tuple[int, int, int, int]:
        rings = [_ring(chosen, links) for chosen in sets]
        distance = sum(links.pcie[a][b] for chosen in sets for a, b in combinations(chosen, 2))
        return len(sets), sum(low for low, _ in rings), sum(total for _, total in rings), -distance

    numa_nodes: list[int | None] = [0] * len(members)
    found = choose_disjoint_rings(members, size, links, numa_nodes)
    assert value(found) == max(value(choice) for choice in _all_choices(members, size, links))


@given(matrices(largest=12))
@settings(max_examples=60, deadline=None)
def test_sets_of_any_machine_nest_and_are_what_they_are_called(links: LinkMatrix) -> None:
    size = len(links.nvlinks)
    found = build_partition(links, [None] * size)
    for lowest in (found.components, found.islands, found.quads, found.pairs):
        assert all(members[0] == lowest[position] for members in sets_of(lowest) for position in members)
    quads = [members for members in sets_of(found.quads) if len(members) > 1]
    pairs = [members for members in sets_of(found.pairs) if len(members) > 1]
    assert all(len(quad) == 4 and _ring(tuple(quad), links)[0] for quad in quads)
    assert all(len(pair) == 2 and links.nvlinks[pair[0]][pair[1]] for pair in pairs)
    for members in sets_of(found.islands):
        assert members in quads or all(links.nvlinks[a][b] for a, b in combinations(members, 2))
    assert all(len({found.islands[position] for position in members}) == 1 for members in (*quads, *pairs))
    assert all(len({found.components[position] for position in members}) == 1 for members in sets_of(found.islands))
    assert all(
        len({found.quads[position] for position in pair}) == 1 or not set(pair) & {p for q in quads for p in q}
        for pair in pairs
    )


@pytest.mark.parametrize("name", ["dgx_1p", "dgx_1v", "dgx_2", "hgx_8", "bridged", "half_bridged"])
@given(shuffle=st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_the_order_in_which_nvml_lists_gpus_changes_nothing(name: str, shuffle: object) -> None:
    reading: MachineReading = getattr(machines, name)()
    mixed = list(reading.gpus)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis' random
    assert build_topology(machines.machine(mixed, reading.pcie_levels)).gpus == build_topology(reading).gpus


def degraded_dgx_2() -> MachineReading:
    """16 GPUs of which hardly two have the same links left."""
    whole = machines.dgx_2()
    ports = [machines.switch_ports(6, down=position % 7) for position in range(16)]
    gpus = [machines.gpu(position, nvlinks=ports[position], numa_node=position // 8) for position in range(16)]
    return machines.machine(gpus, whole.pcie_levels)


@pytest.mark.parametrize("reading", [machines.dgx_2(), degraded_dgx_2()], ids=["whole", "degraded"])
def test_sixteen_gpus_take_no_search_to_speak_of(reading: MachineReading) -> None:
    """Partition by enumeration takes seconds here (device-plugin #774); the margin is for a busy machine."""
    start = time.monotonic()
    build_topology(reading)
    assert time.monotonic() - start < 2


def test_a_degraded_board_groups_gpus_of_like_strength() -> None:
    """A quad is as weak as its weakest GPU, so the sum of bottlenecks is largest when like stands with like."""
    reading = degraded_dgx_2()
    links = build_links(reading.gpus, reading.pcie_levels)
    strengths = sorted((6 - position % 7 for position in range(16)), reverse=True)
    quads = [members for members in sets_of(partition_of(reading).quads) if len(members) == 4]
    assert sum(_ring(tuple(quad), links)[0] for quad in quads) == sum(strengths[3::4])


@pytest.mark.parametrize("size", [16, 64])
def test_a_machine_made_to_be_slow_is_still_answered(size: int) -> None:
    """Different links for each pair, so that no bound closes the search; 64 GPUs are more than any machine has."""
    edges = {(a, b): 1 + (a * 7 + b * 13 + a * b) % 17 for a, b in combinations(range(size), 2)}
    start = time.monotonic()
    found = build_partition(matrix(size, edges), [None] * size)
    assert len(sets_of(found.quads)) == size // 4
    assert time.monotonic() - start < 20
