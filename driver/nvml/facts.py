"""The facts that a reading is made of: the call of each, whether a GPU must answer it, and what the answer means. Pure."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from driver.names import GpuUUID, PciAddress
from driver.nvml.enums import AddressingMode, Architecture, Brand, FabricState, NvLinkDeviceType
from driver.nvml.library import Code, FabricInfo, PciInfo
from driver.nvml.readings import FabricReading, RemoteType

_MAX_TEXT = 256
"""Bytes of one of NVML's texts that are kept; NVML's own buffers are shorter."""

_BRANDS: Mapping[int, str] = {
    Brand.QUADRO: "Quadro",
    Brand.TESLA: "Tesla",
    Brand.NVS: "NVS",
    Brand.GRID: "Grid",
    Brand.GEFORCE: "GeForce",
    Brand.TITAN: "Titan",
    Brand.NVIDIA_VAPPS: "NvidiaVApps",
    Brand.NVIDIA_VPC: "NvidiaVPC",
    Brand.NVIDIA_VCS: "NvidiaVCS",
    Brand.NVIDIA_VWS: "NvidiaVWS",
    Brand.NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
    Brand.QUADRO_RTX: "QuadroRTX",
    Brand.NVIDIA_RTX: "NvidiaRTX",
    Brand.NVIDIA: "Nvidia",
    Brand.GEFORCE_RTX: "GeForceRTX",
    Brand.TITAN_RTX: "TitanRTX",
}

_ARCHITECTURES: Mapping[int, str] = {
    Architecture.KEPLER: "Kepler",
    Architecture.MAXWELL: "Maxwell",
    Architecture.PASCAL: "Pascal",
    Architecture.VOLTA: "Volta",
    Architecture.TURING: "Turing",
    Architecture.AMPERE: "Ampere",
    Architecture.ADA: "Ada Lovelace",
    Architecture.HOPPER: "Hopper",
    Architecture.BLACKWELL: "Blackwell",
    Architecture.RUBIN: "Rubin",
}

_ADDRESSING: Mapping[int, str] = {AddressingMode.NONE: "None", AddressingMode.HMM: "HMM", AddressingMode.ATS: "ATS"}

REMOTE_TYPES: Mapping[int, RemoteType] = {
    NvLinkDeviceType.GPU: RemoteType.GPU,
    NvLinkDeviceType.SWITCH: RemoteType.SWITCH,
    NvLinkDeviceType.IBMNPU: RemoteType.CPU,
}


class Unusable(Exception):
    """A GPU's required answer makes no sense; the text is the reason of its failure."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One call to a GPU: the method of ``NvmlLibrary``, and how its answer becomes the reading's value."""

    method: str
    convert: Callable[[Any], Any]


def clean_text(text: str) -> str:
    """``text`` without what NVML's buffers may leave behind: bounded, cut at NUL, no control characters, no outer spaces."""
    cut = text[:_MAX_TEXT].split("\0", 1)[0]
    return "".join(char if char.isprintable() else "\ufffd" for char in cut).strip()


def _parse_uuid(text: str) -> GpuUUID:
    prefix, _, rest = text.partition("-")
    try:
        if prefix == "GPU" and str(uuids.UUID(rest)) == rest and int(rest.replace("-", ""), 16) != 0:
            return GpuUUID(text)
    except ValueError:
        pass
    raise Unusable(f"its UUID {clean_text(text)!r} is no GPU-<uuid> in lower case")


def parse_pci(info: PciInfo) -> PciAddress:
    """The GPU's own address, from NVML's text."""
    try:
        return PciAddress.parse(info.bus_id)
    except ValueError as err:
        raise Unusable(f"NVML's bus id is unusable: {err}") from err


def _parse_product_name(text: str) -> str:
    name = clean_text(text)
    if not name:
        raise Unusable("its product name is empty")
    return name


def _build_fabric(info: FabricInfo) -> FabricReading | None:
    if info.state == FabricState.NOT_SUPPORTED:
        return None
    return FabricReading(
        cluster_uuid=str(uuids.UUID(bytes=info.cluster_uuid)),
        clique_id=info.clique_id,
        is_complete=info.state == FabricState.COMPLETED and info.status == Code.SUCCESS,
    )


REQUIRED: Mapping[str, Fact] = {
    "uuid": Fact("device_uuid", _parse_uuid),
    "minor": Fact("device_minor_number", int),
    "product_name": Fact("device_name", _parse_product_name),
}
"""The facts without which a GPU cannot be told apart or given to a container; the PCI address is asked before them."""

OPTIONAL: Mapping[str, Fact] = {
    "brand": Fact("device_brand", _BRANDS.get),
    "architecture": Fact("device_architecture", _ARCHITECTURES.get),
    "cuda_compute_capability": Fact("device_cuda_compute_capability", tuple),
    "memory_bytes": Fact("device_memory_total_bytes", lambda total: total or None),
    "addressing_mode": Fact("device_addressing_mode", _ADDRESSING.get),
    "module_id": Fact("device_module_id", int),
    "virtualization_mode": Fact("device_virtualization_mode", int),
    "fabric": Fact("device_gpu_fabric_info", _build_fabric),
}
"""The facts that some GPUs do not have; each is a field of ``GpuReading`` that has a default."""
