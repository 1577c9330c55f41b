"""A node in the words of ``gpu-dra inspect -o json``. The names are a stable interface: fields are added, none is changed.

A GPU is called by its position, which counts from 0 in order of PCI address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import msgspec

from driver.nvml.library import GpuInstanceProfileInfo, Placement
from driver.nvml.readings import FabricReading, GpuFailure, MachineReading
from driver.topology.model import Gpu, Topology

FORMAT = "gpu-dra.io/inspect/v1"


class _View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the values below: every field is always there, ``null`` where the machine does not say it."""


class FabricView(_View, frozen=True, kw_only=True):
    """The GPU's place in a fabric over several nodes."""

    cluster_uuid: str
    clique_id: int
    complete: bool


class GpuView(_View, frozen=True, kw_only=True):
    """One GPU. ``island``, ``quad``, ``pair`` and ``component`` are the lowest position in the set."""

    gpu: int
    index: int
    device: str
    uuid: str
    pci_address: str
    minor: int
    product_name: str
    architecture: str | None
    cuda_compute_capability: str | None
    memory_bytes: int | None
    numa_node: int | None
    pcie_root: str | None
    mig_enabled: bool
    nvlinks: int
    island: int
    quad: int
    pair: int
    component: int
    fabric: FabricView | None


class LinkView(_View, frozen=True, kw_only=True):
    """What lies between two GPUs: active NVLinks, and the PCIe level under them."""

    gpus: tuple[int, int]
    nvlinks: int
    pcie: str
    asymmetric: bool


class FailureView(_View, frozen=True, kw_only=True):
    """A GPU that is left out."""

    index: int
    pci_address: str | None
    uuid: str | None
    reason: str
    lost: bool


class PlacementView(_View, frozen=True, kw_only=True):
    """Memory slices from ``start`` on."""

    start: int
    size: int


class MigProfileView(_View, frozen=True, kw_only=True):
    """A GPU-instance profile. ``id`` is what NVML and ``nvidia-smi mig -lgip`` call it."""

    id: int
    compute_slices: int
    memory_mib: int
    max_instances: int
    placements: tuple[PlacementView, ...]


class BoardView(_View, frozen=True, kw_only=True):
    """GPUs of one product that have the same MIG profiles."""

    product_name: str
    gpus: tuple[int, ...]
    mig_profiles: tuple[MigProfileView, ...]


class NodeView(_View, frozen=True, kw_only=True):
    """The node as the driver sees it."""

    format: str
    node: str
    driver_version: str
    cuda_driver_version: str | None
    gpus: tuple[GpuView, ...]
    links: tuple[LinkView, ...]
    islands: tuple[tuple[int, ...], ...]
    quads: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, ...], ...]
    boards: tuple[BoardView, ...]
    failures: tuple[FailureView, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A GPU-instance profile with its possible placements. ``number`` is NVML's enumeration, not the profile's id."""

    number: int
    info: GpuInstanceProfileInfo
    placements: tuple[Placement, ...]


MigTable: TypeAlias = tuple[MigProfile, ...]
"""The profiles of one GPU; empty where NVML does not tell."""


def build_node_view(
    node: str, reading: MachineReading, topology: Topology, mig_tables: Sequence[MigTable], notes: Sequence[str]
) -> NodeView:
    """The view of a topology that was built from ``reading``. ``mig_tables`` has an entry for each position."""
    cuda = topology.cuda_driver_version
    return NodeView(
        format=FORMAT,
        node=node,
        driver_version=topology.driver_version,
        cuda_driver_version=None if cuda is None else f"{cuda[0]}.{cuda[1]}",
        gpus=tuple(_gpu_view(position, gpu) for position, gpu in enumerate(topology.gpus)),
        links=_link_views(topology),
        islands=_sets(topology, lambda gpu: gpu.island, smallest=1),
        quads=_sets(topology, lambda gpu: gpu.quad, smallest=2),
        pairs=_sets(topology, lambda gpu: gpu.pair, smallest=2),
        boards=_board_views(topology, mig_tables),
        failures=tuple(_failure_view(failure) for failure in reading.failures),
        notes=tuple(notes),
    )


def link_text(link: LinkView) -> str:
    """``NV18``, else the PCIe level, as ``nvidia-smi topo -m`` has it."""
    return f"NV{link.nvlinks}" if link.nvlinks else link.pcie


def _gpu_view(position: int, gpu: Gpu) -> GpuView:
    reading = gpu.reading
    capability = reading.cuda_compute_capability
    return GpuView(
        gpu=position,
        index=reading.index,
        device=gpu.name,
        uuid=reading.uuid,
        pci_address=str(reading.pci),
        minor=reading.minor,
        product_name=reading.product_name,
        architecture=reading.architecture,
        cuda_compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        memory_bytes=reading.memory_bytes,
        numa_node=reading.numa_node,
        pcie_root=reading.pcie_root,
        mig_enabled=reading.is_mig_enabled,
        nvlinks=gpu.nvlink_count,
        island=gpu.island,
        quad=gpu.quad,
        pair=gpu.pair,
        component=gpu.component,
        fabric=_fabric_view(reading.fabric),
    )


def _fabric_view(fabric: FabricReading | None) -> FabricView | None:
    if fabric is None:
        return None
    return FabricView(cluster_uuid=fabric.cluster_uuid, clique_id=fabric.clique_id, complete=fabric.is_complete)


def _link_views(topology: Topology) -> tuple[LinkView, ...]:
    links = topology.links
    return tuple(
        LinkView(gpus=(a, b), nvlinks=links.nvlinks[a][b], pcie=links.pcie[a][b].name, asymmetric=(a, b) in links.asymmetric)
        for a, b in combinations(range(len(topology.gpus)), 2)
    )


def _sets(topology: Topology, lowest: Callable[[Gpu], int], *, smallest: int) -> tuple[tuple[int, ...], ...]:
    members: dict[int, list[int]] = {}
    for position, gpu in enumerate(topology.gpus):
        members.setdefault(lowest(gpu), []).append(position)
    return tuple(tuple(each) for each in members.values() if len(each) >= smallest)


def _board_views(topology: Topology, mig_tables: Sequence[MigTable]) -> tuple[BoardView, ...]:
    boards: dict[tuple[str, MigTable], list[int]] = {}
    for position, (gpu, table) in enumerate(zip(topology.gpus, mig_tables, strict=True)):
        boards.setdefault((gpu.reading.product_name, table), []).append(position)
    return tuple(
        BoardView(product_name=name, gpus=tuple(members), mig_profiles=tuple(_profile_view(each) for each in table))
        for (name, table), members in boards.items()
    )


def _profile_view(profile: MigProfile) -> MigProfileView:
    return MigProfileView(
        id=profile.info.id,
        compute_slices=profile.info.slice_count,
        memory_mib=profile.info.memory_size_mib,
        max_instances=profile.info.instance_count,
        placements=tuple(PlacementView(start=each.start, size=each.size) for each in sorted(profile.placements)),
    )


def _failure_view(failure: GpuFailure) -> FailureView:
    return FailureView(
        index=failure.index,
        pci_address=None if failure.pci is None else str(failure.pci),
        uuid=failure.uuid,
        reason=failure.reason,
        lost=failure.is_lost,
    )
