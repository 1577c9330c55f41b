"""The one place that chooses between the machine's own NVML and a mock, for every command."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from driver.config.settings import Settings
from driver.errors import StateUnwritable
from driver.host.driver_files import LIBRARY_FOLDERS
from driver.host.inside import resolve_inside
from driver.host.pci import SysfsPci
from driver.host.roots import Roots
from driver.nvml.library import NvmlLibrary
from driver.nvml.mig_memory import MigMemory
from driver.nvml.reader import read_machine
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.readings import MachineReading

MOCK_PREFIX = "mock:"
NVML_SONAME = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A machine that can be asked: its NVML, and the folders that stand for it."""

    library: NvmlLibrary
    roots: Roots
    pci: SysfsPci
    """One for all passes: it says once what sysfs does not tell."""
    find_library: Callable[[], NvmlLibrary] | None = None
    """Looks for NVML anew at each opening: a driver that is installed after us, or upgraded below us, brings another file."""
    threads: ReadingThreads = field(default_factory=ReadingThreads)
    """One for all passes: it knows the GPUs whose calls still hang."""

    def read(self) -> MachineReading:
        """One pass over the machine."""
        return read_machine(self.library, self.pci, self.threads)


def open_backend(settings: Settings, mock_state_dir: Path) -> Backend:
    """The backend that the settings name. Nothing is asked of the hardware yet.

    Raises:
        MachineInvalid: there is no such mock machine, or its file is wrong.
    """
    if settings.nvml.startswith(MOCK_PREFIX):
        return open_mock_backend(settings.nvml.removeprefix(MOCK_PREFIX), mock_state_dir)
    from driver.nvml.real import RealNvml  # noqa: PLC0415

    def find_library() -> NvmlLibrary:
        return RealNvml(settings.nvml_library or find_nvml(settings.driver_root))

    roots = settings.roots
    return Backend(library=find_library(), roots=roots, pci=SysfsPci(roots.sys), find_library=find_library)


def open_mock_backend(machine: str, state_dir: Path) -> Backend:
    """A mock machine: its name, or its file.

    Raises:
        MachineInvalid: there is no such mock machine, or its file is wrong.
        StateUnwritable: what it remembers cannot be kept in ``state_dir``.
    """
    from driver.nvml.mock import open_mock  # noqa: PLC0415  (only where it is used: a real node needs no mock)

    try:
        mock = open_mock(machine, state_dir)
    except OSError as err:
        raise StateUnwritable(
            f"making the mock machine's folder {state_dir}: {err.filename or state_dir}: {err.strerror or err}; "
            "it must be a folder that can be written (--mock-state-dir, by default below the plugin's)"
        ) from err
    return Backend(library=mock.library, roots=mock.roots, pci=SysfsPci(mock.roots.sys))


def find_nvml(driver_root: Path) -> Path | None:
    """``libnvidia-ml.so.1`` below a driver root of its own; None at ``/``, where the loader knows the way.

    Only a regular file counts (B53). Where there is none yet, the answer is where it is to be expected.
    """
    if driver_root == Path("/"):
        return None
    for folder in LIBRARY_FOLDERS:
        with contextlib.suppress(OSError):
            found = driver_root / resolve_inside(driver_root, f"{folder}/{NVML_SONAME}")
            if found.is_file():
                return found
    return driver_root / LIBRARY_FOLDERS[0] / NVML_SONAME


@contextlib.contextmanager
def initialized(backend: Backend) -> Iterator[Backend]:
    """NVML is open inside the block."""
    opened = backend if backend.find_library is None else replace(backend, library=backend.find_library())
    opened.library.init()
    try:
        yield opened
    finally:
        opened.library.shutdown()


@contextlib.contextmanager
def open_for_now(settings: Settings) -> Iterator[Backend]:
    """The backend that the settings name, open inside the block; a mock lives in a temporary folder that goes away again.

    Raises:
        MachineInvalid: there is no such mock machine, or its file is wrong.
        NvmlError: NVML does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-dra-") as folder, initialized(open_backend(settings, Path(folder))) as backend:
        yield backend


@contextlib.contextmanager
def open_nvml(backend: Backend) -> Iterator[NvmlLibrary]:
    """NVML itself, open inside the block."""
    with initialized(backend) as opened:
        yield opened.library


@dataclass(frozen=True, slots=True)
class OpenedForEachPass:
    """A machine that is read now and then by a process that stays: NVML is closed in between."""

    backend: Backend
    memory: MigMemory = field(default_factory=MigMemory)

    def read(self) -> MachineReading:
        """Open NVML, make one pass, close it."""
        with initialized(self.backend) as opened:
            return self.memory.complete(opened.read())
