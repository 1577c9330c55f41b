"""What only the real backend can get wrong of a GPU's condition: codes of single fields, names and versions of calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pynvml
import pytest

from driver.names import GpuUUID
from driver.nvml.figures import GpuFigures, read_figures
from driver.nvml.library import Device, NvmlLibrary
from driver.nvml.mock import read_mock_machine
from driver.nvml.mock.faults import Load, NeedsRecovery, Slowdown
from driver.nvml.mock.model import Machine
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.real.session import pointer_of
from tests.contract.nvml.conftest import Backend, open_stub
from tests.contract.nvml.test_answers import code_of, value_or_code

FAULTS = (
    NeedsRecovery(gpu=0, action="gpu-reset"),
    Slowdown(gpu=0, reason="thermal"),
    Load(gpu=0, percent=50, memory_percent=25, celsius=58, watts=300),
)


class Stub:
    """The stub of a machine, whose description a test may add lines to before it is opened."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self.opened: list[Backend] = []

    def open(self, library: Path, *lines: str, name: str = "dgx-h200") -> NvmlLibrary:
        machine = read_mock_machine(name)
        backend = open_stub(library, _with_faults(machine), self._folder, self._monkeypatch)
        path = self._folder / "machine.txt"
        path.write_text(path.read_text(encoding="ascii") + "".join(f"{line}\n" for line in lines), encoding="ascii")
        backend.library.init()
        self.opened.append(backend)
        return backend.library


def _with_faults(machine: Machine) -> Machine:
    return replace(machine, faults=(*machine.faults, *FAULTS))


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    made = Stub(tmp_path, monkeypatch)
    yield made
    for backend in made.opened:
        backend.library.shutdown()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(2, "NOT_SUPPORTED", id="a number that the driver does not know"),
        pytest.param(3, "NOT_SUPPORTED", id="a GPU without it"),
        pytest.param(15, "GPU_IS_LOST", id="a lost GPU"),
        pytest.param(16, "RESET_REQUIRED", id="a GPU before its reset"),
        pytest.param(999, "UNKNOWN", id="no reason"),
        pytest.param(1234, "CODE_1234", id="a code that is newer"),
    ],
)
def test_a_field_has_a_code_of_its_own_and_its_value_is_not_read_then(
    stub: Stub, stub_library: Path, code: int, said: str
) -> None:
    """The call as a whole says SUCCESS, and the field's value is what was there before."""
    library = stub.open(stub_library, f"gpu 0 refuses field {code}")
    first, second = library.device_handle_by_index(0), library.device_handle_by_index(1)
    with_field = value_or_code(partial(library.device_gpu_recovery_action, first))
    assert (with_field, library.device_gpu_recovery_action(second)) == (said, 0)


def test_an_action_that_is_newer_than_this_program_is_told_as_its_number(stub: Stub, stub_library: Path) -> None:
    library = stub.open(stub_library, "gpu 1 condition 42 0 1 0 0 0 0 0")
    assert library.device_gpu_recovery_action(library.device_handle_by_index(1)) == 42


def test_counts_beyond_32_bits_and_reasons_of_the_upper_half_are_whole(stub: Stub, stub_library: Path) -> None:
    library = stub.open(stub_library, "gpu 1 condition 0 5000000000 1 0 0 0 0 8000000000000040")
    device = library.device_handle_by_index(1)
    assert library.device_uncorrected_ecc_errors(device) == 5_000_000_000
    assert library.device_clocks_event_reasons(device) == 0x8000000000000040


def test_a_library_without_the_newer_names_is_asked_by_the_older_ones(stub: Stub, old_stub_library: Path) -> None:
    """Clocks' reasons had another name before 535; temperature had its first form alone."""
    library = stub.open(old_stub_library)
    device = library.device_handle_by_index(0)
    assert library.device_clocks_event_reasons(device) == 0x40
    assert library.device_temperature_celsius(device) == 58


@pytest.mark.parametrize("method", ["device_gpu_recovery_action", "device_remapped_rows", "device_memory_used_bytes"])
def test_what_an_old_library_lacks_is_said_by_name(stub: Stub, old_stub_library: Path, method: str) -> None:
    library = stub.open(old_stub_library)
    assert code_of(partial(getattr(library, method), library.device_handle_by_index(0))) == "FUNCTION_NOT_FOUND"


def test_the_figures_of_an_old_library_are_those_that_it_has(stub: Stub, old_stub_library: Path) -> None:
    library = stub.open(old_stub_library)
    gpu = stub.opened[0].machine.gpus[0]
    assert read_figures(library, [GpuUUID(gpu.uuid)], ReadingThreads(deadline_s=30.0)) == (
        GpuFigures(
            uuid=GpuUUID(gpu.uuid),
            utilization_percent=50,
            memory_total_bytes=gpu.board.memory_bytes,
            temperature_celsius=58,
            power_mw=300_000,
        ),
    )


def test_a_library_that_takes_no_form_of_a_structure_that_we_know(stub: Stub, stub_library: Path) -> None:
    """Temperature is asked for in the first form again; memory in use is an absent figure."""
    library = stub.open(
        stub_library, "gpu 0 refuses nvmlDeviceGetTemperatureV 25", "gpu 0 refuses nvmlDeviceGetMemoryInfo_v2 25"
    )
    device = library.device_handle_by_index(0)
    assert library.device_temperature_celsius(device) == 58
    assert code_of(partial(library.device_memory_used_bytes, device)) == "ARGUMENT_VERSION_MISMATCH"


def test_a_temperature_that_both_forms_refuse_is_refused_once(stub: Stub, stub_library: Path) -> None:
    library = stub.open(stub_library, "gpu 0 refuses nvmlDeviceGetTemperatureV 3")
    assert code_of(partial(library.device_temperature_celsius, library.device_handle_by_index(0))) == "NOT_SUPPORTED"


def test_a_gpu_below_freezing_point_has_no_four_billion_degrees(stub: Stub, stub_library: Path) -> None:
    library = stub.open(stub_library, "gpu 0 figures 0 0 -4 1000")
    assert library.device_temperature_celsius(library.device_handle_by_index(0)) == -4


@pytest.mark.parametrize("version", [0, 0x0100000C + 4, 0x0200000C], ids=["none", "another size", "another number"])
def test_the_stub_refuses_structures_of_another_version(stub: Stub, stub_library: Path, version: int) -> None:
    """As real drivers do: so what pynvml fills in is what they take."""
    device: Device = stub.open(stub_library).device_handle_by_index(0)
    raw = pynvml.c_nvmlTemperature_v1_t(version=version, sensorType=0)
    call = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetTemperatureV")
    assert call(pointer_of(device), pynvml.byref(raw)) == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
