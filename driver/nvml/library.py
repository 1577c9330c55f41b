"""The NVML calls that this program makes, as one typed Protocol, and the small values that they answer with.

Numbers that NVML has words for stand in ``enums``.

One method is one NVML call; its name is NVML's own in snake case, without ``nvml`` and ``Get`` (``calls`` has the pairs). The
layer is thin on purpose: what a call means for a node is decided in ``reader`` and above, so that the real library and the
mock have little room to differ.

Handles are opaque. A handle belongs to the ``init`` that it was got after; after ``shutdown`` it is refused, never followed.
Every method fails with ``errors.NvmlError`` alone, whose ``call`` is NVML's C name and whose ``name`` is NVML's word for the
code (``NOT_SUPPORTED``). All methods may be called from several threads.
"""

# ruff: noqa: D102 - a call whose name says it all has no docstring

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NewType, Protocol

from driver.errors import NvmlError

Device = NewType("Device", object)
"""A GPU, or a MIG device."""
GpuInstance = NewType("GpuInstance", object)
ComputeInstance = NewType("ComputeInstance", object)
EventSet = NewType("EventSet", object)

NVLINK_MAX_LINKS = 36
"""``NVML_NVLINK_MAX_LINKS``: link numbers end below it on every GPU so far."""
GPU_INSTANCE_PROFILE_COUNT = 0x12
"""``NVML_GPU_INSTANCE_PROFILE_COUNT``: numbers that ``device_gpu_instance_profile_info`` may be asked for end below it."""
COMPUTE_INSTANCE_PROFILE_COUNT = 0x9
"""``NVML_COMPUTE_INSTANCE_PROFILE_COUNT``."""


