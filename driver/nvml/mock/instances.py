# ruff: noqa: D102 - NvmlLibrary says what each call does
"""The mock's answers about MIG, and its changes."""

from __future__ import annotations

from functools import partial

from driver.nvml.library import (
    COMPUTE_INSTANCE_PROFILE_COUNT,
    GPU_INSTANCE_PROFILE_COUNT,
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
from driver.nvml.mock import mig
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.model import MigTable
from driver.nvml.mock.session import Handle, Session, nvml_call


class InstanceCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_mig_mode(self, device: Device) -> MigMode:
        self._mig_table(device)
        state = self._mig_state(device)
        return MigMode(is_enabled=state.is_enabled, is_enabled_after_reset=state.is_enabled_after_reset)

    @nvml_call
    def device_set_mig_mode(self, device: Device, *, enabled: bool) -> Code:
        self._mig_table(device)
        return self._store.change(self._index(device), partial(mig.plan_mode, is_enabled=enabled))

    @nvml_call
    def device_gpu_instance_profile_info(self, device: Device, profile: int) -> GpuInstanceProfileInfo:
        table = self._mig_table(device)
        if not 0 <= profile < GPU_INSTANCE_PROFILE_COUNT:
            raise Refused(Code.INVALID_ARGUMENT)
        found = table.by_number(profile)
        if found is None:
            raise Refused(Code.NOT_SUPPORTED)
        return found.info

    @nvml_call
    def device_gpu_instance_possible_placements(self, device: Device, profile_id: int) -> tuple[Placement, ...]:
        found = self._mig_table(device).by_id(profile_id)
        # Ampere says placements only with the mode on; from Hopper on the mode may be switched when an instance is made.
        is_silent = self._gpu(device).board.needs_reset_for_mig and not self._mig_state(device).is_enabled
        if found is None or is_silent:
            raise Refused(Code.NOT_SUPPORTED)
        return found.placements

    @nvml_call
    def device_create_gpu_instance_with_placement(self, device: Device, profile_id: int, placement: Placement) -> GpuInstance:
        self._mig_table(device)
        plan = partial(mig.plan_gpu_instance, profile_id=profile_id, placement=placement)
        instance = self._store.change(self._index(device), plan)
        return GpuInstance(self._handle("gpu-instance", self._index(device), instance.id))

    @nvml_call
    def device_gpu_instances(self, device: Device, profile_id: int) -> tuple[GpuInstance, ...]:
        if self._mig_table(device).by_id(profile_id) is None:
            raise Refused(Code.NOT_SUPPORTED)
        index = self._index(device)
        return tuple(
            GpuInstance(self._handle("gpu-instance", index, instance.id))
            for instance in self._mig_state(device).instances
            if instance.profile_id == profile_id
        )

    @nvml_call
    def device_gpu_instance_by_id(self, device: Device, instance_id: int) -> GpuInstance:
        self._mig_table(device)
        instance = self._mig_state(device).by_id(instance_id)
        return GpuInstance(self._handle("gpu-instance", self._index(device), instance.id))

    @nvml_call
    def gpu_instance_info(self, gpu_instance: GpuInstance) -> GpuInstanceInfo:
        instance = self._instance(self._require(gpu_instance, "gpu-instance"))
        placement = Placement(start=instance.start, size=instance.size)
        return GpuInstanceInfo(id=instance.id, profile_id=instance.profile_id, placement=placement)

    @nvml_call
    def gpu_instance_destroy(self, gpu_instance: GpuInstance) -> None:
        handle = self._require(gpu_instance, "gpu-instance")
        self._store.change(handle.gpu, lambda _, state: mig.plan_gpu_instance_gone(state, handle.gpu_instance))

    @nvml_call
    def gpu_instance_compute_instance_profile_info(self, gpu_instance: GpuInstance, profile: int) -> ComputeInstanceProfileInfo:
        if not 0 <= profile < COMPUTE_INSTANCE_PROFILE_COUNT:
            raise Refused(Code.INVALID_ARGUMENT)
        handle = self._require(gpu_instance, "gpu-instance")
        table = self._machine.gpus[handle.gpu].board.mig
        instance = self._instance(handle)
        own = None if table is None else table.by_id(instance.profile_id)
        found = None if table is None or own is None else mig.build_compute_profiles(table, own).get(profile)
        if found is None:
            raise Refused(Code.NOT_SUPPORTED)
        return found

    @nvml_call
    def gpu_instance_create_compute_instance(self, gpu_instance: GpuInstance, profile_id: int) -> ComputeInstance:
        handle = self._require(gpu_instance, "gpu-instance")
        plan = partial(mig.plan_compute_instance, instance_id=handle.gpu_instance, profile_id=profile_id)
        compute = self._store.change(handle.gpu, plan)
        return ComputeInstance(self._handle("compute-instance", handle.gpu, handle.gpu_instance, compute.id))

    @nvml_call
    def gpu_instance_compute_instances(self, gpu_instance: GpuInstance, profile_id: int) -> tuple[ComputeInstance, ...]:
        handle = self._require(gpu_instance, "gpu-instance")
        return tuple(
            ComputeInstance(self._handle("compute-instance", handle.gpu, handle.gpu_instance, compute.id))
            for compute in self._instance(handle).compute
            if compute.profile_id == profile_id
        )

    @nvml_call
    def compute_instance_info(self, compute_instance: ComputeInstance) -> ComputeInstanceInfo:
        handle = self._require(compute_instance, "compute-instance")
        compute = self._instance(handle).by_id(handle.compute_instance)
        return ComputeInstanceInfo(
            device=Device(self._handle("mig", handle.gpu, handle.gpu_instance, compute.id)),
            id=compute.id,
            profile_id=compute.profile_id,
            placement=Placement(start=compute.start, size=compute.size),
        )

    @nvml_call
    def compute_instance_destroy(self, compute_instance: ComputeInstance) -> None:
        handle = self._require(compute_instance, "compute-instance")
        self._store.change(
            handle.gpu,
            lambda _, state: mig.plan_compute_instance_gone(state, handle.gpu_instance, handle.compute_instance),
        )

    def _index(self, device: object) -> int:
        return self._require(device, "gpu").gpu

    def _mig_table(self, device: object) -> MigTable:
        table = self._gpu(device).board.mig
        if table is None:
            raise Refused(Code.NOT_SUPPORTED)
        return table

    def _mig_state(self, device: object) -> mig.MigState:
        return self._store.read(self._index(device))

    def _instance(self, handle: Handle) -> mig.InstanceState:
        return self._store.read(handle.gpu).by_id(handle.gpu_instance)
