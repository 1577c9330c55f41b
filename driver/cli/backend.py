"""The one place that chooses between the machine's own NVML and a mock, for every command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from driver.config.settings import Settings
from driver.host.pci import SysfsPci
from driver.host.roots import Roots
from driver.nvml.library import NvmlLibrary
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading

MOCK_PREFIX = "mock:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A machine that can be asked: its NVML, and the folders that stand for it."""

    library: NvmlLibrary
    roots: Roots

    def read(self) -> MachineReading:
        """One pass over the machine."""
        return read_machine(self.library, SysfsPci(self.roots.sys))


def open_backend(settings: Settings, mock_state_dir: Path) -> Backend:
    """The backend that the settings name. Nothing is asked of the hardware yet.

    Raises:
        MachineInvalid: there is no such mock machine, or its file is wrong.
    """
    if settings.nvml.startswith(MOCK_PREFIX):
        from driver.nvml.mock import open_mock  # noqa: PLC0415  (only where it is used: a real node needs no mock)

        mock = open_mock(settings.nvml.removeprefix(MOCK_PREFIX), mock_state_dir)
        return Backend(library=mock.library, roots=mock.roots)
    from driver.nvml.real import RealNvml  # noqa: PLC0415

    return Backend(library=RealNvml(settings.nvml_library), roots=settings.roots)


@contextlib.contextmanager
def initialized(backend: Backend) -> Iterator[Backend]:
    """NVML is open inside the block."""
    backend.library.init()
    try:
        yield backend
    finally:
        backend.library.shutdown()


@dataclass(frozen=True, slots=True)
class OpenedForEachPass:
    """A machine that is read now and then by a process that stays: NVML is closed in between."""

    backend: Backend

    def read(self) -> MachineReading:
        """Open NVML, make one pass, close it."""
        with initialized(self.backend):
            return self.backend.read()
