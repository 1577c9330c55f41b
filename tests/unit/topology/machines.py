"""Readings of whole machines in a few lines each: what the tests of sets, names and slices stand on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from driver.names import GpuUUID, PciAddress
from driver.nvml.library import Placement
from driver.nvml.mock.boards import build_mig_table
from driver.nvml.mock.catalogue import read_mig_tables
from driver.nvml.readings import (
    ComputeInstanceReading,
    GpuInstanceReading,
    GpuReading,
    MachineReading,
    MigProfile,
    MigReading,
    NvLinkReading,
    PcieLevel,
    RemoteType,
)

Edges = Mapping[tuple[int, int], int]

DGX_1P_LINKS: Edges = {(int(pair[0]), int(pair[1])): 1 for pair in "01 02 03 04 12 13 15 23 26 37 45 46 47 56 57 67".split()}
DGX_1V_LINKS: Edges = {
    (int(word[0]), int(word[1])): int(word[3])
    for word in "01:1 02:1 03:2 04:2 12:2 13:1 15:2 23:2 26:1 37:1 45:1 46:1 47:2 56:2 57:1 67:2".split()
}
BRIDGED_LINKS: Edges = {(0, 2): 12, (1, 3): 12, (4, 5): 12, (6, 7): 12}


def pci(position: int) -> PciAddress:
    """The address of the GPU at this position of a test machine."""
    return PciAddress(0, 0x10 + position, 0)


def gpu(position: int, **facts: object) -> GpuReading:
    """A GPU with nothing but what is required, and ``facts``."""
    known: dict[str, object] = {
        "index": position,
        "uuid": GpuUUID(f"GPU-00000000-0000-0000-0000-{position:012d}"),
        "pci": pci(position),
        "minor": position,
        "product_name": "NVIDIA H100 80GB HBM3",
    }
    return GpuReading(**{**known, **facts})  # type: ignore[arg-type]  # a builder: the tests say the facts


def direct_ports(position: int, edges: Edges) -> tuple[NvLinkReading, ...]:
    """Active ports of one GPU by the undirected ``edges``."""
    peers = [a if b == position else b for (a, b), count in edges.items() if position in (a, b) for _ in range(count)]
    return tuple(
        NvLinkReading(link=link, is_active=True, remote_type=RemoteType.GPU, remote_pci=pci(peer))
        for link, peer in enumerate(peers)
    )


def switch_ports(count: int, *, down: int = 0) -> tuple[NvLinkReading, ...]:
    """Ports that lead to switches, the last ``down`` of them inactive."""
    return tuple(
        NvLinkReading(
            link=link, is_active=link < count - down, remote_type=RemoteType.SWITCH, remote_pci=PciAddress(0, 0x05, link % 4)
        )
        for link in range(count)
    )


def pcie(
    size: int, groups: Iterable[tuple[PcieLevel, Sequence[Sequence[int]]]]
) -> dict[tuple[PciAddress, PciAddress], PcieLevel]:
    """Levels for all pairs: the first group that holds both positions says it, SYS where none does."""
    levels = {}
    for a, b in combinations(range(size), 2):
        fits = (level for level, sets in groups if any(a in members and b in members for members in sets))
        levels[pci(a), pci(b)] = next(fits, PcieLevel.SYS)
    return levels


def machine(
    gpus: Iterable[GpuReading], levels: Mapping[tuple[PciAddress, PciAddress], PcieLevel] | None = None
) -> MachineReading:
    """A reading of these GPUs."""
    return MachineReading(
        driver_version="580.159.04", cuda_driver_version=(13, 0), gpus=tuple(gpus), pcie_levels=dict(levels or {})
    )


SOCKETS_OF_4 = (range(4), range(4, 8))


def dgx_1p() -> MachineReading:
    """8 P100, one link to each of four neighbours; PCIe switches hold 02, 13, 46, 57."""
    levels = pcie(8, [(PcieLevel.PIX, ((0, 2), (1, 3), (4, 6), (5, 7))), (PcieLevel.PHB, SOCKETS_OF_4)])
    return machine((gpu(i, nvlinks=direct_ports(i, DGX_1P_LINKS), numa_node=i // 4) for i in range(8)), levels)


def dgx_1v() -> MachineReading:
    """8 V100, six links each, in a cube mesh of single and double links."""
    levels = pcie(8, [(PcieLevel.PIX, ((0, 1), (2, 3), (4, 5), (6, 7))), (PcieLevel.PHB, SOCKETS_OF_4)])
    return machine((gpu(i, nvlinks=direct_ports(i, DGX_1V_LINKS), numa_node=i // 4) for i in range(8)), levels)


def dgx_2() -> MachineReading:
    """16 V100 behind switches, six links each."""
    twos = [range(i, i + 2) for i in range(0, 16, 2)]
    fours = [range(i, i + 4) for i in range(0, 16, 4)]
    levels = pcie(16, [(PcieLevel.PIX, twos), (PcieLevel.PXB, fours), (PcieLevel.NODE, (range(8), range(8, 16)))])
    return machine((gpu(i, nvlinks=switch_ports(6), numa_node=i // 8) for i in range(16)), levels)


def hgx_8(*, without_links: frozenset[int] = frozenset()) -> MachineReading:
    """8 GPUs behind switches with 18 links each; those in ``without_links`` have all of theirs down."""
    levels = pcie(8, [(PcieLevel.NODE, SOCKETS_OF_4)])
    ports = [switch_ports(18, down=18 if i in without_links else 0) for i in range(8)]
    return machine((gpu(i, nvlinks=ports[i], numa_node=i // 4) for i in range(8)), levels)


def bridged() -> MachineReading:
    """8 PCIe GPUs with bridges between slots that are not all neighbours."""
    return machine(
        (gpu(i, nvlinks=direct_ports(i, BRIDGED_LINKS), numa_node=i // 4) for i in range(8)),
        pcie(8, [(PcieLevel.NODE, SOCKETS_OF_4)]),
    )


def half_bridged() -> MachineReading:
    """Four PCIe GPUs, one bridge."""
    return machine(
        (gpu(i, nvlinks=direct_ports(i, {(0, 1): 12})) for i in range(4)), pcie(4, [(PcieLevel.NODE, ((0, 1), (2, 3)))])
    )


def meshes_of_4(count: int) -> MachineReading:
    """``count`` boards of four GPUs, four links between each two of a board (HGX A100 4-GPU)."""
    edges = {pair: 4 for first in range(0, 4 * count, 4) for pair in combinations(range(first, first + 4), 2)}
    return machine(gpu(i, nvlinks=direct_ports(i, edges), numa_node=i) for i in range(4 * count))


def pcie_only() -> MachineReading:
    """Four GPUs without a single NVLink."""
    return machine((gpu(i) for i in range(4)), pcie(4, [(PcieLevel.PIX, ((0, 1), (2, 3)))]))


def mig_profiles(table: str) -> tuple[MigProfile, ...]:
    """The profiles of a table that comes with the mock, as a GPU would tell them."""
    return build_mig_table(table, read_mig_tables()[table]).profiles


def mig_instance(table: str, profile_id: int, start: int, *, parts: int = 1, number: int = 0) -> GpuInstanceReading:
    """A GPU instance; with ``parts`` compute instances of equal size, none of them for 0."""
    profile = next(each for each in mig_profiles(table) if each.info.id == profile_id)
    size = profile.info.slice_count // parts if parts else 0
    compute = tuple(
        ComputeInstanceReading(
            id=part,
            profile_id=size - 1,
            placement=Placement(start=part * size, size=size),
            multiprocessor_count=profile.info.multiprocessor_count // parts,
            uuid=f"MIG-{number}-{part}",
        )
        for part in range(parts)
    )
    placement = next(each for each in profile.placements if each.start == start)
    return GpuInstanceReading(id=number, profile_id=profile_id, placement=placement, compute=compute)


def mig(table: str, *instances: GpuInstanceReading, is_enabled: bool | None = None, pending: bool | None = None) -> MigReading:
    """What a GPU with this table says; in MIG mode when it has instances, unless said otherwise."""
    enabled = bool(instances) if is_enabled is None else is_enabled
    return MigReading(
        is_enabled=enabled,
        is_enabled_after_reset=enabled if pending is None else pending,
        profiles=mig_profiles(table),
        instances=instances,
    )


def hopper(position: int, mig_reading: MigReading, **facts: object) -> GpuReading:
    """An H100 that says this of MIG."""
    return gpu(position, cuda_compute_capability=(9, 0), memory_bytes=81559 << 20, mig=mig_reading, **facts)


def ampere(position: int, mig_reading: MigReading) -> GpuReading:
    """An A100 that says this of MIG."""
    return gpu(position, cuda_compute_capability=(8, 0), memory_bytes=40960 << 20, mig=mig_reading)
