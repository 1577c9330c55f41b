"""A scrape is never held up by hardware."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.names import GpuUUID
from driver.node.metrics.gpu_figures import FiguresReader
from driver.nvml.library import NvmlLibrary
from driver.nvml.mock import open_mock, write_faults
from driver.nvml.mock.faults import CallHangs
from driver.nvml.reading_threads import ReadingThreads


class Machine:
    """NVML that is opened for each read; opening may wait, or fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mock = open_mock("dgx-h100", folder)
        self.uuids = [GpuUUID(gpu.uuid) for gpu in self._mock.machine.gpus]
        self.opened = 0
        self.is_open = False
        self.gate: threading.Event | None = None
        self.error: Exception | None = None

    @contextmanager
    def open(self) -> Iterator[NvmlLibrary]:
        self.opened += 1
        if self.gate is not None:
            self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self._mock.library.init()
        self.is_open = True
        try:
            yield self._mock.library
        finally:
            self.is_open = False
            self._mock.library.shutdown()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def build(machine: Machine, *, fresh_s: float, wait_s: float = 30.0, gpu_s: float = 30.0) -> FiguresReader:
    return FiguresReader(machine.open, fresh_s=fresh_s, wait_s=wait_s, threads=ReadingThreads(deadline_s=gpu_s))


def test_every_gpu_is_read_and_nvml_closed_again(machine: Machine) -> None:
    assert [each.uuid for each in build(machine, fresh_s=60).read(machine.uuids)] == machine.uuids
    assert not machine.is_open


def test_scrapes_close_to_each_other_share_a_read(machine: Machine) -> None:
    reader = build(machine, fresh_s=60)
    assert reader.read(machine.uuids) == reader.read(machine.uuids)
    assert machine.opened == 1


def test_later_ones_read_anew(machine: Machine) -> None:
    reader = build(machine, fresh_s=0)
    reader.read(machine.uuids)
    time.sleep(0.001)
    reader.read(machine.uuids)
    assert machine.opened == 2


def test_scrapes_at_one_moment_share_a_read(machine: Machine) -> None:
    machine.gate = threading.Event()
    reader = build(machine, fresh_s=60)
    counts: list[int] = []
    scrapes = [threading.Thread(target=lambda: counts.append(len(reader.read(machine.uuids)))) for _ in range(6)]
    for each in scrapes:
        each.start()
    machine.gate.set()
    for each in scrapes:
        each.join()
    assert (counts, machine.opened) == ([8] * 6, 1)


def test_a_library_that_hangs_costs_one_scrape_a_moment_and_later_ones_nothing(machine: Machine) -> None:
    machine.gate = threading.Event()
    reader = build(machine, fresh_s=0, wait_s=0.05)
    try:
        for _ in range(10):
            assert reader.read(machine.uuids) == ()
        assert machine.opened == 1, "there is one thread in it, not one for each scrape"
    finally:
        machine.gate.set()


def test_it_is_asked_again_when_it_has_come_back(machine: Machine) -> None:
    machine.gate = threading.Event()
    reader = build(machine, fresh_s=0.2, wait_s=0.05)
    assert reader.read(machine.uuids) == ()
    machine.gate.set()
    deadline = time.monotonic() + 30
    while not reader.read(machine.uuids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_gpu_that_hangs_is_left_out_and_the_others_are_told(machine: Machine) -> None:
    write_faults(machine.folder, [CallHangs(call="nvmlDeviceGetUtilizationRates", gpu=3)])
    try:
        seen = build(machine, fresh_s=60, gpu_s=0.5).read(machine.uuids)
        assert [each.uuid for each in seen] == [uuid for uuid in machine.uuids if uuid != machine.uuids[3]]
    finally:
        write_faults(machine.folder, [])


@pytest.mark.parametrize("error", [NvmlError("nvmlInit", 9, "DRIVER_NOT_LOADED"), ValueError("a bug")], ids=["refused", "bug"])
def test_without_nvml_there_are_no_figures_and_the_next_scrape_asks_again(machine: Machine, error: Exception) -> None:
    reader = build(machine, fresh_s=0)
    machine.error = error
    assert reader.read(machine.uuids) == ()
    machine.error = None
    time.sleep(0.001)
    assert len(reader.read(machine.uuids)) == 8
