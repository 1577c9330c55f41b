"""What GPUs are busy with, and what a GPU that does not answer costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.names import GpuUUID
from driver.nvml.figures import GpuFigures, read_figures
from driver.nvml.mock import open_mock, write_faults
from driver.nvml.mock.faults import CallFails, CallHangs, Fault, GpuLost, Load
from driver.nvml.reading_threads import ReadingThreads


class Machine:
    """An H100 machine whose GPUs are asked twice a test, by the same threads."""

    def __init__(self, folder: Path, name: str = "dgx-h100") -> None:
        mock = open_mock(name, folder)
        self._folder = folder
        self._library = mock.library
        self._library.init()
        self.uuids = [GpuUUID(gpu.uuid) for gpu in mock.machine.gpus]
        self._threads = ReadingThreads(deadline_s=0.3)

    def divide(self, index: int) -> None:
        self._library.device_set_mig_mode(self._library.device_handle_by_index(index), enabled=True)

    def read(self, *faults: Fault) -> dict[int, GpuFigures]:
        write_faults(self._folder, list(faults))
        answers = read_figures(self._library, self.uuids, self._threads)
        return {self.uuids.index(each.uuid): each for each in answers}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_idle_gpu(machine: Machine) -> None:
    first = machine.read()[0]
    assert first == GpuFigures(
        uuid=machine.uuids[0],
        utilization_percent=0,
        memory_used_bytes=0,
        memory_total_bytes=first.memory_total_bytes,
        temperature_celsius=31,
        power_mw=74_000,
    )


def test_each_gpu_has_its_own(machine: Machine) -> None:
    seen = machine.read(Load(gpu=2, percent=93, memory_percent=50, celsius=66, watts=610), Load(gpu=5, percent=7))
    assert [seen[index].utilization_percent for index in range(8)] == [0, 0, 93, 0, 0, 7, 0, 0]
    busy = seen[2]
    assert busy.memory_total_bytes is not None
    assert busy.memory_used_bytes == busy.memory_total_bytes // 2
    assert (busy.temperature_celsius, busy.power_mw) == (66, 610_000)


def test_a_figure_that_nvml_does_not_tell_is_absent_alone(machine: Machine) -> None:
    seen = machine.read(CallFails(call="nvmlDeviceGetPowerUsage", code="NOT_SUPPORTED", gpu=1))
    assert seen[1].power_mw is None
    assert seen[1].temperature_celsius == 31
    assert seen[0].power_mw == 74_000


def test_a_divided_gpu_has_no_utilization(machine: Machine) -> None:
    machine.divide(4)
    seen = machine.read(Load(gpu=4, percent=50, memory_percent=25))
    assert seen[4].utilization_percent is None
    assert seen[4].memory_used_bytes
    assert seen[3].utilization_percent == 0


def test_unified_memory_has_no_size(tmp_path: Path) -> None:
    (only,) = Machine(tmp_path, "gb10").read().values()
    assert (only.memory_used_bytes, only.memory_total_bytes, only.utilization_percent) == (None, None, 0)


def test_a_lost_gpu_is_left_out(machine: Machine) -> None:
    assert sorted(machine.read(GpuLost(gpu=3))) == [0, 1, 2, 4, 5, 6, 7]


def test_a_hung_gpu_is_left_out_and_comes_back_when_it_answers(machine: Machine) -> None:
    hang = CallHangs(call="nvmlDeviceGetTemperature", gpu=6)
    assert sorted(machine.read(hang)) == [0, 1, 2, 3, 4, 5, 7]
    assert sorted(machine.read(hang)) == [0, 1, 2, 3, 4, 5, 7], "it is given up at once, and not asked by a second thread"
    write_back = machine.read()
    for _ in range(50):
        if 6 in write_back:
            break
        write_back = machine.read()
    assert sorted(write_back) == list(range(8))
