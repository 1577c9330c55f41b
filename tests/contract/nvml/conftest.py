"""The backends that the contract is run on: the mock, pynvml over a stub library, and pynvml over real hardware."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.nvml.library import NvmlLibrary
from driver.nvml.mock import open_mock, read_mock_machine, write_faults
from driver.nvml.mock.events import encode_type
from driver.nvml.mock.faults import CallHangs, Event, Fault, GpuLost, XidEvent
from driver.nvml.mock.model import Machine
from driver.nvml.real import RealNvml
from tests.contract.nvml.describe import describe

STUB_SOURCES = [Path(__file__).parent / "stub" / name for name in ("machine.c", "condition.c", "mig.c")]
SONAME = "libnvidia-ml.so.1"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A library that is not initialised yet, the machine that it should answer for, and what a test does to it."""

    library: NvmlLibrary
    machine: Machine
    raise_event: Callable[[Event], None]
    lose: Callable[[int], None]
    """From now on the GPU of this index is lost."""
    hang_uuid: Callable[[int | None], None]
    """From now on the UUID of the GPU of this index is not answered; None lets it be answered again."""

    def raise_xid(self, gpu: int, xid: int) -> None:
        """The event of an XID."""
        self.raise_event(XidEvent(gpu=gpu, xid=xid))


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

    def tell(ending: str, text: str) -> None:
        part = tmp_path / "part"
        part.write_text(f"{text}\n", encoding="ascii")
        part.rename(tmp_path / f"machine.txt.{ending}")

    def raise_event(event: Event) -> None:
        data = event.xid if isinstance(event, XidEvent) else 0
        tell("events", f"{event.gpu} {int(encode_type(event))} {data} {0xFFFFFFFF} {0xFFFFFFFF}")

    return Backend(
        library=RealNvml(library),
        machine=machine,
        raise_event=raise_event,
        lose=lambda gpu: tell("lost", str(gpu)),
        hang_uuid=lambda gpu: tell("hang", str(-1 if gpu is None else gpu)),
    )


def open_mocked(spec: str, tmp_path: Path, faults: Sequence[Fault] = ()) -> Backend:
    """The mock of a named machine, with these faults and its own."""
    mock = open_mock(spec, tmp_path)

    def play(*more: Fault) -> None:
        write_faults(tmp_path, [*faults, *more])

    play()
    return Backend(
        library=mock.library,
        machine=replace(mock.machine, faults=(*mock.machine.faults, *faults)),
        raise_event=play,
        lose=lambda gpu: play(GpuLost(gpu=gpu)),
        hang_uuid=lambda gpu: play() if gpu is None else play(CallHangs(call="nvmlDeviceGetUUID", gpu=gpu)),
    )


@pytest.fixture(params=["mock", "stub"])
def open_backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Backend]]:
    """Opens a named machine, with faults, behind either backend; closes it after the test."""
    opened: list[Backend] = []

    def open_machine(name: str, *faults: Fault) -> Backend:
        if request.param == "mock":
            backend = open_mocked(name, tmp_path, faults)
        else:
            library, machine = request.getfixturevalue("stub_library"), read_mock_machine(name)
            backend = open_stub(library, replace(machine, faults=(*machine.faults, *faults)), tmp_path, monkeypatch)
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
