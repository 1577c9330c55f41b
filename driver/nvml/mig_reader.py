"""What one GPU says of MIG: its profiles, where they may lie, and the instances that are there now.

Instances are looked for by profile, not by MIG device: a GPU instance without compute instances is no MIG device, and must be
seen too. A GPU that stops answering half-way is not taken for one without instances: the reading says that it is not whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from driver.errors import NvmlError
from driver.nvml.library import (
    COMPUTE_INSTANCE_PROFILE_COUNT,
    GPU_INSTANCE_PROFILE_COUNT,
    Code,
    ComputeInstanceProfileInfo,
    Device,
    GpuInstance,
    MigMode,
    NvmlLibrary,
)
from driver.nvml.readings import ComputeInstanceReading, GpuInstanceReading, MigProfile, MigReading

_P = ParamSpec("_P")
_T = TypeVar("_T")

_ABSENT = frozenset({Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT, Code.FUNCTION_NOT_FOUND, Code.NOT_FOUND})
"""What NVML says of a number that is no profile of this GPU, and of an instance that was destroyed since it was listed."""

_WHOLE_LIBRARY = frozenset(
    {Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND, Code.LIB_RM_VERSION_MISMATCH, Code.GPU_IS_LOST}
)
"""The codes that are not MIG's business: the whole pass, or the whole GPU, has failed."""


def read_mig(library: NvmlLibrary, device: Device, mode: MigMode, known: tuple[MigProfile, ...] | None = None) -> MigReading:
    """Everything about MIG on this GPU, whose mode is ``mode``; ``known`` are its profiles, where they need not be asked for.

    Raises:
        NvmlError: the GPU is lost, or the library as a whole cannot answer.
    """
    asked = _Asked()
    profiles = tuple(_read_profiles(library, device, asked)) if known is None else known
    instances: tuple[GpuInstanceReading, ...] = ()
    if mode.is_enabled:
        found = (each for profile in profiles for each in _read_instances(library, device, profile.info.id, asked))
        instances = tuple(sorted(found, key=lambda each: (each.placement, each.profile_id, each.id)))
    return MigReading(
        is_enabled=mode.is_enabled,
        is_enabled_after_reset=mode.is_enabled_after_reset,
        profiles=profiles,
        instances=instances,
        fault=asked.fault,
    )


def read_compute_profiles(library: NvmlLibrary, gpu_instance: GpuInstance) -> tuple[ComputeInstanceProfileInfo, ...]:
    """The compute-instance profiles that this GPU instance has.

    Raises:
        NvmlError: one of them was refused with another code than "there is none".
    """
    found = []
    for number in range(COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            found.append(library.gpu_instance_compute_instance_profile_info(gpu_instance, number))
        except NvmlError as err:
            if err.code not in _ABSENT:
                raise
    return tuple(found)


class _Asked:
    """Calls that may fail alone; the first failure that is no "there is none" is kept."""

    def __init__(self) -> None:
        self.fault = ""

    def ask(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        try:
            return call(*args, **kwargs)
        except NvmlError as err:
            if err.code in _WHOLE_LIBRARY:
                raise
            if err.code not in _ABSENT:
                self.fault = self.fault or str(err)
            return None


def _read_profiles(library: NvmlLibrary, device: Device, asked: _Asked) -> Iterator[MigProfile]:
    for number in range(GPU_INSTANCE_PROFILE_COUNT):
        info = asked.ask(library.device_gpu_instance_profile_info, device, number)
        if info is not None:
            placements = asked.ask(library.device_gpu_instance_possible_placements, device, info.id) or ()
            yield MigProfile(number=number, info=info, placements=tuple(sorted(placements)))


def _read_instances(library: NvmlLibrary, device: Device, profile_id: int, asked: _Asked) -> Iterator[GpuInstanceReading]:
    for instance in asked.ask(library.device_gpu_instances, device, profile_id) or ():
        read = asked.ask(read_instance, library, instance)
        if read is not None:
            yield read


def read_instance(library: NvmlLibrary, instance: GpuInstance) -> GpuInstanceReading:
    """A GPU instance with its compute instances.

    Raises:
        NvmlError
    """
    info = library.gpu_instance_info(instance)
    compute = []
    for profile in read_compute_profiles(library, instance):
        for handle in library.gpu_instance_compute_instances(instance, profile.id):
            made = library.compute_instance_info(handle)
            compute.append(
                ComputeInstanceReading(
                    id=made.id,
                    profile_id=made.profile_id,
                    placement=made.placement,
                    multiprocessor_count=profile.multiprocessor_count,
                    uuid=library.device_uuid(made.device),
                )
            )
    return GpuInstanceReading(
        id=info.id,
        profile_id=info.profile_id,
        placement=info.placement,
        compute=tuple(sorted(compute, key=lambda each: each.id)),
    )
