"""The named machines: each loads, and has the figures of the reference (topology.md section 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from driver.names import PciAddress
from driver.nvml.library import FabricInfo
from driver.nvml.mock import read_machine_names, read_mock_machine
from driver.nvml.mock.catalogue import read_boards, read_mig_tables
from driver.nvml.mock.model import Machine
from driver.nvml.readings import PcieLevel

PROMISED = """
dgx-1p dgx-1v dgx-2 dgx-a100 hgx-a100-4 hgx-a100-4x2 hgx-h100-4 dgx-h100 dgx-h200 hgx-b200 gb200-tray a100-pcie-bridged h100-nvl
l40s t4 rtx4090 a30 rtx-pro-6000 gb10 long-name wide-pci-domain dgx-1v-asymmetric a100-pcie-half-bridged hgx-b200-gpu2-unlinked
dgx-h100-gpu7-lost dgx-h100-gpu7-failing
""".split()


def links_between(machine: Machine) -> dict[tuple[int, int], int]:
    """Direct links of each pair that has any."""
    counts: Counter[tuple[int, int]] = Counter()
    for index, gpu in enumerate(machine.gpus):
        counts.update((index, port.peer) for port in gpu.ports if port is not None and port.peer is not None)
    assert all(counts[second, first] == count for (first, second), count in counts.items())
    return {pair: count for pair, count in counts.items() if pair[0] < pair[1]}


def pairs_at(machine: Machine, level: PcieLevel) -> set[tuple[int, int]]:
    return {pair for pair, own in machine.levels.items() if own is level}


def switch_links(machine: Machine) -> set[int]:
    """How many ports go to switches, one number where all GPUs agree."""
    return {sum(port is not None and port.peer is None for port in gpu.ports) for gpu in machine.gpus}


def numa_nodes(machine: Machine) -> list[int]:
    return [gpu.numa_node for gpu in machine.gpus]


def test_all_promised_machines_are_there() -> None:
    assert set(read_machine_names()) >= set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_a_named_machine_has_its_name_and_every_pairs_level(name: str) -> None:
    machine = read_mock_machine(name)
    assert machine.name == name
    count = len(machine.gpus)
    assert len(machine.levels) == count * (count - 1) // 2
    assert len({gpu.uuid for gpu in machine.gpus}) == len({gpu.pci for gpu in machine.gpus}) == count
    links_between(machine)


@pytest.mark.parametrize("name", PROMISED)
def test_seeds_change_the_uuids_and_nothing_else(name: str) -> None:
    first, again, other = read_mock_machine(f"{name}@a"), read_mock_machine(f"{name}@a"), read_mock_machine(f"{name}@b")
    assert first == again
    assert {gpu.uuid for gpu in first.gpus}.isdisjoint(gpu.uuid for gpu in other.gpus)
    assert [gpu.pci for gpu in first.gpus] == [gpu.pci for gpu in other.gpus]


def test_dgx_1p_is_the_pascal_cube_mesh() -> None:
    """2.1."""
    machine = read_mock_machine("dgx-1p")
    pairs = "01 02 03 04 12 13 15 23 26 37 45 46 47 56 57 67".split()
    assert links_between(machine) == {(int(pair[0]), int(pair[1])): 1 for pair in pairs}
    assert pairs_at(machine, PcieLevel.PIX) == {(0, 2), (1, 3), (4, 6), (5, 7)}
    assert len(pairs_at(machine, PcieLevel.PHB)) == 8
    assert pairs_at(machine, PcieLevel.SYS) == {(low, high) for low in range(4) for high in range(4, 8)}
    assert machine.gpus[0].board.compute_capability == (6, 0)
    assert all(sum(port is not None for port in gpu.ports) == 4 for gpu in machine.gpus)


def test_dgx_1v_is_the_volta_cube_mesh() -> None:
    """2.2: each row sums to six, 24 links in all."""
    machine = read_mock_machine("dgx-1v")
    links = links_between(machine)
    assert sum(links.values()) == 24
    for gpu in range(8):
        assert sum(count for pair, count in links.items() if gpu in pair) == 6
    assert {pair for pair, count in links.items() if count == 2} == {
        (0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)
    }  # fmt: skip
    assert pairs_at(machine, PcieLevel.PIX) == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert pairs_at(machine, PcieLevel.SYS) == {(low, high) for low in range(4) for high in range(4, 8)}
    assert len(pairs_at(machine, PcieLevel.PHB)) == 8
    assert numa_nodes(machine) == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "gpus", "links", "switches"),
    [("dgx-2", 16, 6, 12), ("dgx-a100", 8, 12, 6), ("dgx-h100", 8, 18, 4), ("dgx-h200", 8, 18, 4), ("hgx-b200", 8, 18, 2)],
)
def test_switched_machines_have_all_links_on_switches(name: str, gpus: int, links: int, switches: int) -> None:
    """2.3, 2.4, 2.6, 2.7: every link is spread over all switches."""
    machine = read_mock_machine(name)
    assert len(machine.gpus) == gpus
    assert switch_links(machine) == {links}
    assert len({port.remote_pci for port in machine.gpus[0].ports if port is not None}) == min(switches, links)


@pytest.mark.parametrize(
    ("name", "numa"),
    [
        ("dgx-a100", [3, 3, 1, 1, 7, 7, 5, 5]),
        ("hgx-h100-4", [3, 1, 7, 5]),
        ("dgx-h100", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("dgx-h200", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("hgx-b200", [0, 0, 2, 2, 3, 3, 5, 5]),
        ("gb200-tray", [0, 0, 1, 1]),
        ("rtx4090", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("gb10", [-1]),
    ],
)
def test_numa_nodes_are_the_references(name: str, numa: list[int]) -> None:
    assert numa_nodes(read_mock_machine(name)) == numa


def test_dgx_a100_has_its_bus_addresses() -> None:
    """2.4."""
    assert [f"{gpu.pci.bus:02X}" for gpu in read_mock_machine("dgx-a100").gpus] == "07 0F 47 4E 87 90 B7 BD".split()


@pytest.mark.parametrize(("name", "count"), [("hgx-a100-4", 4), ("hgx-h100-4", 6)])
def test_switchless_boards_share_their_links_among_three_peers(name: str, count: int) -> None:
    """2.5."""
    links = links_between(read_mock_machine(name))
    assert set(links.values()) == {count}
    assert len(links) == 6


def test_two_switchless_boards_have_no_link_between_them() -> None:
    links = links_between(read_mock_machine("hgx-a100-4x2"))
    assert len(links) == 12
    assert all((low < 4) == (high < 4) for low, high in links)


def test_bridged_pairs_are_no_neighbours() -> None:
    """2.8: device-plugin#546."""
    machine = read_mock_machine("a100-pcie-bridged")
    assert links_between(machine) == {(0, 2): 12, (1, 3): 12, (4, 5): 12, (6, 7): 12}
    assert set(machine.levels.values()) == {PcieLevel.SYS}


