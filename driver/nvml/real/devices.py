# ruff: noqa: D102 - NvmlLibrary says what each call does
"""The library's answers about itself and about GPUs, through pynvml."""

from __future__ import annotations

import ctypes

import pynvml

from driver.nvml.library import Code, Device, FabricInfo, PciInfo
from driver.nvml.real.session import Refused, Session, decode_field, nvml_call, pointer_of, read_text, wrap


def _build_pci_info(raw: ctypes.Structure) -> PciInfo:
    return PciInfo(bus_id=decode_field(raw, "busId"), device_id=int(raw.pciDeviceId))


def _is_c_text(text: str) -> bool:
    """Whether C sees all of ``text``: it would compare what stands before a NUL."""
    return text.isascii() and "\0" not in text


class DeviceCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def system_driver_version(self) -> str:
        return read_text(pynvml.nvmlSystemGetDriverVersion)

    @nvml_call
    def system_cuda_driver_version(self) -> int:
        return int(pynvml.nvmlSystemGetCudaDriverVersion())

    @nvml_call
    def device_count(self) -> int:
        return int(pynvml.nvmlDeviceGetCount())

    @nvml_call
    def device_handle_by_index(self, index: int) -> Device:
        return Device(wrap(pynvml.nvmlDeviceGetHandleByIndex(index)))

    @nvml_call
    def device_handle_by_uuid(self, uuid: str) -> Device:
        if not _is_c_text(uuid):
            raise Refused(Code.NOT_FOUND)
        return Device(wrap(pynvml.nvmlDeviceGetHandleByUUID(uuid)))

    @nvml_call
    def device_uuid(self, device: Device) -> str:
        return read_text(pynvml.nvmlDeviceGetUUID, pointer_of(device))

    @nvml_call
    def device_minor_number(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetMinorNumber(pointer_of(device)))

    @nvml_call
    def device_name(self, device: Device) -> str:
        return read_text(pynvml.nvmlDeviceGetName, pointer_of(device))

    @nvml_call
    def device_brand(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetBrand(pointer_of(device)))

    @nvml_call
    def device_architecture(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetArchitecture(pointer_of(device)))

    @nvml_call
    def device_cuda_compute_capability(self, device: Device) -> tuple[int, int]:
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(pointer_of(device))
        return int(major), int(minor)

    @nvml_call
    def device_memory_total_bytes(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(pointer_of(device)).total)

    @nvml_call
    def device_memory_used_bytes(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(pointer_of(device), version=pynvml.nvmlMemory_v2).used)

    @nvml_call
    def device_utilization_percent(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetUtilizationRates(pointer_of(device)).gpu)

    @nvml_call
    def device_temperature_celsius(self, device: Device) -> int:
        pointer = pointer_of(device)
        try:
            return int(pynvml.nvmlDeviceGetTemperatureV(pointer, pynvml.NVML_TEMPERATURE_GPU))
        except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
            # Older drivers have the first form alone, which CUDA 14 takes away.
            return int(pynvml.nvmlDeviceGetTemperature(pointer, pynvml.NVML_TEMPERATURE_GPU))

    @nvml_call
    def device_power_mw(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetPowerUsage(pointer_of(device)))

    @nvml_call
    def device_pci_info(self, device: Device) -> PciInfo:
        return _build_pci_info(pynvml.nvmlDeviceGetPciInfo(pointer_of(device)))

    @nvml_call
    def device_addressing_mode(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetAddressingMode(pointer_of(device)))

    @nvml_call
    def device_module_id(self, device: Device) -> int:
        # A number of our own: pynvml's default argument is one object for all threads.
        return int(pynvml.nvmlDeviceGetModuleId(pointer_of(device), ctypes.c_uint()))

    @nvml_call
    def device_virtualization_mode(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetVirtualizationMode(pointer_of(device)))

    @nvml_call
    def device_compute_mode(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetComputeMode(pointer_of(device)))

    @nvml_call
    def device_set_compute_mode(self, device: Device, mode: int) -> None:
        pynvml.nvmlDeviceSetComputeMode(pointer_of(device), mode)

    @nvml_call
    def device_nvlink_state(self, device: Device, link: int) -> bool:
        return bool(pynvml.nvmlDeviceGetNvLinkState(pointer_of(device), link))

    @nvml_call
    def device_nvlink_remote_pci_info(self, device: Device, link: int) -> PciInfo:
        return _build_pci_info(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(pointer_of(device), link))

    @nvml_call
    def device_nvlink_remote_device_type(self, device: Device, link: int) -> int:
        return int(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(pointer_of(device), link))

    @nvml_call
    def device_topology_common_ancestor(self, first: Device, second: Device) -> int:
        return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(pointer_of(first), pointer_of(second)))

    @nvml_call
    def device_gpu_fabric_info(self, device: Device) -> FabricInfo:
        pointer = pointer_of(device)
        raw = pynvml.c_nvmlGpuFabricInfo_v2_t()
        try:
            pynvml.nvmlDeviceGetGpuFabricInfoV(pointer, ctypes.byref(raw))
        except pynvml.NVMLError_FunctionNotFound:
            # Drivers before 545 have the first form alone.
            raw = pynvml.c_nvmlGpuFabricInfo_t()
            pynvml.nvmlDeviceGetGpuFabricInfo(pointer, ctypes.byref(raw))
        return FabricInfo(
            cluster_uuid=bytes(raw.clusterUuid), clique_id=int(raw.cliqueId), state=int(raw.state), status=int(raw.status)
        )
