"""A library whose answers a test changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver.names import PciAddress
from driver.nvml.library import Code, NvmlLibrary, build_error
from driver.nvml.mock import open_mock, write_faults
from driver.nvml.mock.faults import Fault
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading


class Sysfs:
    """PCI facts that say something of every address."""

    def numa_node(self, pci: PciAddress) -> int | None:
        return pci.bus

    def pcie_root(self, pci: PciAddress) -> str | None:
        return f"pci0000:{pci.bus:02x}"


class Changed:
    """A library, but for the methods that are given in its place."""

    def __init__(self, library: NvmlLibrary, **methods: Callable[..., Any]) -> None:
        self._library = library
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name, getattr(self._library, name))


def open_library(name: str, state_dir: Path, *faults: Fault) -> NvmlLibrary:
    library = open_mock(name, state_dir).library
    library.init()
    if faults:
        write_faults(state_dir, faults)
    return library


def read_changed(name: str, state_dir: Path, **methods: Callable[..., Any]) -> MachineReading:
    library: Any = Changed(open_library(name, state_dir), **methods)
    return read_machine(library, Sysfs())


def refuse(code: Code) -> Callable[..., Any]:
    def call(*_: object) -> object:
        raise build_error("nvmlTest", code)

    return call
