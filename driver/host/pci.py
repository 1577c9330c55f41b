"""What sysfs says about a PCI function."""

from __future__ import annotations

import re
from pathlib import Path

from driver import log
from driver.names import PciAddress

_LOG = log.logger(__name__)
_ROOT_COMPLEX = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_MOST_BYTES = 32


class SysfsPci:
    """Facts of PCI functions from a sysfs tree. All of them are optional: on a virtual machine they may be hidden (B23).

    What is missing is said once a device in the log, not at each reading.
    """

    def __init__(self, sys: Path) -> None:
        self._sys = sys
        self._told: set[tuple[PciAddress, str]] = set()

    def numa_node(self, pci: PciAddress) -> int | None:
        """The NUMA node next to the slot. None where sysfs says -1 or nothing."""
        path = self._device(pci) / "numa_node"
        try:
            with path.open("rb") as file:
                node = int(file.read(_MOST_BYTES))
        except (OSError, ValueError) as err:
            self._tell(pci, "NUMA node", f"{path}: {err}")
            return None
        if node < 0:
            self._tell(pci, "NUMA node", f"{path} says {node}")
            return None
        return node

    def pcie_root(self, pci: PciAddress) -> str | None:
        """The root complex that the slot hangs from, ``pci0000:17``.

        None where sysfs has no such device, or where its path does not start at a PCI root (VMBUS and ACPI paths of virtual
        machines).
        """
        link = self._device(pci)
        try:
            parts = link.resolve(strict=True).relative_to((self._sys / "devices").resolve(strict=True)).parts
        except (OSError, ValueError, RuntimeError) as err:
            self._tell(pci, "PCIe root", f"{link}: {err}")
            return None
        if not parts or _ROOT_COMPLEX.fullmatch(parts[0]) is None:
            self._tell(pci, "PCIe root", f"{link} leads to devices/{'/'.join(parts)}, which starts at no PCI root")
            return None
        return parts[0]

    def _device(self, pci: PciAddress) -> Path:
        return self._sys / "bus/pci/devices" / str(pci)

    def _tell(self, pci: PciAddress, fact: str, why: str) -> None:
        if (pci, fact) not in self._told:
            self._told.add((pci, fact))
            log.event(_LOG, log.WARNING, "a GPU is published without a fact of its slot", gpu=str(pci), fact=fact, why=why)
