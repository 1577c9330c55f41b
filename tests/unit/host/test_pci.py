"""What sysfs tells of a slot, and that a silent or odd sysfs is only a missing fact."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from driver import log
from driver.host.pci import SysfsPci
from driver.names import PciAddress

SLOT = PciAddress(0, 0x4E, 0)


def make_slot(sys: Path, target: str, numa_node: str | None = "1\n") -> None:
    """A device folder at ``devices/<target>`` and the bus's link to it, as the kernel makes them."""
    device = sys / "devices" / target
    device.mkdir(parents=True)
    if numa_node is not None:
        (device / "numa_node").write_text(numa_node)
    link = sys / "bus/pci/devices" / str(SLOT)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("../../../devices") / target)


def test_a_slot_behind_switches_hangs_from_its_root_complex(tmp_path: Path) -> None:
    make_slot(tmp_path, "pci0000:4a/0000:4a:02.0/0000:4b:00.0/0000:4e:00.0")
    pci = SysfsPci(tmp_path)
    assert (pci.pcie_root(SLOT), pci.numa_node(SLOT)) == ("pci0000:4a", 1)


def test_a_root_complex_in_a_long_domain_is_one(tmp_path: Path) -> None:
    make_slot(tmp_path, "pci10000:00/10000:00:02.0/0000:4e:00.0")
    assert SysfsPci(tmp_path).pcie_root(SLOT) == "pci10000:00"


def test_a_sysfs_that_is_itself_behind_a_link_is_read_alike(tmp_path: Path) -> None:
    make_slot(tmp_path / "real", "pci0000:4a/0000:4e:00.0")
    (tmp_path / "sys").symlink_to("real")
    assert SysfsPci(tmp_path / "sys").pcie_root(SLOT) == "pci0000:4a"


NO_ROOTS = {
    "VMBUS, as on Azure": "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/0a1b/pci0001:00/0001:00:00.0",
    "platform": "platform/3f000000.pcie/pci0000:00/0000:4e:00.0",
    "something like a root": "pci-0000/0000:4e:00.0",
}


@pytest.mark.parametrize("target", NO_ROOTS.values(), ids=NO_ROOTS.keys())
def test_a_path_that_starts_at_no_root_complex_has_none(tmp_path: Path, target: str) -> None:
    make_slot(tmp_path, target)
    assert SysfsPci(tmp_path).pcie_root(SLOT) is None


def test_a_link_that_leads_nowhere_or_out_of_devices_has_no_root(tmp_path: Path) -> None:
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (tmp_path / "devices").mkdir()
    (links / "0000:4e:00.0").symlink_to("../../../devices/pci0000:4a/gone")
    (links / "0000:4f:00.0").symlink_to("/etc")
    (links / "0000:50:00.0").symlink_to("0000:50:00.0")
    pci = SysfsPci(tmp_path)
    assert [pci.pcie_root(PciAddress(0, bus, 0)) for bus in (0x4E, 0x4F, 0x50, 0x51)] == [None] * 4


NUMA = {"a node": ("3\n", 3), "node 0": ("0\n", 0), "none": ("-1\n", None), "junk": ("x" * 1000, None), "empty": ("", None)}


@pytest.mark.parametrize(("text", "node"), NUMA.values(), ids=NUMA.keys())
def test_a_numa_node_is_a_number_from_0_or_unknown(tmp_path: Path, text: str, node: int | None) -> None:
    make_slot(tmp_path, "pci0000:4a/0000:4e:00.0", text)
    assert SysfsPci(tmp_path).numa_node(SLOT) == node


def test_no_sysfs_at_all_is_no_error(tmp_path: Path) -> None:
    pci = SysfsPci(tmp_path / "nothing")
    assert (pci.numa_node(SLOT), pci.pcie_root(SLOT)) == (None, None)


def test_each_missing_fact_is_said_once_a_device(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Readings come every few seconds; a warning with each would bury the log (B23)."""
    make_slot(tmp_path, "platform/0000:4e:00.0", "-1\n")
    pci = SysfsPci(tmp_path)
    other = PciAddress(0, 0x4F, 0)
    with caplog.at_level(logging.WARNING, logger="driver.host.pci"):
        for _ in range(3):
            for slot in (SLOT, other):
                pci.numa_node(slot)
                pci.pcie_root(slot)
    assert len(caplog.records) == 4
    assert log.read_event(caplog.records[0]).items() >= {"gpu": "0000:4e:00.0", "fact": "NUMA node"}.items()
