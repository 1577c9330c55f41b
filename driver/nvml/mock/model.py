"""A mock machine as frozen values: what ``build`` makes of a document, and what the engine answers from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driver.names import PciAddress
from driver.nvml.enums import Architecture
from driver.nvml.library import FabricInfo
from driver.nvml.mock.faults import Fault
from driver.nvml.readings import MigProfile, PcieLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class MigTable:
    """What MIG can make of one kind of GPU."""

    memory_slices: int
    compute_slices: int
    profiles: tuple[MigProfile, ...]

    def by_id(self, profile_id: int) -> MigProfile | None:
        """The profile that placements and creation know by this id."""
        return next((profile for profile in self.profiles if profile.info.id == profile_id), None)

    def by_number(self, number: int) -> MigProfile | None:
        """The profile of NVML's enumeration."""
        return next((profile for profile in self.profiles if profile.number == number), None)

    @property
    def slice_multiprocessors(self) -> int:
        """The multiprocessors of the smallest instance: what one compute slice is worth."""
        return min(profile.info.multiprocessor_count for profile in self.profiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A model of GPU."""

    product: str
    brand: int
    architecture: Architecture
    compute_capability: tuple[int, int]
    device_id: int
    """With NVIDIA's vendor number, as ``PciInfo`` has it."""
    memory_bytes: int | None
    nvlink_ports: int
    addressing_mode: int | None
    has_fabric: bool
    mig: MigTable | None

    @property
    def needs_reset_for_mig(self) -> bool:
        """A change of MIG mode waits for a reset, and outlives a reboot: so until Hopper."""
        return self.architecture < Architecture.HOPPER


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An NVLink port that leads somewhere."""

    remote_pci: PciAddress
    peer: int | None
    """The GPU at the other end; None for a switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MockGpu:
    """A GPU of a machine. Its place in ``Machine.gpus`` is its NVML index."""

    board: Board
    pci: PciAddress
    uuid: str
    minor: int
    module_id: int | None
    numa_node: int
    pcie_root: str | None
    ports: tuple[Port | None, ...]
    """By link number; None is a port without a link."""
    mig_is_enabled: bool
    mig_instances: tuple[tuple[int, int], ...]
    """Profile id and start of what is there at the first boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine."""

    name: str
    seed: str
    driver_version: str
    cuda_driver_version: int
    gpus: tuple[MockGpu, ...]
    levels: Mapping[tuple[int, int], PcieLevel]
    """By NVML index, the lower first; every pair."""
    fabric: FabricInfo | None
    virtualization_mode: int
    faults: tuple[Fault, ...]
