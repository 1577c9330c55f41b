"""``read_machine`` and calls that do not come back: one GPU's trouble, whichever call it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.nvml.calls import NVML_CALLS
from driver.nvml.facts import OPTIONAL, REQUIRED
from driver.nvml.library import Device, NvmlLibrary
from driver.nvml.mock import write_faults
from driver.nvml.mock.faults import CallHangs, GpuLost
from driver.nvml.reader import read_machine
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.readings import MachineReading, PcieLevel
from tests.unit.nvml.changed import Changed, Sysfs, open_library

BEFORE_THE_ADDRESS = ("device_handle_by_index", "device_pci_info")
PER_GPU = (
    *BEFORE_THE_ADDRESS,
    *(fact.method for fact in (*REQUIRED.values(), *OPTIONAL.values())),
    "device_nvlink_state",
    "device_nvlink_remote_device_type",
    "device_nvlink_remote_pci_info",
)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Set at the end of the test: no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("nvml-"):
            thread.join(30)


def hang_in(library: NvmlLibrary, let_go: threading.Event, *methods: str) -> Any:
    """``library``, but that the first of ``methods`` hangs for GPU 0, the second for GPU 1, and so on; "" is none."""

    def build_call(method: str, gpu: int) -> Callable[..., object]:
        handle = library.device_handle_by_index(gpu)

        def call(subject: Device | int, *args: object) -> object:
            if subject in (handle, gpu):
                assert let_go.wait(60)
            return getattr(library, method)(subject, *args)

        return call

    return Changed(library, **{method: build_call(method, gpu) for gpu, method in enumerate(methods) if method})


def hang_in_a_level(library: NvmlLibrary, let_go: threading.Event) -> Any:
    """``library``, but that the level of GPUs 0 and 2 is not answered."""
    pair = library.device_handle_by_index(0), library.device_handle_by_index(2)

    def level(first: Device, second: Device) -> int:
        if (first, second) == pair:
            assert let_go.wait(60)
        return library.device_topology_common_ancestor(first, second)

    return Changed(library, device_topology_common_ancestor=level)


def indices(reading: MachineReading) -> list[int]:
    return [gpu.index for gpu in reading.gpus]


def test_any_call_that_hangs_is_its_gpus_failure(tmp_path: Path, let_go: threading.Event) -> None:
    """That of an optional fact, too. What is known of the GPU by then is told."""
    library = hang_in(open_library("dgx-2", tmp_path), let_go, *PER_GPU)
    reading = read_machine(library, Sysfs(), ReadingThreads(deadline_s=2.0))
    assert indices(reading) == list(range(len(PER_GPU), 16))
    for failure, method in zip(reading.failures, PER_GPU, strict=True):
        assert failure.reason == f"no answer within 2 s from {NVML_CALLS[method]}"
        assert not failure.is_lost
        assert (failure.pci is None) == (method in BEFORE_THE_ADDRESS), method
        assert (failure.uuid is None) == (method in (*BEFORE_THE_ADDRESS, "device_uuid")), method


def test_a_gpu_that_hangs_leaves_its_neighbours_and_their_levels(tmp_path: Path, let_go: threading.Event) -> None:
    """Only the levels of its own pairs are unknown."""
    library = hang_in(open_library("hgx-h100-4", tmp_path), let_go, "", "device_name")
    reading = read_machine(library, Sysfs(), ReadingThreads(deadline_s=1.0))
    assert indices(reading) == [0, 2, 3]
    assert [failure.index for failure in reading.failures] == [1]
    pcis = {gpu.pci for gpu in reading.gpus}
    assert len(reading.pcie_levels) == 3
    assert all(pcis.issuperset(pair) for pair in reading.pcie_levels)
    assert set(reading.pcie_levels.values()) == {PcieLevel.SYS}


def test_a_level_that_hangs_costs_no_gpu(tmp_path: Path, let_go: threading.Event) -> None:
    """What was answered before is kept; the rest of that GPU's row is unknown, also in the next pass."""
    library = hang_in_a_level(open_library("hgx-h100-4", tmp_path), let_go)
    threads = ReadingThreads(deadline_s=1.0)
    for _ in range(2):
        reading = read_machine(library, Sysfs(), threads)
        by_pci = {gpu.pci: gpu.index for gpu in reading.gpus}
        assert (len(by_pci), reading.failures) == (4, ())
        assert {(by_pci[first], by_pci[second]) for first, second in reading.pcie_levels} == {(0, 1), (1, 2), (1, 3), (2, 3)}


def test_a_row_that_hangs_says_nothing_of_a_gpu_that_failed_since(tmp_path: Path, let_go: threading.Event) -> None:
    library = hang_in_a_level(open_library("hgx-h100-4", tmp_path), let_go)
    threads = ReadingThreads(deadline_s=1.0)
    read_machine(library, Sysfs(), threads)
    write_faults(tmp_path, [GpuLost(gpu=1)])
    reading = read_machine(library, Sysfs(), threads)
    assert indices(reading) == [0, 2, 3]
    assert [sorted((pair[0].bus, pair[1].bus)) for pair in reading.pcie_levels] == [[gpu.pci.bus for gpu in reading.gpus[1:]]]


def test_two_gpus_may_hang_and_come_back_one_by_one(tmp_path: Path) -> None:
    """With the mock's own fault, as it is played on a running node."""
    hangs = [CallHangs(call="nvmlDeviceGetUUID", gpu=3), CallHangs(call="nvmlDeviceGetName", gpu=5)]
    library = open_library("dgx-h100", tmp_path, *hangs)
    threads = ReadingThreads(deadline_s=1.0)
    reading = read_machine(library, Sysfs(), threads)
    assert indices(reading) == [0, 1, 2, 4, 6, 7]
    assert [(each.index, each.reason.split()[-1]) for each in reading.failures] == [
        (3, "nvmlDeviceGetUUID"),
        (5, "nvmlDeviceGetName"),
    ]
    assert read_machine(library, Sysfs(), threads) == reading
    for left, there in ((hangs[1:], [0, 1, 2, 3, 4, 6, 7]), ([], [0, 1, 2, 3, 4, 5, 6, 7])):
        write_faults(tmp_path, left)
        _wait_for_threads(len(left))
        assert indices(read_machine(library, Sysfs(), threads)) == there


def test_passes_over_a_machine_that_hangs_keep_one_thread_a_gpu(tmp_path: Path) -> None:
    """However many passes: a process that runs for months must not run out of threads."""
    library = open_library("dgx-h100", tmp_path, CallHangs(call="nvmlDeviceGetHandleByIndex"))
    threads = ReadingThreads(deadline_s=0.2)
    for _ in range(10):
        reading = read_machine(library, Sysfs(), threads)
        assert (reading.gpus, [failure.index for failure in reading.failures]) == ((), list(range(8)))
        assert len(_hung_threads()) == 8
    write_faults(tmp_path, [])
    _wait_for_threads(0)
    assert len(read_machine(library, Sysfs(), ReadingThreads()).gpus) == 8


def _hung_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("nvml-gpu-")]


def _wait_for_threads(count: int) -> None:
    """The mock looks at its faults 50 times a second."""
    pause = threading.Event()
    for _ in range(3000):
        if len(_hung_threads()) == count:
            return
        pause.wait(0.01)
    raise AssertionError(f"not {count} hung threads after 30 s")
