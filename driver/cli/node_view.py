"""A node in the words of ``gpu-dra inspect -o json``. The names are a stable interface: fields are added, none is changed.

A GPU is called by its position, which counts from 0 in order of PCI address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from driver.cli.view import LinkedGpuView, LinkView, View
from driver.nvml.readings import FabricReading, GpuFailure, GpuReading, MachineReading
from driver.topology.mig_names import build_profile_text
from driver.topology.mig_offer import GpuOffer
from driver.topology.model import Gpu, Topology

FORMAT = "gpu-dra.io/inspect/v1"


class FabricView(View, frozen=True, kw_only=True):
    """The GPU's place in a fabric over several nodes."""

    cluster_uuid: str
    clique_id: int
    complete: bool


class GpuView(LinkedGpuView, frozen=True, kw_only=True):
    """One GPU, as the machine itself tells of it."""

    index: int
    uuid: str
    pci_address: str
    minor: int
    architecture: str | None
    cuda_compute_capability: str | None
    mig_enabled: bool
    mig_offer: str
    """``dynamic`` where claims make MIG devices, ``static`` where those that are there are given out, ``none``."""
    fabric: FabricView | None


class FailureView(View, frozen=True, kw_only=True):
    """A GPU that is left out."""

    index: int
    pci_address: str | None
    uuid: str | None
    reason: str
    lost: bool


class PlacementView(View, frozen=True, kw_only=True):
    """Memory slices from ``start`` on."""

    start: int
    size: int


class MigProfileView(View, frozen=True, kw_only=True):
    """A GPU-instance profile. ``id`` is what NVML and ``nvidia-smi mig -lgip`` call it."""

    id: int
    profile: str
    """``1g.10gb``: the attribute of that name."""
    compute_slices: int
    memory_mib: int
    max_instances: int
    placements: tuple[PlacementView, ...]


class BoardView(View, frozen=True, kw_only=True):
    """GPUs of one product that have the same MIG profiles."""

    product_name: str
    gpus: tuple[int, ...]
    mig_profiles: tuple[MigProfileView, ...]


class MigDeviceView(View, frozen=True, kw_only=True):
    """A MIG device that is there."""

    gpu: int
    device: str
    profile: str
    uuid: str


class NodeView(View, frozen=True, kw_only=True):
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
    mig_devices: tuple[MigDeviceView, ...]
    failures: tuple[FailureView, ...]
    notes: tuple[str, ...]


def build_node_view(
    node: str, reading: MachineReading, topology: Topology, offers: Sequence[GpuOffer], notes: Sequence[str]
) -> NodeView:
    """The view of a topology that was built from ``reading``. ``offers`` has an entry for each position."""
    cuda = topology.cuda_driver_version
    return NodeView(
        format=FORMAT,
        node=node,
        driver_version=topology.driver_version,
        cuda_driver_version=None if cuda is None else f"{cuda[0]}.{cuda[1]}",
        gpus=tuple(_gpu_view(position, offer) for position, offer in enumerate(offers)),
        links=_link_views(topology),
        islands=_sets(topology, lambda gpu: gpu.island, smallest=1),
        quads=_sets(topology, lambda gpu: gpu.quad, smallest=2),
        pairs=_sets(topology, lambda gpu: gpu.pair, smallest=2),
        boards=_board_views(topology),
        mig_devices=tuple(view for position, offer in enumerate(offers) for view in _mig_device_views(position, offer)),
        failures=tuple(_failure_view(failure) for failure in reading.failures),
        notes=tuple(notes),
    )


def _gpu_view(position: int, offer: GpuOffer) -> GpuView:
    gpu = offer.gpu
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
        mig_offer="dynamic" if offer.is_dynamic else "static" if offer.partitions else "none",
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


def _mig_device_views(position: int, offer: GpuOffer) -> Iterator[MigDeviceView]:
    for each in offer.partitions:
        if each.made is not None:
            yield MigDeviceView(gpu=position, device=each.name, profile=each.text, uuid=each.made.uuid)


def _board_views(topology: Topology) -> tuple[BoardView, ...]:
    boards: dict[tuple[str, tuple[MigProfileView, ...]], list[int]] = {}
    for position, gpu in enumerate(topology.gpus):
        boards.setdefault((gpu.reading.product_name, _profile_views(gpu.reading)), []).append(position)
    return tuple(
        BoardView(product_name=name, gpus=tuple(members), mig_profiles=profiles) for (name, profiles), members in boards.items()
    )


def _profile_views(reading: GpuReading) -> tuple[MigProfileView, ...]:
    """Those whose placements NVML tells."""
    profiles = reading.mig.profiles if reading.mig is not None else ()
    return tuple(
        MigProfileView(
            id=profile.info.id,
            profile=build_profile_text(profile.number, profile.info, reading.memory_bytes),
            compute_slices=profile.info.slice_count,
            memory_mib=profile.info.memory_size_mib,
            max_instances=profile.info.instance_count,
            placements=tuple(PlacementView(start=each.start, size=each.size) for each in sorted(profile.placements)),
        )
        for profile in profiles
        if profile.placements
    )


def _failure_view(failure: GpuFailure) -> FailureView:
    return FailureView(
        index=failure.index,
        pci_address=None if failure.pci is None else str(failure.pci),
        uuid=failure.uuid,
        reason=failure.reason,
        lost=failure.is_lost,
    )