def test_a_half_bridged_machine_has_one_pair() -> None:
    """2.8: device-plugin#436."""
    machine = read_mock_machine("a100-pcie-half-bridged")
    assert links_between(machine) == {(0, 1): 12}
    assert machine.levels[2, 3] is PcieLevel.NODE


def test_l40s_has_two_roots_a_socket() -> None:
    """2.9."""
    machine = read_mock_machine("l40s")
    assert [f"{gpu.pci.bus:02X}" for gpu in machine.gpus] == "17 31 18 32 B1 CA B2 CB".split()
    assert pairs_at(machine, PcieLevel.PIX) == {(0, 2), (1, 3), (4, 6), (5, 7)}
    assert pairs_at(machine, PcieLevel.NODE) == {(0, 1), (0, 3), (1, 2), (2, 3), (4, 5), (4, 7), (5, 6), (6, 7)}
    assert len(pairs_at(machine, PcieLevel.SYS)) == 16
    assert links_between(machine) == {}


def test_t4_and_4090_have_their_addresses_and_levels() -> None:
    """2.9."""
    assert [f"{gpu.pci.bus:02X}" for gpu in read_mock_machine("t4").gpus] == "3B 86 AF D8".split()
    assert set(read_mock_machine("rtx4090").levels.values()) == {PcieLevel.SYS}


