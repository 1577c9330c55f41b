"""How the GPUs of a node hang together, from what its slices say.

A slice has no link matrix: it follows from islands, quads, pairs and the number of links (``allocator.links``,
docs/allocation.md). PCIe is known as far as roots and NUMA nodes go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from driver.allocator.device_node import DeviceNode
from driver.allocator.links import count_links
from driver.allocator.tables import positions_of
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Device
from driver.cli.gpu.status_views import GpuStatusView, NodeStatusView
from driver.cli.gpu.topology_views import NodeTopologyView, PlacedGpuView
from driver.cli.view import LinkedGpuView, LinkView


def build_node_topology(driver: str, node: DeviceNode, status: NodeStatusView) -> NodeTopologyView:
    """The topology of a node; ``status`` is the same node's."""
    wholes = list(positions_of(node.whole))
    lowest = {name: _lowest(node, f"{driver}/{name}", wholes) for name in _SETS}
    whole = [each for each in status.gpus if each.gpu is not None]
    gpus = tuple(
        _build_gpu(driver, node.devices[at], whole[at], {name: found[at] for name, found in lowest.items()}) for at in wholes
    )
    return NodeTopologyView(
        node=node.name,
        product=status.product,
        allocator=status.allocator,
        gpus=gpus,
        links=_build_links(gpus, count_links([node.devices[at] for at in wholes], driver)),
        islands=_list_sets(lowest["nvlinkIsland"]),
        quads=_list_sets(lowest["nvlinkQuad"]),
        pairs=_list_sets(lowest["nvlinkPair"]),
        parts_only=tuple(each for each in status.gpus if each.gpu is None),
    )


_SETS = ("nvlinkIsland", "nvlinkQuad", "nvlinkPair", "nvlinkDomain")


def _lowest(node: DeviceNode, attribute: str, wholes: Sequence[int]) -> dict[int, int]:
    """For each whole GPU the lowest position with the same value; its own where it has none."""
    values = node.values_of(attribute)
    first: dict[int, int] = {}
    return {at: first.setdefault(values[at], at) if values[at] >= 0 else at for at in wholes}


def _list_sets(lowest: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    members: dict[int, list[int]] = {}
    for at, low in lowest.items():
        members.setdefault(low, []).append(at)
    return tuple(tuple(each) for each in members.values() if len(each) > 1)


def _build_gpu(driver: str, device: Device, status: GpuStatusView, lowest: dict[str, int]) -> PlacedGpuView:
    domain = device.attributes.get("nvlinkDomain") or device.attributes.get(f"{driver}/nvlinkDomain")
    links = device.attributes.get("nvlinkLinks") or device.attributes.get(f"{driver}/nvlinkLinks")
    return PlacedGpuView(
        gpu=status.gpu or 0,
        device=device.name,
        product_name=status.product,
        memory_bytes=_read_bytes(status.memory),
        numa_node=status.numa_node,
        pcie_root=status.pcie_root,
        nvlinks=0 if links is None else links.int_ or 0,
        island=lowest["nvlinkIsland"],
        quad=lowest["nvlinkQuad"],
        pair=lowest["nvlinkPair"],
        component=lowest["nvlinkDomain"],
        domain=None if domain is None else domain.string,
        status=status,
    )


def _read_bytes(quantity: str) -> int | None:
    try:
        return int(parse_quantity(quantity))
    except ValueError:
        return None


def _build_links(gpus: Sequence[LinkedGpuView], counts: Sequence[Sequence[int]]) -> tuple[LinkView, ...]:
    return tuple(
        LinkView(gpus=(a, b), nvlinks=counts[a][b], pcie=_find_level(gpus[a], gpus[b]), asymmetric=False)
        for a, b in combinations(range(len(gpus)), 2)
    )


def _find_level(a: LinkedGpuView, b: LinkedGpuView) -> str:
    """As ``nvidia-smi topo -m`` calls it; what is below a root is not told, so the root is the least."""
    if a.pcie_root is not None and a.pcie_root == b.pcie_root:
        return "PHB"
    if a.numa_node is None or b.numa_node is None:
        return "UNKNOWN"
    return "NODE" if a.numa_node == b.numa_node else "SYS"
