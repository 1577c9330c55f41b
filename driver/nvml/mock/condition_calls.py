# ruff: noqa: D102 - NvmlLibrary says what each call does
"""How a mock GPU is: what its faults make of it."""

from __future__ import annotations

from driver.nvml.enums import Architecture, Brand
from driver.nvml.library import Code, Device, RemappedRows
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.model import Board
from driver.nvml.mock.session import Session, nvml_call

_FIRST_WITH_RECOVERY_ACTION = 565
"""The driver's major version, by the change log of the NVML API reference."""


def has_ecc(board: Board) -> bool:
    """Whether the board's memory corrects errors."""
    return board.brand not in (Brand.GEFORCE, Brand.GEFORCE_RTX) and board.memory_bytes is not None


class ConditionCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_gpu_recovery_action(self, device: Device) -> int:
        board, index = self._gpu(device).board, self._require(device, "gpu").gpu
        if board.architecture < Architecture.AMPERE or self._driver_major() < _FIRST_WITH_RECOVERY_ACTION:
            raise Refused(Code.NOT_SUPPORTED)
        return int(self._book.condition(index).recovery_action)

    @nvml_call
    def device_uncorrected_ecc_errors(self, device: Device) -> int:
        if not has_ecc(self._gpu(device).board):
            raise Refused(Code.NOT_SUPPORTED)
        return self._book.condition(self._require(device, "gpu").gpu).uncorrected_ecc_errors

    @nvml_call
    def device_remapped_rows(self, device: Device) -> RemappedRows:
        board = self._gpu(device).board
        if board.architecture < Architecture.AMPERE or not has_ecc(board):
            raise Refused(Code.NOT_SUPPORTED)
        return self._book.condition(self._require(device, "gpu").gpu).remapped_rows

    @nvml_call
    def device_clocks_event_reasons(self, device: Device) -> int:
        self._gpu(device)
        return int(self._book.condition(self._require(device, "gpu").gpu).clocks_reasons)