class Code(enum.IntEnum):
    """``nvmlReturn_t``, without the ``NVML_`` and ``ERROR_`` prefixes."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    ALREADY_INITIALIZED = 5
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    INSUFFICIENT_RESOURCES = 23
    FREQ_NOT_SUPPORTED = 24
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    RESET_TYPE_NOT_SUPPORTED = 30
    UNKNOWN = 999


def build_error(call: str, code: int) -> NvmlError:
    """The error for ``code``, with NVML's word where the code has one."""
    try:
        name = Code(code).name
    except ValueError:
        name = f"CODE_{code}"
    return NvmlError(call, code, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciInfo:
    """``nvmlPciInfo_t``."""

    bus_id: str
    """NVML's text, ``00000000:4E:00.0``; not checked here."""
    device_id: int
    """``pciDeviceId``: the device in the upper, the vendor in the lower 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigMode:
    """The mode in force, and the mode after the next reset."""

    is_enabled: bool
    is_enabled_after_reset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricInfo:
    """``nvmlGpuFabricInfo_t``."""

    cluster_uuid: bytes
    """16 bytes; all zero where the GPU belongs to no cluster."""
    clique_id: int
    state: int
    status: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Placement:
    """Where an instance lies: memory slices for a GPU instance, compute slices for a compute instance."""

    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstanceProfileInfo:
    """``nvmlGpuInstanceProfileInfo_t``."""

    id: int
    """What placements and creation are asked for by: not the number that this was asked for with (19 is number 0)."""
    slice_count: int
    """Compute slices."""
    instance_count: int
    multiprocessor_count: int
    copy_engine_count: int
    decoder_count: int
    encoder_count: int
    jpeg_count: int
    ofa_count: int
    memory_size_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstanceInfo:
    """``nvmlGpuInstanceInfo_t``."""

    id: int
    profile_id: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstanceProfileInfo:
    """``nvmlComputeInstanceProfileInfo_t``, without the shared engines."""

    id: int
    slice_count: int
    instance_count: int
    multiprocessor_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstanceInfo:
    """``nvmlComputeInstanceInfo_t``."""

    device: Device
    """The MIG device that the compute instance is."""
    id: int
    profile_id: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``nvmlEventData_t``."""

    uuid: str
    """The GPU's UUID as it was when its events were registered: a lost GPU cannot be asked any more."""
    type: int
    """One bit of ``EventType``."""
    data: int
    """The XID of an XID_CRITICAL event."""
    gpu_instance_id: int | None
    """None where the event concerns the whole GPU (NVML's 0xFFFFFFFF)."""
    compute_instance_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """``nvmlDeviceGetRemappedRows``: memory rows that are replaced by spare ones."""

    correctable: int
    uncorrectable: int
    is_pending: bool
    """A row is replaced with the next reset."""
    has_failed: bool
    """No spare row was left."""


class NvmlLibrary(Protocol):
    """NVML, real or mock."""

    def init(self) -> None:
        """``nvmlInitWithFlags(NO_GPUS)``. Counted: as many ``shutdown`` as ``init`` close the library."""

    def shutdown(self) -> None:
        """``nvmlShutdown``. A call that is still under way in another thread may go on; it is the last of that thread."""

    def system_driver_version(self) -> str:
        """``580.159.04``, verbatim."""

    def system_cuda_driver_version(self) -> int:
        """1000 times the major plus 10 times the minor: 13000."""

    def device_count(self) -> int:
        """GPUs of this machine, lost ones included."""

    def device_handle_by_index(self, index: int) -> Device:
        """INVALID_ARGUMENT past the last; GPU_IS_LOST where the GPU fell off the bus."""

    def device_handle_by_uuid(self, uuid: str) -> Device:
        """A GPU or a MIG device (``MIG-<uuid>`` or ``MIG-GPU-<uuid>/<gi>/<ci>``); compared byte by byte, else NOT_FOUND."""

    def device_uuid(self, device: Device) -> str: ...
    def device_minor_number(self, device: Device) -> int: ...
    def device_name(self, device: Device) -> str: ...
    def device_brand(self, device: Device) -> int:
        """A number of ``Brand``, or one that is newer."""

    def device_architecture(self, device: Device) -> int:
        """A number of ``Architecture``, or one that is newer."""

    def device_cuda_compute_capability(self, device: Device) -> tuple[int, int]: ...
    def device_memory_total_bytes(self, device: Device) -> int:
        """``nvmlDeviceGetMemoryInfo().total``; NOT_SUPPORTED on unified memory."""

    def device_memory_used_bytes(self, device: Device) -> int:
        """Without what the driver keeps for itself, as ``nvidia-smi`` counts; NOT_SUPPORTED on unified memory."""

    def device_utilization_percent(self, device: Device) -> int:
        """Of the last sample period, the part in which a kernel ran; NOT_SUPPORTED in MIG mode."""

    def device_temperature_celsius(self, device: Device) -> int: ...
    def device_power_mw(self, device: Device) -> int:
        """Of the board, in milliwatts."""

    def device_pci_info(self, device: Device) -> PciInfo: ...
    def device_addressing_mode(self, device: Device) -> int: ...
    def device_module_id(self, device: Device) -> int: ...
    def device_virtualization_mode(self, device: Device) -> int: ...
    def device_compute_mode(self, device: Device) -> int:
        """A number of ``ComputeMode``."""

    def device_set_compute_mode(self, device: Device, mode: int) -> None:
        """Of a GPU, until the driver is loaded anew; NO_PERMISSION for whoever is not root, NOT_SUPPORTED for MIG devices."""

    def device_mig_mode(self, device: Device) -> MigMode:
        """NOT_SUPPORTED where the GPU has no MIG."""

    def device_set_mig_mode(self, device: Device, *, enabled: bool) -> Code:
        """Sets the mode and answers the activation's own code: the call can succeed while the activation did not."""

    def device_nvlink_state(self, device: Device, link: int) -> bool:
        """Whether the link is up, as this end sees it."""

    def device_nvlink_remote_pci_info(self, device: Device, link: int) -> PciInfo: ...
    def device_nvlink_remote_device_type(self, device: Device, link: int) -> int: ...
    def device_topology_common_ancestor(self, first: Device, second: Device) -> int:
        """``nvmlGpuTopologyLevel_t``: a number of ``readings.PcieLevel``."""

    def device_gpu_fabric_info(self, device: Device) -> FabricInfo: ...

    def device_gpu_instance_profile_info(self, device: Device, profile: int) -> GpuInstanceProfileInfo:
        """By profile number below ``GPU_INSTANCE_PROFILE_COUNT``; NOT_SUPPORTED where the GPU has no such profile."""

    def device_gpu_instance_possible_placements(self, device: Device, profile_id: int) -> tuple[Placement, ...]:
        """By the profile's id, free or not."""

    def device_create_gpu_instance_with_placement(self, device: Device, profile_id: int, placement: Placement) -> GpuInstance:
        """INSUFFICIENT_RESOURCES where the placement, or what else the profile needs, is taken."""

    def device_gpu_instances(self, device: Device, profile_id: int) -> tuple[GpuInstance, ...]: ...
    def device_gpu_instance_by_id(self, device: Device, instance_id: int) -> GpuInstance: ...
    def gpu_instance_info(self, gpu_instance: GpuInstance) -> GpuInstanceInfo: ...
    def gpu_instance_destroy(self, gpu_instance: GpuInstance) -> None:
        """IN_USE while it has compute instances, or a client holds it."""

    def gpu_instance_compute_instance_profile_info(self, gpu_instance: GpuInstance, profile: int) -> ComputeInstanceProfileInfo:
        """By profile number below ``COMPUTE_INSTANCE_PROFILE_COUNT``, with shared engines."""

    def gpu_instance_create_compute_instance(self, gpu_instance: GpuInstance, profile_id: int) -> ComputeInstance: ...
    def gpu_instance_compute_instances(self, gpu_instance: GpuInstance, profile_id: int) -> tuple[ComputeInstance, ...]: ...
    def compute_instance_info(self, compute_instance: ComputeInstance) -> ComputeInstanceInfo: ...
    def compute_instance_destroy(self, compute_instance: ComputeInstance) -> None: ...
    def device_gpu_recovery_action(self, device: Device) -> int:
        """A number of ``RecoveryAction``, or one that is newer (``NVML_FI_DEV_GET_GPU_RECOVERY_ACTION``)."""

    def device_uncorrected_ecc_errors(self, device: Device) -> int:
        """Since the GPU was last reset (``nvmlDeviceGetTotalEccErrors``, uncorrected and volatile)."""

    def device_remapped_rows(self, device: Device) -> RemappedRows: ...
    def device_clocks_event_reasons(self, device: Device) -> int:
        """Bits of ``ClocksReason``, and others: why the clocks are lower than they could be now."""

    def device_supported_event_types(self, device: Device) -> int: ...
    def event_set_create(self) -> EventSet: ...
    def device_register_events(self, device: Device, event_types: int, event_set: EventSet) -> None: ...
    def event_set_wait(self, event_set: EventSet, timeout_ms: int) -> Event | None:
        """Waits until an event or the timeout: None is NVML's TIMEOUT. 0 asks without waiting."""

    def event_set_free(self, event_set: EventSet) -> None: ...


OpenNvml = Callable[[], AbstractContextManager[NvmlLibrary]]
"""NVML, initialised for as long as the context lasts. Entering raises ``NvmlError``."""
