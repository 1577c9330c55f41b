"""What ``kubectl gpu topology -o json`` prints. The names are a stable interface: fields are added, none is changed."""

from __future__ import annotations

from driver.cli.gpu.status_views import GpuStatusView
from driver.cli.view import LinkedGpuView, LinkView, View

TOPOLOGY_FORMAT = "gpu-dra.io/topology/v1"


class PlacedGpuView(LinkedGpuView, frozen=True, kw_only=True):
    """A whole GPU with its links, and how it is."""

    domain: str | None
    """What NVLink reaches in any number of hops, also over nodes; ``null`` where it is not told."""
    status: GpuStatusView


class NodeTopologyView(View, frozen=True, kw_only=True):
    """The whole GPUs of one node. Sets have more than one GPU, each the positions of its members."""

    node: str
    product: str
    allocator: str
    gpus: tuple[PlacedGpuView, ...]
    links: tuple[LinkView, ...]
    islands: tuple[tuple[int, ...], ...]
    quads: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, ...], ...]
    parts_only: tuple[GpuStatusView, ...]
    """GPUs of which the node publishes only parts: where their links go is not told."""


class TopologyView(View, frozen=True, kw_only=True):
    """``kubectl gpu topology``."""

    format: str = TOPOLOGY_FORMAT
    driver: str
    nodes: tuple[NodeTopologyView, ...]
    notes: tuple[str, ...]
