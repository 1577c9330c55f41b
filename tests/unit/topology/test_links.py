"""The link matrix counts what both ends call active, and takes nothing unknown for near."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.names import PciAddress
from driver.nvml.readings import GpuReading, NvLinkReading, PcieLevel, RemoteType
from driver.topology.links import build_links, count_peer_links
from tests.unit.topology.machines import BRIDGED_LINKS, dgx_1v, direct_ports, gpu, pci, switch_ports


def link(number: int, to: PciAddress | None, *, active: bool = True, remote: RemoteType = RemoteType.GPU) -> NvLinkReading:
    return NvLinkReading(link=number, is_active=active, remote_type=remote, remote_pci=to)


def test_direct_links_are_counted_by_what_they_lead_to() -> None:
    gpus = tuple(gpu(i, nvlinks=direct_ports(i, {(0, 1): 2, (1, 2): 1})) for i in range(3))
    assert build_links(gpus, {}).nvlinks == ((0, 2, 0), (2, 0, 1), (0, 1, 0))


def test_the_cube_mesh_of_a_dgx_1v_has_six_links_in_each_row() -> None:
    matrix = build_links(dgx_1v().gpus, {}).nvlinks
    assert [sum(row) for row in matrix] == [6] * 8
    assert matrix[0] == (0, 1, 1, 2, 2, 0, 0, 0)


def test_the_lower_end_counts_where_the_ends_disagree_and_the_pair_is_reported() -> None:
    """An asymmetric pair made a known allocator panic; here it is the weaker of the two."""
    first = gpu(0, nvlinks=(link(0, pci(1)), link(1, pci(1))))
    second = gpu(1, nvlinks=(link(0, pci(0)),))
    links = build_links((first, second), {})
    assert links.nvlinks == ((0, 1), (1, 0))
    assert links.asymmetric == ((0, 1),)


def test_a_pair_that_one_end_denies_has_no_link() -> None:
    links = build_links((gpu(0, nvlinks=(link(0, pci(1)),)), gpu(1)), {})
    assert links.nvlinks == ((0, 0), (0, 0))
    assert links.asymmetric == ((0, 1),)


def test_an_inactive_link_is_no_link() -> None:
    ports = (link(0, pci(1), active=False),)
    links = build_links((gpu(0, nvlinks=ports), gpu(1, nvlinks=(link(0, pci(0), active=False),))), {})
    assert links.nvlinks == ((0, 0), (0, 0))
    assert links.asymmetric == ()


def test_through_switches_the_gpu_with_fewer_links_decides() -> None:
    gpus = (
        gpu(0, nvlinks=switch_ports(18)),
        gpu(1, nvlinks=switch_ports(18, down=2)),
        gpu(2, nvlinks=switch_ports(18, down=18)),
    )
    assert build_links(gpus, {}).nvlinks == ((0, 16, 0), (16, 0, 0), (0, 0, 0))


IGNORED_REMOTES = {
    "a GPU that is not ours": link(0, PciAddress(0, 0xEE, 0)),
    "a CPU": link(0, PciAddress(0, 0x11, 0), remote=RemoteType.CPU),
    "nothing known": link(0, None, remote=RemoteType.UNKNOWN),
    "a GPU without an address": link(0, None),
}


@pytest.mark.parametrize("port", IGNORED_REMOTES.values(), ids=IGNORED_REMOTES.keys())
def test_a_link_that_leads_to_none_of_our_gpus_is_ignored(port: NvLinkReading) -> None:
    links = build_links((gpu(0, nvlinks=(port,)), gpu(1, nvlinks=(port,))), {})
    assert links.nvlinks == ((0, 0), (0, 0))


def test_a_remote_of_unknown_type_with_our_address_is_a_direct_link() -> None:
    """Some drivers know the address and not the type."""
    gpus = (
        gpu(0, nvlinks=(link(0, pci(1), remote=RemoteType.UNKNOWN),)),
        gpu(1, nvlinks=(link(0, pci(0), remote=RemoteType.UNKNOWN),)),
    )
    assert build_links(gpus, {}).nvlinks == ((0, 1), (1, 0))


def test_an_unknown_pcie_level_is_the_worst() -> None:
    links = build_links((gpu(0), gpu(1), gpu(2)), {(pci(0), pci(1)): PcieLevel.PIX})
    assert links.pcie == (
        (PcieLevel.SAME_BOARD, PcieLevel.PIX, PcieLevel.UNKNOWN),
        (PcieLevel.PIX, PcieLevel.SAME_BOARD, PcieLevel.UNKNOWN),
        (PcieLevel.UNKNOWN, PcieLevel.UNKNOWN, PcieLevel.SAME_BOARD),
    )
    assert max(PcieLevel) is PcieLevel.UNKNOWN


def test_a_link_to_itself_links_nothing() -> None:
    assert build_links((gpu(0, nvlinks=(link(0, pci(0)),)),), {}).nvlinks == ((0,),)


def test_no_gpu_makes_an_empty_matrix() -> None:
    links = build_links((), {})
    assert (links.nvlinks, links.pcie, links.asymmetric) == ((), (), ())


COUNTED: dict[str, tuple[GpuReading, int]] = {
    "direct": (gpu(0, nvlinks=direct_ports(0, BRIDGED_LINKS)), 12),
    "switched, two down": (gpu(0, nvlinks=switch_ports(18, down=2)), 16),
    "to a CPU": (gpu(0, nvlinks=(link(0, None, remote=RemoteType.CPU),)), 0),
    "none": (gpu(0), 0),
}


@pytest.mark.parametrize(("reading", "count"), COUNTED.values(), ids=COUNTED.keys())
def test_a_gpus_own_links_are_the_active_ones_to_gpus_and_switches(reading: GpuReading, count: int) -> None:
    assert count_peer_links(reading) == count


def test_the_matrix_is_symmetric_however_wrong_the_ports_are() -> None:
    gpus = tuple(replace(reading, nvlinks=reading.nvlinks[i:]) for i, reading in enumerate(dgx_1v().gpus))
    links = build_links(gpus, {})
    size = len(gpus)
    assert all(links.nvlinks[a][b] == links.nvlinks[b][a] for a in range(size) for b in range(size))
    assert links.asymmetric
