"""What one reading of a machine's GPUs says, as frozen values. An absent fact is ``None``, never a zero or an empty string."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.names import GpuUUID, PciAddress
from driver.nvml.library import GpuInstanceProfileInfo, Placement


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
class MigProfile:
    """A GPU-instance profile that a GPU has. ``number`` is NVML's enumeration, not the profile's id."""

    number: int
    info: GpuInstanceProfileInfo
    placements: tuple[Placement, ...]
    """Free or not; none where the driver tells them only with the mode on (Ampere)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstanceReading:
    """A compute instance: a MIG device, as a container is given it. ``placement`` counts compute slices."""

    id: int
    profile_id: int
    placement: Placement
    multiprocessor_count: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstanceReading:
    """A GPU instance; without compute instances it is half made. ``placement`` counts memory slices."""

    id: int
    profile_id: int
    placement: Placement
    compute: tuple[ComputeInstanceReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigReading:
    """What a GPU that can do MIG says of it."""

    is_enabled: bool
    is_enabled_after_reset: bool
    profiles: tuple[MigProfile, ...] = ()
    instances: tuple[GpuInstanceReading, ...] = ()
    is_mode_known: bool = True
    """False where NVML did not tell the mode, which it has: ``is_enabled`` then says nothing."""
    fault: str = ""
    """Why not all of it could be read, if so: an absent profile or instance then says nothing."""


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
    virtualization_mode: int | None = None
    """A number of ``enums.VirtualizationMode``, or one that is newer."""
    mig: MigReading | None = None
    """None where the GPU cannot do MIG."""
    nvlinks: tuple[NvLinkReading, ...] = ()
    fabric: FabricReading | None = None
    numa_node: int | None = None
    """From sysfs, never from NVML (whose answer on GB200 is a memory-only node); None where sysfs says -1 or nothing."""
    pcie_root: str | None = None
    """``pci0000:17``, from the sysfs link; None on virtual machines that hide it."""

    @property
    def is_mig_enabled(self) -> bool:
        """The MIG mode in force; False also where the GPU cannot do MIG."""
        return self.mig is not None and self.mig.is_enabled


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
