# ruff: noqa: D102 - NvmlLibrary says what each call does
"""How a GPU is, through pynvml."""

from __future__ import annotations

import pynvml

from driver.nvml.library import Code, Device, RemappedRows
from driver.nvml.real.session import Session, nvml_call, pointer_of


class ConditionCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_gpu_recovery_action(self, device: Device) -> int:
        field = pynvml.nvmlDeviceGetFieldValues(pointer_of(device), [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
        if field.nvmlReturn != Code.SUCCESS:
            # An older driver takes the number for a bad argument; it only means that it has no such fact.
            is_unknown = field.nvmlReturn == Code.INVALID_ARGUMENT
            raise pynvml.NVMLError(Code.NOT_SUPPORTED if is_unknown else field.nvmlReturn)
        return int(field.value.uiVal)

    @nvml_call
    def device_uncorrected_ecc_errors(self, device: Device) -> int:
        kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        return int(pynvml.nvmlDeviceGetTotalEccErrors(pointer_of(device), kind, counter))

    @nvml_call
    def device_remapped_rows(self, device: Device) -> RemappedRows:
        correctable, uncorrectable, is_pending, has_failed = pynvml.nvmlDeviceGetRemappedRows(pointer_of(device))
        return RemappedRows(
            correctable=int(correctable),
            uncorrectable=int(uncorrectable),
            is_pending=bool(is_pending),
            has_failed=bool(has_failed),
        )

    @nvml_call
    def device_clocks_event_reasons(self, device: Device) -> int:
        pointer = pointer_of(device)
        try:
            return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(pointer))
        except pynvml.NVMLError_FunctionNotFound:
            # Drivers before 535 have it under its old name alone.
            return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(pointer))
