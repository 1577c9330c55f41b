"""Changes to MIG on one GPU: the mode, GPU instances, compute instances. Each is read back before it counts as done (B43).

NVML is open only while a change is made, as for a pass over the machine. Callers keep two changes of one GPU apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from driver.errors import NvmlError
from driver.nvml.library import (
    Code,
    ComputeInstanceProfileInfo,
    Device,
    GpuInstanceProfileInfo,
    NvmlLibrary,
    OpenNvml,
    Placement,
    build_error,
)
from driver.nvml.mig_reader import read_compute_profiles, read_instance, read_mig
from driver.nvml.readings import GpuInstanceReading, MigProfile, MigReading

NOT_LOADED = frozenset({Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND})
"""The codes by which a machine says that there is no driver, and so no MIG instance, at the moment."""


@dataclass(frozen=True, slots=True)
class GpuMig:
    """One GPU, with NVML open. Every method raises ``NvmlError``."""

    library: NvmlLibrary
    device: Device
    known: dict[str, tuple[MigProfile, ...]] = field(default_factory=dict)
    """The profiles, by the driver's version: another one may have others."""

    def read(self) -> MigReading:
        """The mode, the profiles and the instances as they are now."""
        version = self.library.system_driver_version()
        mode = self.library.device_mig_mode(self.device)
        reading = read_mig(self.library, self.device, mode, self.known.get(version))
        if reading.fault:
            raise NvmlError("while MIG instances were listed", Code.UNKNOWN, reading.fault)
        if all(profile.placements for profile in reading.profiles):
            self.known[version] = reading.profiles
        return reading

    def switch_mode(self, *, enabled: bool) -> None:
        """Set the MIG mode. One that would wait for a reset is an error: nothing can be made or given out meanwhile (B45)."""
        status = self.library.device_set_mig_mode(self.device, enabled=enabled)
        if status != Code.SUCCESS:
            raise build_error("nvmlDeviceSetMigMode (activation)", status)
        if self.library.device_mig_mode(self.device).is_enabled != enabled:
            raise build_error("nvmlDeviceSetMigMode (without effect)", Code.INVALID_STATE)

    def create_gpu_instance(self, profile_id: int, placement: Placement) -> GpuInstanceReading:
        """A GPU instance without compute instances."""
        made = self.library.device_create_gpu_instance_with_placement(self.device, profile_id, placement)
        read = read_instance(self.library, made)
        if (read.profile_id, read.placement) != (profile_id, placement):
            raise build_error("nvmlDeviceCreateGpuInstanceWithPlacement (another instance came of it)", Code.INVALID_STATE)
        return read

    def create_compute_instance(self, instance_id: int, profile: GpuInstanceProfileInfo) -> GpuInstanceReading:
        """The compute instance that is the whole of its GPU instance, of ``profile``."""
        gpu_instance = self.library.device_gpu_instance_by_id(self.device, instance_id)
        choice = choose_compute_profile(read_compute_profiles(self.library, gpu_instance), profile)
        if choice is None:
            raise build_error("nvmlGpuInstanceGetComputeInstanceProfileInfo (none fits)", Code.NOT_SUPPORTED)
        self.library.gpu_instance_create_compute_instance(gpu_instance, choice.id)
        read = read_instance(self.library, gpu_instance)
        if len(read.compute) != 1:
            raise build_error("nvmlGpuInstanceCreateComputeInstance (without effect)", Code.INVALID_STATE)
        return read

    def destroy_compute_instances(self, instance_id: int) -> None:
        """All of a GPU instance; that there are none is success."""
        with _gone_is_success():
            gpu_instance = self.library.device_gpu_instance_by_id(self.device, instance_id)
            for profile in read_compute_profiles(self.library, gpu_instance):
                for compute in self.library.gpu_instance_compute_instances(gpu_instance, profile.id):
                    with _gone_is_success():
                        self.library.compute_instance_destroy(compute)

    def destroy_gpu_instance(self, instance_id: int) -> None:
        """A GPU instance that has no compute instances any more; that there is none is success."""
        with _gone_is_success():
            self.library.gpu_instance_destroy(self.library.device_gpu_instance_by_id(self.device, instance_id))


class MigMachine:
    """The MIG of a machine. ``open_nvml`` gives an initialised library for the length of a ``with``."""

    def __init__(self, open_nvml: OpenNvml) -> None:
        self._open_nvml = open_nvml
        self._known: dict[str, dict[str, tuple[MigProfile, ...]]] = {}
        """By GPU and version."""

    @contextmanager
    def open_gpu(self, uuid: str) -> Iterator[GpuMig]:
        """One GPU.

        Raises:
            NvmlError: there is no such GPU, or no driver.
        """
        with self._open_nvml() as library:
            yield GpuMig(library, library.device_handle_by_uuid(uuid), self._known.setdefault(uuid, {}))


def choose_compute_profile(
    profiles: Sequence[ComputeInstanceProfileInfo], profile: GpuInstanceProfileInfo
) -> ComputeInstanceProfileInfo | None:
    """The compute-instance profile that gives all of a GPU instance: by its multiprocessors, then its slices, never by a name.

    Of two that are equal the one with the lower number: 7_SLICE before 7_SLICE_NVL. Where none has exactly what the GPU
    instance is offered with, the largest.
    """
    fits = [each for each in profiles if each.multiprocessor_count <= profile.multiprocessor_count]

    def key(each: ComputeInstanceProfileInfo) -> tuple[int, bool, int]:
        return each.multiprocessor_count, each.slice_count == profile.slice_count, -each.id

    return max(fits, key=key, default=None)


@contextmanager
def _gone_is_success() -> Iterator[None]:
    try:
        yield
    except NvmlError as err:
        if err.code != Code.NOT_FOUND:
            raise
