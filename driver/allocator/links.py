"""What slices tell of the links between the GPUs of a node.

A slice has no link matrix, so it is derived from attributes (docs/allocation.md says how sound that is):

* In an island every pair is linked: as well as the GPU with fewer links is. That is exact through switches; of a direct mesh it
  is too many for every pair alike, which changes no comparison within the machine.
* Between islands of one connected component (DGX-1) only a table can tell: the machine is known by its pattern of links,
  islands, quads and pairs. A component that is not known has no link between its islands: an unknown link is the worst.
* Below NVLink: one PCIe root, one NUMA node, or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from driver.api.resource_v1 import Attribute, Device
from driver.nvml.readings import PcieLevel

NVLINK_TENTHS_BY_CAPABILITY = {"6.0": 180, "7.0": 200, "8.0": 200, "8.6": 120, "9.0": 206, "10.0": 401, "10.3": 401}
"""NCCL's bandwidth of one NVLink by compute capability, in tenths of GB/s."""

_NVLINK_TENTHS = 200
PCIE_TENTHS = {
    PcieLevel.SAME_BOARD: 130,
    PcieLevel.PIX: 120,
    PcieLevel.PXB: 110,
    PcieLevel.PHB: 100,
    PcieLevel.NODE: 80,
    PcieLevel.SYS: 60,
    PcieLevel.UNKNOWN: 0,
}
_LEAST_NVLINK_TENTHS = 131

_CUBE_MESHES: dict[tuple[str, str, str, int], tuple[str, ...]] = {
    ("00004444", "00004444", "01104554", 6): (
        "01122000",
        "10210200",
        "12020010",
        "21200001",
        "20000112",
        "02001021",
        "00101202",
        "00012120",
    ),
    ("00004444", "00004444", "01014545", 4): (
        "01111000",
        "10110100",
        "11010010",
        "11100001",
        "10000111",
        "01001011",
        "00101101",
        "00011110",
    ),
}
"""DGX-1 with V100 and P100: NVLinks of each pair, by islands, quads, pairs (lowest position in the set), links a GPU."""


@dataclass(frozen=True, slots=True)
class LinkModel:
    """A node's GPUs by position: what a pair is worth (tenths of GB/s), what they share. Equal models are one machine."""

    values: tuple[tuple[int, ...], ...]
    nvlinked: tuple[int, ...]
    """For each position the mask of those it has an NVLink to."""
    roots: tuple[int, ...]
    """Equal for GPUs below one PCIe root; an unknown root is a value of its own."""
    numas: tuple[int, ...]
    """Equal for GPUs of one NUMA node; an unknown node is a value of its own."""


def build_link_model(devices: Sequence[Device], driver: str) -> LinkModel:
    """The model of whole GPUs that stand in order of PCI address, from their attributes."""
    facts = [_Facts(device.attributes, driver) for device in devices]
    counts = _count_links(facts)
    per_link = [NVLINK_TENTHS_BY_CAPABILITY.get(each.capability(), _NVLINK_TENTHS) for each in facts]
    numas = _classes([each.of("resource.kubernetes.io/numaNode") or each.of("numaNode") for each in facts])
    roots = _classes([each.of("resource.kubernetes.io/pcieRoot") or each.of("pcieRoot") for each in facts])
    below = [[_level(roots, numas, a, b) for b in range(len(facts))] for a in range(len(facts))]
    return _build(counts, below, per_link, (roots, numas))


def count_links(devices: Sequence[Device], driver: str) -> tuple[tuple[int, ...], ...]:
    """The NVLinks of each pair of whole GPUs that stand in order of PCI address, as far as their attributes tell."""
    return tuple(tuple(row) for row in _count_links([_Facts(device.attributes, driver) for device in devices]))


class _Facts:
    """One GPU's attributes by name, in the driver's own domain or qualified."""

    def __init__(self, attributes: dict[str, Attribute], driver: str) -> None:
        self._attributes = attributes
        self._prefix = f"{driver}/"

    def of(self, name: str) -> Attribute | None:
        """The attribute, None where the device has no such."""
        return self._attributes.get(name) or self._attributes.get(self._prefix + name)

    def number(self, name: str) -> int:
        """An int attribute, 0 where there is none."""
        found = self.of(name)
        return 0 if found is None or found.int_ is None else found.int_

    def capability(self) -> str:
        """``9.0`` of the version 9.0.0; empty where it is not told."""
        found = self.of("cudaComputeCapability")
        return "" if found is None or found.version is None else ".".join(found.version.split(".")[:2])


def _count_links(facts: Sequence[_Facts]) -> Sequence[Sequence[int]]:
    return _known_counts(facts) or _island_counts(facts)


def _known_counts(facts: Sequence[_Facts]) -> tuple[tuple[int, ...], ...] | None:
    """The link matrix of a machine of the table; None where the pattern is none of theirs."""
    links = {each.number("nvlinkLinks") for each in facts}
    if len(facts) != 8 or len(links) != 1 or len(set(_classes([each.of("nvlinkDomain") for each in facts]))) != 1:
        return None
    island, quad, pair = ("".join(map(str, _lowest(facts, name))) for name in ("nvlinkIsland", "nvlinkQuad", "nvlinkPair"))
    rows = _CUBE_MESHES.get((island, quad, pair, links.pop()))
    return None if rows is None else tuple(tuple(int(count) for count in row) for row in rows)


def _island_counts(facts: Sequence[_Facts]) -> list[list[int]]:
    islands = _classes([each.of("nvlinkIsland") for each in facts])
    links = [each.number("nvlinkLinks") for each in facts]
    counts = [[0] * len(facts) for _ in facts]
    for a, b in combinations(range(len(facts)), 2):
        if islands[a] == islands[b]:
            counts[a][b] = counts[b][a] = min(links[a], links[b])
    return counts


def _lowest(facts: Sequence[_Facts], name: str) -> list[int]:
    values = _classes([each.of(name) for each in facts])
    return [values.index(value) for value in values]


def _classes(values: Sequence[object | None]) -> tuple[int, ...]:
    """The same number for equal values, by first position; an absent value equals nothing."""
    seen: dict[object, int] = {}
    return tuple(position if value is None else seen.setdefault(value, position) for position, value in enumerate(values))


def _level(roots: Sequence[int], numas: Sequence[int], a: int, b: int) -> PcieLevel:
    if roots[a] == roots[b]:
        return PcieLevel.PHB
    return PcieLevel.NODE if numas[a] == numas[b] else PcieLevel.SYS


def _build(
    counts: Sequence[Sequence[int]],
    levels: Sequence[Sequence[PcieLevel]],
    per_link: Sequence[int],
    shared: tuple[tuple[int, ...], tuple[int, ...]],
) -> LinkModel:
    return _intern(
        tuple(
            tuple(
                0 if a == b else _worth(counts[a][b], levels[a][b], min(per_link[a], per_link[b])) for b in range(len(counts))
            )
            for a in range(len(counts))
        ),
        tuple(sum(1 << b for b, count in enumerate(row) if count and b != a) for a, row in enumerate(counts)),
        *shared,
    )


def _worth(links: int, level: PcieLevel, per_link: int) -> int:
    return max(_LEAST_NVLINK_TENTHS, links * per_link) if links else PCIE_TENTHS[level]


@lru_cache(maxsize=1024)
def _intern(
    values: tuple[tuple[int, ...], ...], nvlinked: tuple[int, ...], roots: tuple[int, ...], numas: tuple[int, ...]
) -> LinkModel:
    """One object for equal models, so that their tables are made once."""
    return LinkModel(values, nvlinked, roots, numas)
