"""A call that hangs, on both backends: its GPU is left out alone, NVML can be closed and opened above it, and it comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.nvml.reader import read_machine
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.readings import MachineReading
from driver.nvml.real import RealNvml
from tests.contract.nvml.conftest import Backend
from tests.contract.nvml.test_answers import code_of
from tests.contract.nvml.test_real import NoSysfs

Open = Callable[[str], Backend]


def count_threads() -> int:
    return sum(thread.name.startswith(("nvml-gpu", "nvml-levels")) for thread in threading.enumerate())


def wait_for_threads(count: int) -> None:
    end_s = time.monotonic() + 30
    while count_threads() != count:
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture
def dgx(open_backend: Open) -> Iterator[Backend]:
    """Open as a test gets it; open as the fixture closes it."""
    backend = open_backend("dgx-h100")
    yield backend
    backend.hang_uuid(None)
    wait_for_threads(0)


def read_pass(backend: Backend, threads: ReadingThreads) -> MachineReading:
    """As a process that stays does: open, read, close; the library is open again after it, for the fixture."""
    reading = read_machine(backend.library, NoSysfs(), threads)
    backend.library.shutdown()
    backend.library.init()
    return reading


def indices(reading: MachineReading) -> list[int]:
    return sorted(gpu.index for gpu in reading.gpus)


def test_a_gpu_whose_call_hangs_is_left_out_alone_and_comes_back(dgx: Backend) -> None:
    threads = ReadingThreads(deadline_s=3.0)
    dgx.hang_uuid(3)
    first = read_pass(dgx, threads)
    assert indices(first) == [0, 1, 2, 4, 5, 6, 7]
    assert [(each.index, str(each.pci), each.reason) for each in first.failures] == [
        (3, "0000:61:00.0", "no answer within 3 s from nvmlDeviceGetUUID")
    ]
    for _ in range(3):
        assert read_pass(dgx, threads) == first
    assert count_threads() == 1
    dgx.hang_uuid(None)
    wait_for_threads(0)
    last = read_pass(dgx, threads)
    assert (indices(last), last.failures) == ([0, 1, 2, 3, 4, 5, 6, 7], ())


def test_nvml_stays_closed_while_a_call_hangs_and_opens_when_asked(dgx: Backend) -> None:
    """Closed for everybody here, whatever the backend owes to the library below."""
    before = dgx.library.device_handle_by_index(0)
    dgx.hang_uuid(3)
    read_machine(dgx.library, NoSysfs(), ReadingThreads(deadline_s=0.5))
    dgx.library.shutdown()
    assert code_of(dgx.library.device_count) == "UNINITIALIZED"
    assert code_of(dgx.library.shutdown) == "UNINITIALIZED"
    dgx.library.init()
    assert dgx.library.device_count() == 8
    assert code_of(lambda: dgx.library.device_minor_number(before)) == "INVALID_ARGUMENT"


def test_a_call_that_comes_back_after_the_close_pays_for_it(dgx: Backend) -> None:
    """The library is shut down and unloaded then, so that an upgraded one can be loaded: the kernel module is free."""
    dgx.hang_uuid(3)
    read_machine(dgx.library, NoSysfs(), ReadingThreads(deadline_s=0.5))
    dgx.library.shutdown()
    dgx.hang_uuid(None)
    wait_for_threads(0)
    assert code_of(dgx.library.device_count) == "UNINITIALIZED"
    dgx.library.init()
    assert indices(read_machine(dgx.library, NoSysfs())) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_another_librarys_file_waits_for_a_call_that_hangs_in_this_one(dgx: Backend, tmp_path: Path) -> None:
    """One library a process: a path that changed is refused until the call is back."""
    if not isinstance(dgx.library, RealNvml):
        pytest.skip("the mock has no file")
    dgx.hang_uuid(3)
    read_machine(dgx.library, NoSysfs(), ReadingThreads(deadline_s=0.5))
    dgx.library.shutdown()
    other = RealNvml(tmp_path / "absent.so")
    assert code_of(other.init) == "ALREADY_INITIALIZED"
    dgx.hang_uuid(None)
    wait_for_threads(0)
    assert code_of(other.init) == "LIBRARY_NOT_FOUND"
    dgx.library.init()
