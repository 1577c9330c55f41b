"""What faults make of a mock GPU's condition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.nvml.enums import ClocksReason, RecoveryAction
from driver.nvml.library import Device, NvmlLibrary, RemappedRows
from driver.nvml.mock import open_mock, reset_gpu, write_faults
from driver.nvml.mock.condition import build_condition
from driver.nvml.mock.faultbook import read_faults
from driver.nvml.mock.faults import (
    CallFails,
    EccEvent,
    Fault,
    GpuLost,
    LinkDown,
    NeedsRecovery,
    RowsRemapped,
    Slowdown,
    XidEvent,
)

NO_ROWS = RemappedRows(correctable=0, uncorrectable=0, is_pending=False, has_failed=False)


def opened(machine: str, folder: Path) -> tuple[NvmlLibrary, Device]:
    library = open_mock(machine, folder).library
    library.init()
    return library, library.device_handle_by_index(0)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(NvmlError) as caught:
        call()
    return caught.value.name


def test_a_gpu_without_faults_is_well(tmp_path: Path) -> None:
    library, gpu = opened("dgx-h200", tmp_path)
    assert library.device_gpu_recovery_action(gpu) == RecoveryAction.NONE
    assert library.device_uncorrected_ecc_errors(gpu) == 0
    assert library.device_remapped_rows(gpu) == NO_ROWS
    assert library.device_clocks_event_reasons(gpu) == 0


@pytest.mark.parametrize(
    ("faults", "action"),
    [
        ([], RecoveryAction.NONE),
        ([XidEvent(gpu=0, xid=13)], RecoveryAction.NONE),
        ([XidEvent(gpu=0, xid=48)], RecoveryAction.GPU_RESET),
        ([XidEvent(gpu=0, xid=48), XidEvent(gpu=0, xid=79)], RecoveryAction.NODE_REBOOT),
        ([EccEvent(gpu=0, bits="double")], RecoveryAction.GPU_RESET),
        ([EccEvent(gpu=0, bits="single")], RecoveryAction.NONE),
        ([XidEvent(gpu=1, xid=79)], RecoveryAction.NONE),
        ([XidEvent(gpu=0, xid=79), NeedsRecovery(gpu=0, action="none")], RecoveryAction.NONE),
        ([NeedsRecovery(gpu=0, action="drain-p2p")], RecoveryAction.DRAIN_P2P),
    ],
    ids=["none", "programs", "reset", "the-heavier", "double", "single", "another-gpus", "said-otherwise", "said"],
)
def test_the_driver_asks_for_what_its_errors_need(faults: list[Fault], action: RecoveryAction) -> None:
    assert build_condition(faults, 0).recovery_action is action


def test_rows_and_brakes_are_as_the_faults_say(tmp_path: Path) -> None:
    library, gpu = opened("dgx-h200", tmp_path)
    write_faults(
        tmp_path,
        [
            RowsRemapped(gpu=0, rows=2, is_pending=True),
            RowsRemapped(gpu=0, has_failed=True),
            Slowdown(gpu=0, reason="thermal"),
            Slowdown(gpu=0, reason="power-brake"),
            EccEvent(gpu=0, id="one"),
            EccEvent(gpu=0, id="two"),
        ],
    )
    assert library.device_remapped_rows(gpu) == RemappedRows(correctable=0, uncorrectable=3, is_pending=True, has_failed=True)
    assert library.device_clocks_event_reasons(gpu) == (ClocksReason.HW_THERMAL_SLOWDOWN | ClocksReason.HW_POWER_BRAKE_SLOWDOWN)
    assert library.device_uncorrected_ecc_errors(gpu) == 2
    other = library.device_handle_by_index(1)
    assert (library.device_remapped_rows(other), library.device_clocks_event_reasons(other)) == (NO_ROWS, 0)


@pytest.mark.parametrize(
    ("machine", "lacking"),
    [
        ("dgx-1v", ["device_gpu_recovery_action", "device_remapped_rows"]),
        ("rtx4090", ["device_uncorrected_ecc_errors", "device_remapped_rows"]),
    ],
    ids=["before-ampere", "no-ecc"],
)
def test_what_a_gpu_does_not_have_is_not_supported(machine: str, lacking: list[str], tmp_path: Path) -> None:
    library, gpu = opened(machine, tmp_path)
    for method in lacking:
        assert code_of(lambda method=method: getattr(library, method)(gpu)) == "NOT_SUPPORTED"  # type: ignore[misc]


def test_a_lost_gpu_tells_nothing(tmp_path: Path) -> None:
    library, gpu = opened("dgx-h200", tmp_path)
    write_faults(tmp_path, [GpuLost(gpu=0)])
    assert code_of(lambda: library.device_gpu_recovery_action(gpu)) == "GPU_IS_LOST"


def test_a_reset_puts_right_what_it_can_and_no_other_gpu(tmp_path: Path) -> None:
    stays: list[Fault] = [
        RowsRemapped(gpu=0, has_failed=True),
        CallFails(call="nvmlDeviceGetName", code="UNKNOWN", gpu=0),
        XidEvent(gpu=1, xid=79),
    ]
    over: list[Fault] = [XidEvent(gpu=0, xid=48), EccEvent(gpu=0), RowsRemapped(gpu=0, is_pending=True), LinkDown(gpu=0)]
    write_faults(tmp_path, [*over, *stays])
    reset_gpu(tmp_path, 0)
    assert list(read_faults(tmp_path / "faults.yaml", 8)) == stays


def test_a_reset_of_a_well_machine_is_nothing(tmp_path: Path) -> None:
    reset_gpu(tmp_path, 0)
    assert not (tmp_path / "faults.yaml").exists()
