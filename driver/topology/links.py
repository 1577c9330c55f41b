"""From what each GPU says about its own ports to the links between GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from driver.names import PciAddress
from driver.nvml.readings import GpuReading, NvLinkReading, PcieLevel, RemoteType
from driver.topology.model import LinkMatrix

PcieLevels = Mapping[tuple[PciAddress, PciAddress], PcieLevel]


def build_links(gpus: tuple[GpuReading, ...], pcie_levels: PcieLevels) -> LinkMatrix:
    """The links of each pair of ``gpus``, by position.

    Direct links are counted from both ends by the remote PCI address, and the lower count wins; a pair whose ends disagree is
    reported in ``asymmetric``. Through switches a pair has as many links as the GPU with fewer of them. A pair whose PCIe level
    nobody told is UNKNOWN, the worst: an unknown link that looks near is chosen first.
    """
    direct = [_direct_links(gpu) for gpu in gpus]
    switched = [sum(1 for link in gpu.nvlinks if link.is_active and link.remote_type is RemoteType.SWITCH) for gpu in gpus]
    nvlinks = [[0] * len(gpus) for _ in gpus]
    pcie = [[PcieLevel.SAME_BOARD] * len(gpus) for _ in gpus]
    asymmetric = []
    for a, b in combinations(range(len(gpus)), 2):
        from_a, from_b = direct[a][gpus[b].pci], direct[b][gpus[a].pci]
        if from_a != from_b:
            asymmetric.append((a, b))
        nvlinks[a][b] = nvlinks[b][a] = min(from_a, from_b) + min(switched[a], switched[b])
        pcie[a][b] = pcie[b][a] = _pcie_level(pcie_levels, gpus[a].pci, gpus[b].pci)
    return LinkMatrix(
        nvlinks=tuple(tuple(row) for row in nvlinks),
        pcie=tuple(tuple(row) for row in pcie),
        asymmetric=tuple(asymmetric),
    )


def count_peer_links(gpu: GpuReading) -> int:
    """The GPU's active NVLinks that lead to a GPU or a switch. Links to a CPU bring no other GPU nearer."""
    return sum(1 for link in gpu.nvlinks if link.is_active and link.remote_type is not RemoteType.CPU)


def _direct_links(gpu: GpuReading) -> Counter[PciAddress]:
    """Active direct links by what they lead to. A GPU that answers without its remote's type still says the address."""
    return Counter(link.remote_pci for link in gpu.nvlinks if link.remote_pci is not None and _is_direct(link))


def _is_direct(link: NvLinkReading) -> bool:
    return link.is_active and link.remote_type in (RemoteType.GPU, RemoteType.UNKNOWN)


def _pcie_level(levels: PcieLevels, a: PciAddress, b: PciAddress) -> PcieLevel:
    return levels.get((min(a, b), max(a, b)), PcieLevel.UNKNOWN)
