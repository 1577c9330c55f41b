"""How a device is shared by the containers of a claim: what ``sharing`` in NVIDIA's configs says, as values. Pure.

Source: ``GpuSharing`` and ``MigDeviceSharing`` of NVIDIA's driver: the same names, defaults and limits. Two limits are closer
here, since NVIDIA's driver takes such values and fails later: a thread percentage of 0 (B65), and amounts beyond 1 PiB.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from driver.api.config_schema import ByDevice, Choice, Fields, Flag, Memory, Whole
from driver.api.quantity import parse_quantity

_MIB = 1024 * 1024


class Strategy(enum.Enum):
    """How."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Interval(enum.Enum):
    """How long one process has the GPU before the next; the driver's own words, shortest to longest."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlicing:
    """Processes take turns."""

    interval: Interval = Interval.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Mps:
    """Processes run at once, as clients of one MPS daemon. None is no limit."""

    thread_percentage: int | None = None
    memory_mib: int | None = None
    """Pinned device memory that one client may have of each device."""
    memory_mib_by_device: tuple[tuple[str, int], ...] = ()
    """The same for single devices, by position or UUID as it was written; not resolved yet."""
    is_multi_user: bool = False


Sharing: TypeAlias = TimeSlicing | Mps

_MEMORY = Memory(lowest="1Mi", highest="1Pi")
_STRATEGY = Choice(options=tuple(each.value for each in Strategy))
_MPS_CONFIG = Fields(
    fields={
        "defaultActiveThreadPercentage": Whole(lowest=1, highest=100),
        "defaultPinnedDeviceMemoryLimit": _MEMORY,
        "defaultPerDevicePinnedMemoryLimit": ByDevice(value=_MEMORY),
        "multiUser": Flag(),
    }
)
_TIME_SLICING_CONFIG = Fields(fields={"interval": Choice(options=tuple(each.value for each in Interval))})
_WITH_MPS = ("strategy", Strategy.MPS.value)

GPU_SHARING = Fields(
    fields={"strategy": _STRATEGY, "timeSlicingConfig": _TIME_SLICING_CONFIG, "mpsConfig": _MPS_CONFIG},
    required=("strategy",),
    only_with={"timeSlicingConfig": ("strategy", Strategy.TIME_SLICING.value), "mpsConfig": _WITH_MPS},
)
MIG_SHARING = Fields(
    fields={"strategy": _STRATEGY, "mpsConfig": _MPS_CONFIG}, required=("strategy",), only_with={"mpsConfig": _WITH_MPS}
)
"""A MIG device has no interval: time slices are the whole GPU's (B63)."""


def build_sharing(block: Mapping[str, Any]) -> Sharing:
    """The value of a block in which ``find_faults`` found nothing."""
    if block["strategy"] == Strategy.TIME_SLICING.value:
        interval = (block.get("timeSlicingConfig") or {}).get("interval")
        return TimeSlicing(interval=Interval(interval or Interval.DEFAULT.value))
    config = block.get("mpsConfig") or {}
    memory = config.get("defaultPinnedDeviceMemoryLimit")
    by_device = config.get("defaultPerDevicePinnedMemoryLimit") or {}
    return Mps(
        thread_percentage=config.get("defaultActiveThreadPercentage"),
        memory_mib=None if memory is None else to_mib(memory),
        memory_mib_by_device=tuple(sorted((key, to_mib(amount)) for key, amount in by_device.items())),
        is_multi_user=bool(config.get("multiUser")),
    )


def to_mib(amount: str | int) -> int:
    """A quantity in whole MiB, which is what MPS takes; what is over is cut off, as NVIDIA's driver does it."""
    return int(parse_quantity(str(amount)) / _MIB)
