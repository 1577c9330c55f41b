"""The backends that the contract is run on: the mock, pynvml over a stub library, and pynvml over real hardware."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.nvml.library import NvmlLibrary
from driver.nvml.mock import open_mock, read_mock_machine, write_faults
from driver.nvml.mock.faults import CallHangs, XidEvent
from driver.nvml.mock.model import Machine
from driver.nvml.real import RealNvml
from tests.contract.nvml.describe import describe

STUB_SOURCES = [Path(__file__).parent / "stub" / name for name in ("machine.c", "mig.c")]
SONAME = "libnvidia-ml.so.1"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A library that is not initialised yet, the machine that it should answer for, and what a test does to it."""

    library: NvmlLibrary
    machine: Machine
    raise_xid: Callable[[int, int], None]
    hang_uuid: Callable[[int | None], None]
    """From now on the UUID of the GPU of this index is not answered; None lets it be answered again."""


def build_stub(folder: Path, *flags: str) -> Path:
    """Compiles the stub library."""
    target = folder / SONAME
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-O1", f"-Wl,-soname,{SONAME}", *flags]
    subprocess.run([*command, "-o", str(target), *map(str, STUB_SOURCES)], check=True, timeout=100)
    return target


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_stub(tmp_path_factory.mktemp("nvml-stub"))


@pytest.fixture(scope="session")
def old_stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a driver that lacks the newer calls."""
    return build_stub(tmp_path_factory.mktemp("nvml-old-stub"), "-DOLD_DRIVER")


def open_stub(library: Path, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Pynvml over the stub that answers for ``machine``."""
    description = tmp_path / "machine.txt"
    description.write_text(describe(machine), encoding="ascii")
    monkeypatch.setenv("NVML_STUB", str(description))

    def raise_xid(gpu: int, xid: int) -> None:
        part = tmp_path / "part"
        part.write_text(f"{gpu} 8 {xid} {0xFFFFFFFF} {0xFFFFFFFF}\n", encoding="ascii")
        part.rename(tmp_path / "machine.txt.events")

    def hang_uuid(gpu: int | None) -> None:
        part = tmp_path / "part"
        part.write_text(f"{-1 if gpu is None else gpu}\n", encoding="ascii")
        part.rename(tmp_path / "machine.txt.hang")

    return Backend(library=RealNvml(library), machine=machine, raise_xid=raise_xid, hang_uuid=hang_uuid)


def open_mocked(spec: str, tmp_path: Path) -> Backend:
    """The mock of a named machine."""
    mock = open_mock(spec, tmp_path)

    def raise_xid(gpu: int, xid: int) -> None:
        write_faults(tmp_path, [XidEvent(gpu=gpu, xid=xid)])

    def hang_uuid(gpu: int | None) -> None:
        write_faults(tmp_path, [] if gpu is None else [CallHangs(call="nvmlDeviceGetUUID", gpu=gpu)])

    return Backend(library=mock.library, machine=mock.machine, raise_xid=raise_xid, hang_uuid=hang_uuid)


@pytest.fixture(params=["mock", "stub"])
def open_backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Backend]]:
    """Opens a named machine behind either backend; closes it after the test."""
    opened: list[Backend] = []

    def open_machine(name: str) -> Backend:
        if request.param == "mock":
            backend = open_mocked(name, tmp_path)
        else:
            library = request.getfixturevalue("stub_library")
            backend = open_stub(library, read_mock_machine(name), tmp_path, monkeypatch)
        backend.library.init()
        opened.append(backend)
        return backend

    yield open_machine
    for backend in opened:
        backend.library.shutdown()


@pytest.fixture
def hardware() -> Iterator[NvmlLibrary]:
    """The real thing; the test is skipped where there is none."""
    library = RealNvml(None)
    try:
        library.init()
    except NvmlError as err:
        pytest.skip(f"no NVIDIA GPU at hand: {err}")
    yield library
    library.shutdown()
