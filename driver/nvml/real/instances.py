# ruff: noqa: D102 - NvmlLibrary says what each call does
"""MIG, through pynvml. Calls that fill arrays are given ones that are large enough for any GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from driver.nvml.library import (
    Code,
    ComputeInstance,
    ComputeInstanceInfo,
    ComputeInstanceProfileInfo,
    Device,
    GpuInstance,
    GpuInstanceInfo,
    GpuInstanceProfileInfo,
    MigMode,
    Placement,
)
from driver.nvml.real.session import Handle, Session, nvml_call, pointer_of, wrap

_MAX_INSTANCES = 64
"""A GPU has at most 15 GPU instances, and one of these at most 8 compute instances."""

_FIRST_FORM = 1
"""pynvml's word for the structures that every driver with MIG knows; the second adds a text that we do not use."""


def _build_placement(raw: Any) -> Placement:
    return Placement(start=int(raw.start), size=int(raw.size))


def _list_instances(kind: Any, fill: Callable[[Any, Any], object]) -> tuple[Handle, ...]:
    array, count = (kind * _MAX_INSTANCES)(), ctypes.c_uint(_MAX_INSTANCES)
    fill(array, ctypes.byref(count))
    return tuple(wrap(array[place]) for place in range(min(count.value, _MAX_INSTANCES)))


class InstanceCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_mig_mode(self, device: Device) -> MigMode:
        current, pending = pynvml.nvmlDeviceGetMigMode(pointer_of(device))
        enabled = pynvml.NVML_DEVICE_MIG_ENABLE
        return MigMode(is_enabled=current == enabled, is_enabled_after_reset=pending == enabled)

    @nvml_call
    def device_set_mig_mode(self, device: Device, *, enabled: bool) -> Code:
        mode = pynvml.NVML_DEVICE_MIG_ENABLE if enabled else pynvml.NVML_DEVICE_MIG_DISABLE
        status = pynvml.nvmlDeviceSetMigMode(pointer_of(device), mode)
        return Code(status) if status in Code.__members__.values() else Code.UNKNOWN

    @nvml_call
    def device_gpu_instance_profile_info(self, device: Device, profile: int) -> GpuInstanceProfileInfo:
        raw = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(pointer_of(device), profile, _FIRST_FORM)
        return GpuInstanceProfileInfo(
            id=int(raw.id),
            slice_count=int(raw.sliceCount),
            instance_count=int(raw.instanceCount),
            multiprocessor_count=int(raw.multiprocessorCount),
            copy_engine_count=int(raw.copyEngineCount),
            decoder_count=int(raw.decoderCount),
            encoder_count=int(raw.encoderCount),
            jpeg_count=int(raw.jpegCount),
            ofa_count=int(raw.ofaCount),
            memory_size_mib=int(raw.memorySizeMB),
        )

    @nvml_call
    def device_gpu_instance_possible_placements(self, device: Device, profile_id: int) -> tuple[Placement, ...]:
        pointer, count = pointer_of(device), ctypes.c_uint()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(pointer, profile_id, None, ctypes.byref(count))
        array = (pynvml.c_nvmlGpuInstancePlacement_t * max(1, min(count.value, _MAX_INSTANCES)))()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(pointer, profile_id, array, ctypes.byref(count))
        return tuple(_build_placement(raw) for raw in array[: count.value])

    @nvml_call
    def device_create_gpu_instance_with_placement(self, device: Device, profile_id: int, placement: Placement) -> GpuInstance:
        raw = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
        made = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(pointer_of(device), profile_id, ctypes.byref(raw))
        return GpuInstance(wrap(made))

    @nvml_call
    def device_gpu_instances(self, device: Device, profile_id: int) -> tuple[GpuInstance, ...]:
        pointer = pointer_of(device)
        found = _list_instances(
            pynvml.c_nvmlGpuInstance_t,
            lambda array, count: pynvml.nvmlDeviceGetGpuInstances(pointer, profile_id, array, count),
        )
        return tuple(GpuInstance(handle) for handle in found)

    @nvml_call
    def device_gpu_instance_by_id(self, device: Device, instance_id: int) -> GpuInstance:
        return GpuInstance(wrap(pynvml.nvmlDeviceGetGpuInstanceById(pointer_of(device), instance_id)))

    @nvml_call
    def gpu_instance_info(self, gpu_instance: GpuInstance) -> GpuInstanceInfo:
        raw = pynvml.nvmlGpuInstanceGetInfo(pointer_of(gpu_instance))
        return GpuInstanceInfo(id=int(raw.id), profile_id=int(raw.profileId), placement=_build_placement(raw.placement))

    @nvml_call
    def gpu_instance_destroy(self, gpu_instance: GpuInstance) -> None:
        pynvml.nvmlGpuInstanceDestroy(pointer_of(gpu_instance))

    @nvml_call
    def gpu_instance_compute_instance_profile_info(self, gpu_instance: GpuInstance, profile: int) -> ComputeInstanceProfileInfo:
        raw = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
            pointer_of(gpu_instance), profile, pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, _FIRST_FORM
        )
        return ComputeInstanceProfileInfo(
            id=int(raw.id),
            slice_count=int(raw.sliceCount),
            instance_count=int(raw.instanceCount),
            multiprocessor_count=int(raw.multiprocessorCount),
        )

    @nvml_call
    def gpu_instance_create_compute_instance(self, gpu_instance: GpuInstance, profile_id: int) -> ComputeInstance:
        return ComputeInstance(wrap(pynvml.nvmlGpuInstanceCreateComputeInstance(pointer_of(gpu_instance), profile_id)))

    @nvml_call
    def gpu_instance_compute_instances(self, gpu_instance: GpuInstance, profile_id: int) -> tuple[ComputeInstance, ...]:
        pointer = pointer_of(gpu_instance)
        found = _list_instances(
            pynvml.c_nvmlComputeInstance_t,
            lambda array, count: pynvml.nvmlGpuInstanceGetComputeInstances(pointer, profile_id, array, count),
        )
        return tuple(ComputeInstance(handle) for handle in found)

    @nvml_call
    def compute_instance_info(self, compute_instance: ComputeInstance) -> ComputeInstanceInfo:
        raw = pynvml.nvmlComputeInstanceGetInfo(pointer_of(compute_instance))
        return ComputeInstanceInfo(
            device=Device(wrap(raw.device)),
            id=int(raw.id),
            profile_id=int(raw.profileId),
            placement=_build_placement(raw.placement),
        )

    @nvml_call
    def compute_instance_destroy(self, compute_instance: ComputeInstance) -> None:
        pynvml.nvmlComputeInstanceDestroy(pointer_of(compute_instance))