def test_a_gb200_tray_belongs_to_a_rack() -> None:
    """2.10: cluster and clique are the file's, not the seed's: trays of one rack share them."""
    first, second = read_mock_machine("gb200-tray@node-1"), read_mock_machine("gb200-tray@node-2")
    assert first.fabric == second.fabric
    assert isinstance(first.fabric, FabricInfo)
    assert (first.fabric.cluster_uuid.hex(), first.fabric.clique_id) == ("9c6f5af353bf49b5a436b66766c413c3", 4026)
    assert switch_links(first) == {18}


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h200", "hgx-b200", "hgx-h100-4"])
def test_a_single_node_fabric_has_a_cluster_of_zeros(name: str) -> None:
    """2.10: this must not count as a shared domain."""
    fabric = read_mock_machine(name).fabric
    assert fabric is not None
    assert fabric.cluster_uuid == bytes(16)


@pytest.mark.parametrize("name", ["dgx-a100", "a100-pcie-bridged", "l40s", "dgx-1v"])
def test_boards_before_hopper_know_no_fabric(name: str) -> None:
    assert not any(gpu.board.has_fabric for gpu in read_mock_machine(name).gpus)


MEMORY_MIB = {
    "p100-sxm2-16gb": 16280, "v100-sxm2-16gb": 16160, "t4": 15360, "a100-sxm4-40gb": 40960, "a100-sxm4-80gb": 81920,
    "a100-pcie-40gb": 40960, "a100-pcie-80gb": 81920, "a30": 24576, "l4": 23034, "l40s": 46068, "rtx4090": 24564,
    "h100-sxm5-80gb": 81559, "h100-pcie-80gb": 81559, "h100-nvl-94gb": 95830, "h200-sxm5-141gb": 143771,
    "h200-nvl-141gb": 143771, "b200": 183359, "b300": 275040, "gb200": 189471, "gb300": 284208, "rtx-pro-6000-se": 97887,
    "rtx5090": 32607,
}  # fmt: skip


@pytest.mark.parametrize(("board", "memory_mib"), MEMORY_MIB.items())
def test_boards_have_the_memory_that_nvidia_smi_says(board: str, memory_mib: int) -> None:
    """2.11."""
    assert read_boards()[board].memory_mib == memory_mib


@pytest.mark.parametrize(
    ("board", "device_id", "compute"),
    [
        ("t4", 0x1EB8, "7.5"), ("a100-sxm4-40gb", 0x20B0, "8.0"), ("a100-sxm4-80gb", 0x20B2, "8.0"),
        ("a100-pcie-40gb", 0x20F1, "8.0"), ("a100-pcie-80gb", 0x20B5, "8.0"), ("a30", 0x20B7, "8.0"), ("l40s", 0x26B5, "8.9"),
        ("h100-sxm5-80gb", 0x2330, "9.0"), ("h100-pcie-80gb", 0x2331, "9.0"), ("h100-nvl-94gb", 0x2321, "9.0"),
        ("h200-sxm5-141gb", 0x2335, "9.0"), ("h200-nvl-141gb", 0x233B, "9.0"), ("b200", 0x2901, "10.0"),
        ("b300", 0x3182, "10.3"), ("gb200", 0x2941, "10.0"), ("gb300", 0x31C2, "10.3"), ("rtx-pro-6000-se", 0x2BB5, "12.0"),
    ],
)  # fmt: skip
def test_boards_have_their_pci_number_and_compute_capability(board: str, device_id: int, compute: str) -> None:
    """2.11: mig-parted's table is the authority."""
    document = read_boards()[board]
    assert (document.device_id, document.compute) == (device_id, compute)


def test_a_product_name_of_eighty_bytes_is_there() -> None:
    assert {len(gpu.board.product.encode()) for gpu in read_mock_machine("long-name").gpus} == {80}


def test_domains_of_more_than_four_digits_are_there() -> None:
    machine = read_mock_machine("wide-pci-domain")
    assert [str(gpu.pci) for gpu in machine.gpus] == ["10000:01:00.0", "a1b2c3d4:00:00.0"]
    assert machine.gpus[1].pcie_root is None


