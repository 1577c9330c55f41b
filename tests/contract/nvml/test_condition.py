"""How a GPU is and what it is busy with: the same from the mock and from the real backend over a stub of the same machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from driver.names import GpuUUID
from driver.nvml.enums import ClocksReason, EventType, RecoveryAction
from driver.nvml.figures import GpuFigures, read_figures
from driver.nvml.library import Device, Event, NvmlLibrary, RemappedRows
from driver.nvml.mock.faults import (
    CallFails,
    EccEvent,
    Fault,
    Load,
    NeedsRecovery,
    RowsRemapped,
    Slowdown,
)
from driver.nvml.mock.faults import Event as EventFault
from driver.nvml.reading_threads import ReadingThreads
from tests.contract.nvml.conftest import Backend
from tests.contract.nvml.test_answers import code_of, value_or_code
from tests.contract.nvml.test_events import watch

Open = Callable[..., Backend]

NO_ROWS = RemappedRows(correctable=0, uncorrectable=0, is_pending=False, has_failed=False)
ABSENT = "NOT_SUPPORTED"

CONDITION = {
    "device_gpu_recovery_action": "nvmlDeviceGetFieldValues",
    "device_uncorrected_ecc_errors": "nvmlDeviceGetTotalEccErrors",
    "device_remapped_rows": "nvmlDeviceGetRemappedRows",
    "device_clocks_event_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
}
FIGURES = {
    "device_memory_used_bytes": "nvmlDeviceGetMemoryInfo_v2",
    "device_memory_total_bytes": "nvmlDeviceGetMemoryInfo",
    "device_utilization_percent": "nvmlDeviceGetUtilizationRates",
    "device_temperature_celsius": "nvmlDeviceGetTemperature",
    "device_power_mw": "nvmlDeviceGetPowerUsage",
}
CALLS = {**CONDITION, **FIGURES}


def condition_of(library: NvmlLibrary, device: Device) -> list[object]:
    return [value_or_code(partial(getattr(library, method), device)) for method in CONDITION]


def figures_of(library: NvmlLibrary, device: Device) -> list[object]:
    return [value_or_code(partial(getattr(library, method), device)) for method in FIGURES]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("dgx-h200", [0, 0, NO_ROWS, 0], id="driver 570"),
        pytest.param("gb200-tray", [0, 0, NO_ROWS, 0], id="driver 580"),
        pytest.param("dgx-h100", [ABSENT, 0, NO_ROWS, 0], id="driver 550, before the recovery action"),
        pytest.param("dgx-1v", [ABSENT, 0, ABSENT, 0], id="before Ampere"),
        pytest.param("rtx4090", [ABSENT, ABSENT, ABSENT, 0], id="a gaming card"),
        pytest.param("gb10", [0, ABSENT, ABSENT, 0], id="the host's memory"),
    ],
)
def test_a_gpu_that_is_well_says_so_and_lacks_what_it_has_not(open_backend: Open, name: str, expected: list[object]) -> None:
    library = open_backend(name).library
    assert condition_of(library, library.device_handle_by_index(0)) == expected


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        pytest.param([NeedsRecovery(gpu=1, action="gpu-reset")], [1, 0, NO_ROWS, 0], id="a reset"),
        pytest.param([NeedsRecovery(gpu=1, action="drain-and-reset")], [4, 0, NO_ROWS, 0], id="a drain"),
        pytest.param([NeedsRecovery(gpu=1, action="system-reboot")], [7, 0, NO_ROWS, 0], id="the newest"),
        pytest.param([EccEvent(gpu=1, id="a"), EccEvent(gpu=1, id="b")], [1, 2, NO_ROWS, 0], id="ECC"),
        pytest.param(
            [RowsRemapped(gpu=1, rows=3, is_pending=True)],
            [0, 0, RemappedRows(correctable=0, uncorrectable=3, is_pending=True, has_failed=False), 0],
            id="a row that waits",
        ),
        pytest.param(
            [RowsRemapped(gpu=1, has_failed=True)],
            [0, 0, RemappedRows(correctable=0, uncorrectable=1, is_pending=False, has_failed=True), 0],
            id="no row left",
        ),
        pytest.param([Slowdown(gpu=1, reason="thermal")], [0, 0, NO_ROWS, ClocksReason.HW_THERMAL_SLOWDOWN], id="heat"),
        pytest.param(
            [Slowdown(gpu=1, reason="power-brake")], [0, 0, NO_ROWS, ClocksReason.HW_POWER_BRAKE_SLOWDOWN], id="power"
        ),
    ],
)
def test_what_is_wrong_with_one_gpu_is_told_of_it_alone(
    open_backend: Open, faults: list[Fault], expected: list[object]
) -> None:
    library = open_backend("dgx-h200", *faults).library
    assert condition_of(library, library.device_handle_by_index(1)) == expected
    assert condition_of(library, library.device_handle_by_index(0)) == [RecoveryAction.NONE, 0, NO_ROWS, 0]


def test_the_figures_are_those_of_the_load(open_backend: Open) -> None:
    """Memory that is in use is without the driver's own part."""
    backend = open_backend("dgx-h200", Load(gpu=2, percent=97, memory_percent=50, celsius=64, watts=612))
    library, total = backend.library, backend.machine.gpus[2].board.memory_bytes
    assert total is not None
    assert figures_of(library, library.device_handle_by_index(2)) == [total * 50 // 100, total, 97, 64, 612_000]
    assert figures_of(library, library.device_handle_by_index(0)) == [0, total, 0, 31, 74_000]


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "NO_PERMISSION", "RESET_REQUIRED", "UNKNOWN"])
@pytest.mark.parametrize("method", list(CALLS))
def test_a_call_that_is_refused_says_its_code_and_costs_no_other(open_backend: Open, method: str, code: str) -> None:
    library = open_backend("dgx-h200", CallFails(call=CALLS[method], code=code, gpu=0)).library
    device, other = library.device_handle_by_index(0), library.device_handle_by_index(1)
    assert code_of(partial(getattr(library, method), device)) == code
    rest = [each for each in CALLS if each != method]
    assert [value_or_code(partial(getattr(library, each), device)) for each in rest] == [
        value_or_code(partial(getattr(library, each), other)) for each in rest
    ]


