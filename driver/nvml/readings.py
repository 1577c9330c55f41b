"""What one reading of a machine's GPUs says, as frozen values. An absent fact is ``None``, never a zero or an empty string."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.names import GpuUUID, PciAddress


class PcieLevel(enum.IntEnum):
    """How far apart two GPUs are on PCIe: NVML's ``nvmlGpuTopologyLevel_t``; smaller is nearer. Unknown is the worst."""

    SAME_BOARD = 0
    PIX = 10
    PXB = 20
    PHB = 30
    NODE = 40
    SYS = 50
    UNKNOWN = 60


class RemoteType(enum.Enum):
    """What is at the other end of an NVLink (NVML's ``nvmlIntNvLinkDeviceType_t``)."""

    GPU = "gpu"
    SWITCH = "switch"
    CPU = "cpu"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvLinkReading:
    """One NVLink port of one GPU, as this GPU sees it."""

    link: int
    is_active: bool
    remote_type: RemoteType
    remote_pci: PciAddress | None
    """The other end; for a switch the switch's own address. None where NVML does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricReading:
    """A GPU's place in a multi-node NVLink fabric (``nvmlDeviceGetGpuFabricInfo``)."""

    cluster_uuid: str
    """Canonical lower-case UUID text; all zeros where the GPU belongs to no cluster."""
    clique_id: int
    is_complete: bool
    """True when the state is COMPLETED and the status is SUCCESS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU that answered every required call."""

    index: int
    uuid: GpuUUID
    pci: PciAddress
    minor: int
    """The number in ``/dev/nvidia<minor>``."""
    product_name: str
    brand: str | None = None
    architecture: str | None = None
    """NVIDIA's word: ``Ampere``, ``Ada Lovelace``, ``Hopper``, ``Blackwell``."""
    cuda_compute_capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    addressing_mode: str | None = None
    """``HMM``, ``ATS`` or ``None`` (the text), as NVIDIA's driver publishes it."""
    module_id: int | None = None
    is_mig_enabled: bool = False
    """The current MIG mode; False also where the GPU cannot do MIG."""
    nvlinks: tuple[NvLinkReading, ...] = ()
    fabric: FabricReading | None = None
    numa_node: int | None = None
    """From sysfs, never from NVML (whose answer on GB200 is a memory-only node); None where sysfs says -1 or nothing."""
    pcie_root: str | None = None
    """``pci0000:17``, from the sysfs link; None on virtual machines that hide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFailure:
    """One GPU that failed a required call; it is left out alone."""

    index: int
    pci: PciAddress | None
    uuid: GpuUUID | None
    reason: str
    is_lost: bool
    """NVML said GPU_IS_LOST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """Everything that one pass over NVML and sysfs said."""

    driver_version: str
    """NVML's text, verbatim: ``580.159.04``."""
    cuda_driver_version: tuple[int, int] | None
    gpus: tuple[GpuReading, ...]
    """In order of PCI address."""
    failures: tuple[GpuFailure, ...] = ()
    pcie_levels: Mapping[tuple[PciAddress, PciAddress], PcieLevel] = field(default_factory=dict)
    """For each pair (lower address first) that NVML answered; a pair that is absent is unknown."""
