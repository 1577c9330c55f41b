"""How many GPUs are free, taken and unwell, and how large the largest free island is: the figures behind the gauges."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.fleet import Fleet
from driver.allocator.tables import positions_of

ISLAND = "nvlinkIsland"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Whole GPUs, but for ``devices``. The first three are of fenced GPUs, and each GPU counts once."""

    free: int = 0
    allocated: int = 0
    """Wholly, in part, or shared."""
    unavailable: int = 0
    """Nobody's, and tainted."""
    unfenced: int = 0
    """kube-scheduler's, or between the two."""
    devices: int = 0
    """Fenced devices of every kind that some claim has."""
    largest_free_island: int = 0
    """The most free GPUs that have an island in common."""
    nodes: int = 0
    """Nodes with a fenced device."""

    def __add__(self, other: Occupancy) -> Occupancy:
        """Of both."""
        return Occupancy(
            free=self.free + other.free,
            allocated=self.allocated + other.allocated,
            unavailable=self.unavailable + other.unavailable,
            unfenced=self.unfenced + other.unfenced,
            devices=self.devices + other.devices,
            largest_free_island=max(self.largest_free_island, other.largest_free_island),
            nodes=self.nodes + other.nodes,
        )


class OccupancyCounter:
    """Counts a fleet again and again; only nodes that changed are looked at. One owner, the fleet's."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[DeviceNode, tuple[object, ...], Occupancy]] = {}

    def count(self, fleet: Fleet) -> Occupancy:
        """The fleet as it is."""
        for name in self._known.keys() - fleet.nodes.keys():
            del self._known[name]
        total = Occupancy()
        for name, node in fleet.nodes.items():
            taken = fleet.taken(name)
            key = taken.key()
            known = self._known.get(name)
            if known is None or known[0] is not node or known[1] != key:
                known = self._known[name] = (node, key, count_node(node, taken))
            total += known[2]
        return total


def count_node(node: DeviceNode, taken: Taken) -> Occupancy:
    """One node."""
    held = taken.mask | sum(1 << position for position in taken.shares)
    fenced = node.whole & node.ours
    used = fenced & (held | _parted(node, held))
    healthy = node.tolerated(())
    free = fenced & healthy & ~used
    islands = Counter(_island_at(node, position) for position in positions_of(free))
    return Occupancy(
        free=free.bit_count(),
        allocated=used.bit_count(),
        unavailable=(fenced & ~used & ~healthy).bit_count(),
        unfenced=(node.whole & ~node.ours).bit_count(),
        devices=(held & node.ours).bit_count(),
        largest_free_island=max(islands.values(), default=0),
        nodes=int(node.ours != 0),
    )


def _island_at(node: DeviceNode, position: int) -> object:
    """What two GPUs of an island have in common; one that does not say is an island of its own."""
    driver = node.ids[position].driver
    attributes = node.devices[position].attributes
    island = attributes.get(ISLAND) or attributes.get(f"{driver}/{ISLAND}")
    return position if island is None else island


def _parted(node: DeviceNode, held: int) -> int:
    """Whole GPUs of which a partition is held: it draws on the counters that the GPU needs all of."""
    drawn = {at for position in positions_of(held) for at in _counters_of(node, position)}
    return sum(1 << position for position in positions_of(node.whole & ~held) if drawn & _counters_of(node, position))


def _counters_of(node: DeviceNode, position: int) -> set[tuple[str, str, str]]:
    id_ = node.ids[position]
    return {(id_.driver, id_.pool, each.counter_set) for each in node.devices[position].consumes_counters}
