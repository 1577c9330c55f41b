"""NVML's own numbers for what a GPU may be. An answer may be newer than these: methods answer with ``int``."""

from __future__ import annotations

import enum

NVIDIA_VENDOR_ID = 0x10DE
"""PCI's number for NVIDIA, the lower half of ``PciInfo.device_id``."""


class Brand(enum.IntEnum):
    """``nvmlBrandType_t``, the members that GPUs of today answer with."""

    UNKNOWN = 0
    QUADRO = 1
    TESLA = 2
    NVS = 3
    GRID = 4
    GEFORCE = 5
    TITAN = 6
    NVIDIA_VAPPS = 7
    NVIDIA_VPC = 8
    NVIDIA_VCS = 9
    NVIDIA_VWS = 10
    NVIDIA_CLOUD_GAMING = 11
    QUADRO_RTX = 12
    NVIDIA_RTX = 13
    NVIDIA = 14
    GEFORCE_RTX = 15
    TITAN_RTX = 16


class Architecture(enum.IntEnum):
    """``nvmlDeviceArchitecture_t``."""

    KEPLER = 2
    MAXWELL = 3
    PASCAL = 4
    VOLTA = 5
    TURING = 6
    AMPERE = 7
    ADA = 8
    HOPPER = 9
    BLACKWELL = 10
    RUBIN = 13


class ComputeMode(enum.IntEnum):
    """``nvmlComputeMode_t``, without the mode that CUDA took away (1)."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class AddressingMode(enum.IntEnum):
    """``NVML_DEVICE_ADDRESSING_MODE_*``."""

    NONE = 0
    HMM = 1
    ATS = 2


class VirtualizationMode(enum.IntEnum):
    """``nvmlGpuVirtualizationMode_t``."""

    NONE = 0
    PASSTHROUGH = 1
    VGPU = 2
    HOST_VGPU = 3
    HOST_VSGA = 4


class NvLinkDeviceType(enum.IntEnum):
    """``nvmlIntNvLinkDeviceType_t``; IBMNPU is a CPU's NVLink port."""

    GPU = 0x00
    IBMNPU = 0x01
    SWITCH = 0x02
    UNKNOWN = 0xFF


class FabricState(enum.IntEnum):
    """``nvmlGpuFabricState_t``."""

    NOT_SUPPORTED = 0
    NOT_STARTED = 1
    IN_PROGRESS = 2
    COMPLETED = 3


class EventType(enum.IntFlag):
    """``nvmlEventType*``, those that health is judged by."""

    SINGLE_BIT_ECC = 0x1
    DOUBLE_BIT_ECC = 0x2
    XID_CRITICAL = 0x8
    SINGLE_BIT_ECC_STORM = 0x200
    DRAM_RETIREMENT = 0x400
    DRAM_RETIREMENT_FAILURE = 0x800
    NON_FATAL_POISON = 0x1000
    FATAL_POISON = 0x2000
    GPU_UNAVAILABLE = 0x4000
    GPU_RECOVERY_ACTION = 0x8000


class RecoveryAction(enum.IntEnum):
    """``nvmlDeviceGpuRecoveryAction_t``: what the driver says has to be done about a GPU."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


class ClocksReason(enum.IntFlag):
    """``nvmlClocksEventReason*``, those that say that the machine is ill; a busy GPU has others all the time."""

    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE_SLOWDOWN = 0x80
