"""What is seen of the GPUs' health: events as NVML tells them, and looks at what it tells no events of. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from driver.health.model import Instance
from driver.names import DeviceName
from driver.nvml.library import FabricInfo, RemappedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A look at one GPU. None is what it cannot tell, or did not."""

    uuid: str
    has_events: bool = True
    recovery_action: int | None = None
    uncorrected_ecc_errors: int | None = None
    """Since the last reset."""
    remapped_rows: RemappedRows | None = None
    clocks_reasons: int | None = None
    links: tuple[tuple[int, bool], ...] = ()
    """Each NVLink that told its state: number, and whether it is up."""
    fabric: FabricInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class XidSeen:
    """NVML told of an XID."""

    device: DeviceName
    at: datetime
    number: int
    instance: Instance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EccSeen:
    """NVML told of memory errors that could not be corrected."""

    device: DeviceName
    at: datetime
    instance: Instance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A GPU was looked at."""

    device: DeviceName
    at: datetime
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSeen:
    """NVML said GPU_IS_LOST of a GPU."""

    device: DeviceName
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSeen:
    """Which boot of the machine, and which load of the driver, it is now: another one starts with nothing wrong."""

    epoch: str


Observation: TypeAlias = XidSeen | EccSeen | Looked | LostSeen | DriverSeen
