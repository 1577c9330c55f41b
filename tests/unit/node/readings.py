"""Readings of small machines, made by hand."""

from __future__ import annotations

from driver.names import GpuUUID, PciAddress
from driver.nvml.readings import GpuFailure, GpuReading, MachineReading


def gpu(slot: int) -> GpuReading:
    """A GPU without links."""
    return GpuReading(
        index=slot,
        uuid=GpuUUID(f"GPU-00000000-0000-4000-8000-{slot:012x}"),
        pci=PciAddress(0, slot + 1, 0),
        minor=slot,
        product_name="NVIDIA T4",
    )


def failure(slot: int, *, is_lost: bool = False, has_pci: bool = True) -> GpuFailure:
    """A GPU that did not answer."""
    pci = PciAddress(0, slot + 1, 0) if has_pci else None
    return GpuFailure(index=slot, pci=pci, uuid=None, reason="NVML nvmlDeviceGetUUID: UNKNOWN (999)", is_lost=is_lost)


def machine(*slots: int, failures: tuple[GpuFailure, ...] = ()) -> MachineReading:
    """A machine with GPUs in these slots."""
    return MachineReading(
        driver_version="580.95.05", cuda_driver_version=(13, 0), gpus=tuple(gpu(slot) for slot in slots), failures=failures
    )