EIGHT = {
    19: (0x0, 1, 7, [0, 1, 2, 3, 4, 5, 6], 1), 20: (0x7, 1, 1, [0, 1, 2, 3, 4, 5, 6], 1), 15: (0x9, 1, 4, [0, 2, 4, 6], 2),
    14: (0x1, 2, 3, [0, 2, 4], 2), 9: (0x2, 3, 2, [0, 4], 4), 5: (0x3, 4, 1, [0], 4), 0: (0x4, 7, 1, [0], 8),
}  # fmt: skip
A30 = {14: (0x0, 1, 4, [0, 1, 2, 3], 1), 21: (0x7, 1, 1, [0, 1, 2, 3], 1), 5: (0x1, 2, 2, [0, 2], 2), 6: (0x8, 2, 1, [0, 2], 2),
       0: (0x3, 4, 1, [0], 4)}  # fmt: skip
RTX = {
    14: (0x0, 1, 4, [0, 3, 6, 9], 3), 21: (0x7, 1, 1, [0, 3, 6, 9], 3), 47: (0xA, 1, 4, [0, 3, 6, 9], 3),
    65: (0xF, 1, 1, [0, 3, 6, 9], 3), 67: (0xD, 1, 4, [0, 3, 6, 9], 3), 5: (0x1, 2, 2, [0, 6], 6), 35: (0xB, 2, 2, [0, 6], 6),
    64: (0x10, 2, 1, [0, 6], 6), 66: (0xE, 2, 2, [0, 6], 6), 0: (0x3, 4, 1, [0], 12), 32: (0xC, 4, 1, [0], 12),
}  # fmt: skip


def mig_tables() -> Iterator[object]:
    for name in read_mig_tables():
        yield pytest.param(name, {"a30": A30, "rtx-pro-6000": RTX}.get(name, EIGHT), id=name)


@pytest.mark.parametrize(("name", "rows"), list(mig_tables()))
def test_mig_profiles_have_the_references_numbers_and_places(name: str, rows: dict[int, tuple[object, ...]]) -> None:
    """2.12."""
    profiles = read_mig_tables()[name].profiles
    assert {one.id: (one.number, one.slices, one.count, one.starts, one.size) for one in profiles} == rows


@pytest.mark.parametrize(
    ("name", "sm"),
    [
        ("a100-40gb", [14, 14, 14, 28, 42, 56, 98]),
        ("a100-80gb", [14, 14, 14, 28, 42, 56, 98]),
        ("h100-80gb", [16, 16, 26, 32, 60, 64, 132]),
        ("h100-94gb", [16, 16, 26, 32, 60, 64, 132]),
        ("h200-141gb", [16, 16, 26, 32, 60, 64, 132]),
    ],
)
def test_mig_profiles_have_the_references_multiprocessors(name: str, sm: list[int]) -> None:
    """2.12."""
    assert [profile.sm for profile in read_mig_tables()[name].profiles] == sm


@pytest.mark.parametrize(
    ("name", "profile_id", "memory_mib"),
    [
        ("a100-40gb", 19, 4864), ("a100-80gb", 19, 9856), ("a100-80gb", 15, 19968), ("a100-80gb", 9, 40192),
        ("a100-80gb", 0, 80384), ("h100-80gb", 19, 9984), ("h200-141gb", 19, 16384), ("h200-141gb", 14, 33024),
        ("h200-141gb", 5, 71168),
    ],
)  # fmt: skip
def test_mig_profiles_have_the_references_memory(name: str, profile_id: int, memory_mib: int) -> None:
    """2.12, in MiB."""
    profiles = {profile.id: profile for profile in read_mig_tables()[name].profiles}
    assert profiles[profile_id].memory_mib == memory_mib


def test_every_mig_table_fits_its_boards_memory() -> None:
    for name, board in read_boards().items():
        if board.mig is not None and board.memory_mib is not None:
            assert all(profile.memory_mib <= board.memory_mib for profile in read_mig_tables()[board.mig].profiles), name


def test_addresses_are_in_nvmls_order_but_where_the_reference_says_otherwise() -> None:
    for name in PROMISED:
        addresses: list[PciAddress] = [gpu.pci for gpu in read_mock_machine(name).gpus]
        assert (addresses == sorted(addresses)) == (name != "l40s")