def test_a_gpu_that_is_lost_meanwhile_says_so_to_every_call(open_backend: Open) -> None:
    backend = open_backend("dgx-h200")
    library = backend.library
    device, other = library.device_handle_by_index(3), library.device_handle_by_index(4)
    backend.lose(3)
    assert {value_or_code(partial(getattr(library, method), device)) for method in CALLS} == {"GPU_IS_LOST"}
    assert condition_of(library, other) == [0, 0, NO_ROWS, 0]


def test_figures_of_a_machine_leave_out_what_is_not_told_and_who_is_lost(open_backend: Open) -> None:
    refused = [CallFails(call=FIGURES[method], code="NOT_SUPPORTED", gpu=1) for method in FIGURES]
    backend = open_backend("dgx-h200", *refused)
    uuids = [GpuUUID(gpu.uuid) for gpu in backend.machine.gpus[:3]]
    total = backend.machine.gpus[0].board.memory_bytes
    backend.lose(2)
    idle = GpuFigures(
        uuid=uuids[0],
        utilization_percent=0,
        memory_used_bytes=0,
        memory_total_bytes=total,
        temperature_celsius=31,
        power_mw=74_000,
    )
    assert read_figures(backend.library, uuids, ReadingThreads(deadline_s=30.0)) == (idle, GpuFigures(uuid=uuids[1]))


def test_a_divided_gpu_has_no_utilization_and_the_other_figures(open_backend: Open) -> None:
    library = open_backend("dgx-h200").library
    device = library.device_handle_by_index(0)
    library.device_set_mig_mode(device, enabled=True)
    assert figures_of(library, device)[2:] == [ABSENT, 31, 74_000]
    library.device_set_mig_mode(device, enabled=False)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        pytest.param("dgx-1v", 0xB, id="driver 535"),
        pytest.param("dgx-h100", 0xB, id="driver 550"),
        pytest.param("dgx-h200", 0xFE0B, id="driver 570"),
        pytest.param("hgx-b200", 0xFE0B, id="driver 580"),
    ],
)
def test_a_driver_tells_the_events_that_it_knows_and_registers_no_others(open_backend: Open, name: str, types: int) -> None:
    library = open_backend(name).library
    device = library.device_handle_by_index(0)
    assert library.device_supported_event_types(device) == types
    event_set = library.event_set_create()
    library.device_register_events(device, types, event_set)
    for kind in EventType:
        if not kind & types:
            assert code_of(partial(library.device_register_events, device, int(kind), event_set)) == "NOT_SUPPORTED"
    library.event_set_free(event_set)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        pytest.param(EccEvent(gpu=3), EventType.DOUBLE_BIT_ECC, id="ECC"),
        pytest.param(NeedsRecovery(gpu=3, action="gpu-reset"), EventType.GPU_RECOVERY_ACTION, id="recovery action"),
        pytest.param(RowsRemapped(gpu=3, is_pending=True), EventType.DRAM_RETIREMENT, id="a row"),
        pytest.param(RowsRemapped(gpu=3, has_failed=True), EventType.DRAM_RETIREMENT_FAILURE, id="no row left"),
    ],
)
def test_an_event_of_a_newer_kind_comes_once_with_its_gpu_and_no_data(
    open_backend: Open, fault: EventFault, kind: EventType
) -> None:
    backend = open_backend("dgx-h200")
    library = backend.library
    event_set = watch(library, 0)
    library.device_register_events(library.device_handle_by_index(3), int(kind), event_set)
    backend.raise_event(fault)
    assert library.event_set_wait(event_set, 5000) == Event(
        uuid=backend.machine.gpus[3].uuid, type=kind, data=0, gpu_instance_id=None, compute_instance_id=None
    )
    assert library.event_set_wait(event_set, 0) is None


def test_an_event_of_a_kind_that_nobody_asked_for_is_not_delivered(open_backend: Open) -> None:
    backend = open_backend("dgx-h200")
    event_set = watch(backend.library, 3)
    backend.raise_event(NeedsRecovery(gpu=3, action="gpu-reset"))
    assert backend.library.event_set_wait(event_set, 30) is None
