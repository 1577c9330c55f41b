"""The YAML forms of the mock, as they are written: machine files, the catalogue of boards, MIG tables.

Strict: unknown keys are errors. What a document means for a machine is worked out in ``build``; ``docs/mock-machines.md`` is
the page for people.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driver.nvml.mock.faults import Fault

MAX_GPUS = 64

Name = Annotated[str, Meta(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$", examples=["lab-node"])]
Text = Annotated[str, Meta(min_length=1, max_length=128)]
PciText = Annotated[str, Meta(pattern=r"^(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$", examples=["17:00.0"])]
RootText = Annotated[str, Meta(pattern=r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$", examples=["pci0000:15"])]
SwitchText = Annotated[str, Meta(pattern=r"^[a-z0-9]{1,16}(?:/[a-z0-9]{1,16}){0,3}$", examples=["a or b/c"])]
PairText = Annotated[str, Meta(pattern=r"^[0-9]{1,2}-[0-9]{1,2}$", examples=["0-1"])]
UuidText = Annotated[
    str,
    Meta(pattern=r"^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", examples=["GPU-6f4c2f1e-0c55-4b0c-9f5e-0d8f4c1f2a3b"]),
]
LevelName = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
GpuNumber = Annotated[int, Meta(ge=0, lt=MAX_GPUS)]
NumaNode = Annotated[int, Meta(ge=-1, lt=1024)]
Count = Annotated[int, Meta(ge=0, le=1024)]
LinkCount = Annotated[int, Meta(ge=0, le=36)]
Mib = Annotated[int, Meta(gt=0, lt=2**40)]
VersionPair = Annotated[str, Meta(pattern=r"^[0-9]{1,3}\.[0-9]{1,2}$", examples=["13.0"])]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Every mapping of our YAML."""


class MigProfileDocument(_Strict, frozen=True, kw_only=True):
    """A GPU-instance profile: its numbers, where it may lie, and what it takes."""

    number: Annotated[int, Meta(ge=0, lt=0x12)]
    """NVML's enumeration, ``NVML_GPU_INSTANCE_PROFILE_*``."""
    id: Annotated[int, Meta(ge=0, lt=256)]
    """What ``nvidia-smi mig -lgip`` calls it."""
    slices: Annotated[int, Meta(ge=1, le=8)]
    """Compute slices."""
    count: Annotated[int, Meta(ge=1, le=16)]
    starts: Annotated[list[Annotated[int, Meta(ge=0, lt=64)]], Meta(min_length=1, max_length=16)]
    size: Annotated[int, Meta(ge=1, le=64)]
    """Memory slices."""
    sm: Count
    memory_mib: Mib
    ce: Count = 0
    dec: Count = 0
    enc: Count = 0
    jpeg: Count = 0
    ofa: Count = 0


class MigTableDocument(_Strict, frozen=True, kw_only=True):
    """The profiles of a kind of GPU."""

    memory_slices: Annotated[int, Meta(ge=1, le=64)]
    compute_slices: Annotated[int, Meta(ge=1, le=8)]
    profiles: Annotated[list[MigProfileDocument], Meta(min_length=1, max_length=18)]


class BoardDocument(_Strict, frozen=True, kw_only=True):
    """A model of GPU."""

    product: Text
    brand: Literal["Unknown", "Quadro", "Tesla", "GeForce", "Titan", "QuadroRTX", "NvidiaRTX", "Nvidia"]
    architecture: Literal["Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell", "Rubin"]
    compute: VersionPair
    device_id: Annotated[int, Meta(ge=0, lt=0x10000)]
    """PCI's, without NVIDIA's vendor number."""
    memory_mib: Mib | None
    """``null`` where NVML says NOT_SUPPORTED: the memory is the machine's."""
    nvlinks: LinkCount = 0
    """Ports on the board, connected or not."""
    addressing: Literal["None", "HMM", "ATS"] | None = None
    fabric: bool = False
    """Whether ``nvmlDeviceGetGpuFabricInfo`` is supported."""
    mig: Name | None = None
    """A MIG table's name."""


class MigInstanceDocument(_Strict, frozen=True, kw_only=True):
    """A GPU instance, and a compute instance over all of it, that is there when the machine is first opened."""

    profile: Annotated[int, Meta(ge=0, lt=256)]
    start: Annotated[int, Meta(ge=0, lt=64)]


class MigStartDocument(_Strict, frozen=True, kw_only=True):
    """What an administrator did before the driver came."""

    enabled: bool
    instances: Annotated[list[MigInstanceDocument], Meta(max_length=16)] = []


class GpusDocument(_Strict, frozen=True, kw_only=True):
    """GPUs that have much in common: as many as ``pci`` has entries. A list elsewhere has one entry a GPU."""

    board: Name
    pci: Annotated[list[PciText], Meta(min_length=1, max_length=MAX_GPUS)]
    numa: NumaNode | list[NumaNode] = -1
    root: RootText | list[RootText | None] | None = None
    """The PCI root in sysfs; None where the machine hides it."""
    switch: SwitchText | list[SwitchText | None] | None = None
    """The PCIe switch below the root; ``a/b`` is a switch b below a switch a."""
    minors: list[GpuNumber | None] | None = None
    modules: list[Count | None] | None = None
    uuids: list[UuidText | None] | None = None
    mig: MigStartDocument | None = None


class NvLinkDocument(_Strict, frozen=True, kw_only=True):
    """Which NVLinks there are: to switches, or between GPUs. Exactly one of the three."""

    switches: Annotated[list[PciText], Meta(min_length=1, max_length=64)] | None = None
    """Every port of every GPU goes to one of these."""
    pairs: dict[PairText, LinkCount] | None = None
    matrix: Annotated[list[list[LinkCount]], Meta(min_length=1, max_length=MAX_GPUS)] | None = None


class FabricDocument(_Strict, frozen=True, kw_only=True):
    """The multi-node NVLink fabric that the machine's GPUs say they belong to."""

    cluster: Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    clique: Annotated[int, Meta(ge=0, lt=2**32)]
    state: Literal["not-started", "in-progress", "completed"] = "completed"


class MachineDocument(_Strict, frozen=True, kw_only=True):
    """A whole machine."""

    name: Name
    description: Annotated[str, Meta(max_length=1024)] = ""
    driver: Annotated[str, Meta(pattern=r"^[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}$", examples=["580.159.04"])]
    cuda: VersionPair
    gpus: Annotated[list[GpusDocument], Meta(min_length=1, max_length=MAX_GPUS)]
    nvlink: NvLinkDocument | None = None
    fabric: FabricDocument | None = None
    virtualization: Literal["none", "passthrough", "vgpu"] = "none"
    levels: dict[LevelName, list[PairText]] = {}
    """PCIe levels that do not follow from root, switch and NUMA node."""
    boards: dict[Name, BoardDocument] = {}
    """Boards that the catalogue does not have."""
    mig_tables: dict[Name, MigTableDocument] = {}
    faults: Annotated[list[Fault], Meta(max_length=1024)] = []
