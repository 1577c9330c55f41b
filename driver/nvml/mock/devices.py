# ruff: noqa: D102 - NvmlLibrary says what each call does
"""The mock's answers about the library and about GPUs."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator
from typing import TypeVar

from driver.names import PciAddress
from driver.nvml.enums import NVIDIA_VENDOR_ID, NvLinkDeviceType
from driver.nvml.library import Code, Device, FabricInfo, PciInfo
from driver.nvml.mock.faults import Load
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.model import Port
from driver.nvml.mock.session import Handle, Session, nvml_call
from driver.nvml.readings import PcieLevel

_SWITCH_DEVICE_ID = 0x22A3 << 16 | NVIDIA_VENDOR_ID
"""An NVSwitch's PCI numbers (H100's third generation)."""

_NAMESPACE = uuids.UUID("b9d6f7e4-6f50-5f6a-8a0c-5a4d7e1c2b33")
"""Ours; it makes the UUIDs of mock MIG devices the same in every process."""

_T = TypeVar("_T")


def encode_bus_id(pci: PciAddress) -> str:
    """NVML's text: eight digits of domain, upper case."""
    return f"{pci.domain:08X}:{pci.bus:02X}:{pci.device:02X}.{pci.function:X}"


def build_mig_uuid(gpu_uuid: str, instance_id: int, compute_id: int) -> str:
    """A MIG device's UUID: the same whenever an instance of the same numbers is made again, as on real GPUs."""
    return f"MIG-{uuids.uuid5(_NAMESPACE, f'{gpu_uuid}/{instance_id}/{compute_id}')}"


def _require(value: _T | None) -> _T:
    if value is None:
        raise Refused(Code.NOT_SUPPORTED)
    return value


class DeviceCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def init(self) -> None:
        with self._lock:
            if self._open_count == 0:
                self._opening += 1
            self._open_count += 1

    @nvml_call
    def shutdown(self) -> None:
        with self._lock:
            self._open_count -= 1

    @nvml_call
    def system_driver_version(self) -> str:
        return self._machine.driver_version

    @nvml_call
    def system_cuda_driver_version(self) -> int:
        return self._machine.cuda_driver_version

    @nvml_call
    def device_count(self) -> int:
        return len(self._machine.gpus)

    @nvml_call
    def device_handle_by_index(self, index: int) -> Device:
        if not 0 <= index < len(self._machine.gpus):
            raise Refused(Code.INVALID_ARGUMENT)
        return Device(self._handle("gpu", index))

    @nvml_call
    def device_handle_by_uuid(self, uuid: str) -> Device:
        for index, gpu in enumerate(self._machine.gpus):
            if gpu.uuid == uuid:
                self._book.check_not_lost(index)
                return Device(self._handle("gpu", index))
        for index, instance_id, compute_id in self._list_mig_devices():
            gpu_uuid = self._machine.gpus[index].uuid
            legacy = f"MIG-{gpu_uuid}/{instance_id}/{compute_id}"
            if uuid in (legacy, build_mig_uuid(gpu_uuid, instance_id, compute_id)):
                self._book.check_not_lost(index)
                return Device(self._handle("mig", index, instance_id, compute_id))
        raise Refused(Code.NOT_FOUND)

    @nvml_call
    def device_uuid(self, device: Device) -> str:
        if isinstance(device, Handle) and device.kind == "mig":
            gpu = self._machine.gpus[device.gpu]
            return build_mig_uuid(gpu.uuid, device.gpu_instance, device.compute_instance)
        return self._gpu(device).uuid

    @nvml_call
    def device_minor_number(self, device: Device) -> int:
        return self._gpu(device).minor

    @nvml_call
    def device_name(self, device: Device) -> str:
        return self._gpu(device).board.product

    @nvml_call
    def device_brand(self, device: Device) -> int:
        return self._gpu(device).board.brand

    @nvml_call
    def device_architecture(self, device: Device) -> int:
        return self._gpu(device).board.architecture

    @nvml_call
    def device_cuda_compute_capability(self, device: Device) -> tuple[int, int]:
        return self._gpu(device).board.compute_capability

    @nvml_call
    def device_memory_total_bytes(self, device: Device) -> int:
        return _require(self._gpu(device).board.memory_bytes)

    @nvml_call
    def device_memory_used_bytes(self, device: Device) -> int:
        total = _require(self._gpu(device).board.memory_bytes)
        return total * self._load(device).memory_percent // 100

    @nvml_call
    def device_utilization_percent(self, device: Device) -> int:
        load = self._load(device)
        if self._is_divided(device):
            raise Refused(Code.NOT_SUPPORTED)
        return load.percent

    @nvml_call
    def device_temperature_celsius(self, device: Device) -> int:
        return self._load(device).celsius

    @nvml_call
    def device_power_mw(self, device: Device) -> int:
        return self._load(device).watts * 1000

    @nvml_call
    def device_pci_info(self, device: Device) -> PciInfo:
        gpu = self._gpu(device)
        return PciInfo(bus_id=encode_bus_id(gpu.pci), device_id=gpu.board.device_id)

    @nvml_call
    def device_addressing_mode(self, device: Device) -> int:
        return _require(self._gpu(device).board.addressing_mode)

    @nvml_call
    def device_module_id(self, device: Device) -> int:
        return _require(self._gpu(device).module_id)

    @nvml_call
    def device_virtualization_mode(self, device: Device) -> int:
        self._gpu(device)
        return self._machine.virtualization_mode

    @nvml_call
    def device_compute_mode(self, device: Device) -> int:
        return self._modes.read(self._gpu(device).uuid)

    @nvml_call
    def device_set_compute_mode(self, device: Device, mode: int) -> None:
        if isinstance(device, Handle) and device.kind == "mig":
            raise Refused(Code.NOT_SUPPORTED)
        gpu = self._gpu(device)
        self._modes.write(gpu.uuid, mode, is_mig_enabled=self._is_divided(device))

    @nvml_call
    def device_nvlink_state(self, device: Device, link: int) -> bool:
        port = self._port(device, link)
        handle = self._require(device, "gpu")
        return port is not None and self._book.is_link_up(handle.gpu, link, port.peer)

    @nvml_call
    def device_nvlink_remote_pci_info(self, device: Device, link: int) -> PciInfo:
        port = _require(self._port(device, link))
        device_id = _SWITCH_DEVICE_ID if port.peer is None else self._machine.gpus[port.peer].board.device_id
        return PciInfo(bus_id=encode_bus_id(port.remote_pci), device_id=device_id)

    @nvml_call
    def device_nvlink_remote_device_type(self, device: Device, link: int) -> int:
        port = _require(self._port(device, link))
        return NvLinkDeviceType.SWITCH if port.peer is None else NvLinkDeviceType.GPU

    @nvml_call
    def device_topology_common_ancestor(self, first: Device, second: Device) -> int:
        low, high = sorted((self._require(first, "gpu").gpu, self._require(second, "gpu").gpu))
        self._book.check_not_lost(high)
        return PcieLevel.SAME_BOARD if low == high else self._machine.levels[low, high]

    @nvml_call
    def device_gpu_fabric_info(self, device: Device) -> FabricInfo:
        if not self._gpu(device).board.has_fabric:
            raise Refused(Code.NOT_SUPPORTED)
        return _require(self._machine.fabric)

    def _is_divided(self, device: Device) -> bool:
        index = self._require(device, "gpu").gpu
        return self._machine.gpus[index].board.mig is not None and self._store.read(index).is_enabled

    def _load(self, device: Device) -> Load:
        return self._book.load_of(self._require(device, "gpu").gpu)

    def _port(self, device: Device, link: int) -> Port | None:
        ports = self._gpu(device).ports
        if not ports:
            raise Refused(Code.NOT_SUPPORTED)
        if not 0 <= link < len(ports):
            raise Refused(Code.INVALID_ARGUMENT)
        return ports[link]

    def _list_mig_devices(self) -> Iterator[tuple[int, int, int]]:
        """GPU, GPU instance and compute instance of every MIG device, in order."""
        for index, gpu in enumerate(self._machine.gpus):
            if gpu.board.mig is not None:
                for instance in self._store.read(index).instances:
                    for compute in instance.compute:
                        yield index, instance.id, compute.id
