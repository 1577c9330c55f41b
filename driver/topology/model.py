"""The node as frozen values: GPUs, the links between them, and the sets that the links make.

A *position* below is an index into ``Topology.gpus``, which is in order of PCI address.
"""

from __future__ import annotations

from dataclasses import dataclass

from driver.names import DeviceName
from driver.nvml.readings import GpuReading, PcieLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMatrix:
    """Active NVLinks and the PCIe level for each pair of positions; square, symmetric, zero / SAME_BOARD on the diagonal.

    ``nvlinks[a][b]`` is the number of NVLinks that both ends call active (the lower of the two where they disagree); through
    switches it is the lower of the two GPUs' active links.
    """

    nvlinks: tuple[tuple[int, ...], ...]
    pcie: tuple[tuple[PcieLevel, ...], ...]
    asymmetric: tuple[tuple[int, int], ...] = ()
    """Pairs whose two ends disagree, lower position first: worth an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU with its place in the node."""

    name: DeviceName
    reading: GpuReading
    nvlink_count: int
    """Active NVLinks of this GPU, 0 where it has none."""
    island: int
    """Lowest position in its island: a set in which every pair is linked, or the GPU alone."""
    island_size: int
    quad: int
    """Lowest position in its quad (an all-NVLink ring of four), or its own position."""
    pair: int
    """Lowest position in its pair (two GPUs with a link), or its own position."""
    component: int
    """Lowest position in its connected component of NVLinks, or its own position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What is in this node, and how it hangs together."""

    driver_version: str
    cuda_driver_version: tuple[int, int] | None
    gpus: tuple[Gpu, ...]
    links: LinkMatrix
