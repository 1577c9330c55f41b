"""The fence on devices: put up with its moment, and read back from slices. Pure.

All devices of a pool carry it alike: whole GPUs, MIG devices, and those that are lost and still held.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from driver.api.fence import ALLOCATOR_KEY, FENCED, SCHEDULER
from driver.api.resource_v1 import Device, Taint
from driver.resourceslice.attributes import Allocator

_ATTRIBUTE = "allocator"


class FenceStanding(enum.Enum):
    """How the devices that the API server has stand to the fence that was asked for."""

    UP = "up"
    """Every device has it."""
    OPEN = "open"
    """A device has none at all: kube-scheduler may allocate it."""
    OTHER = "other"
    """Every device is fenced, not all of them as asked for: writes are under way."""


def stamp_fence(devices: Iterable[Device], time_added: str) -> tuple[Device, ...]:
    """The devices with this ``timeAdded`` on the fence's taint, so that the server does not choose one for each slice."""
    return tuple(_stamp(device, time_added) for device in devices)


def judge_fence(devices: Iterable[Device], allocator: Allocator, time_added: str) -> FenceStanding:
    """How devices stand to the fence of ``allocator`` (not of ``scheduler``, which has none).

    An empty ``time_added`` is any. No device at all is as good as fenced.
    """
    standing = FenceStanding.UP
    for device in devices:
        taint = _find_fence(device)
        if taint is None:
            return FenceStanding.OPEN
        if taint.value != allocator.value or time_added not in ("", taint.time_added):
            standing = FenceStanding.OTHER
    return standing


def is_fenced_as(devices: Iterable[Device], allocator: Allocator, time_added: str) -> bool:
    """Whether these devices say what is to be published: the fence where there is one to be, and none where there is none."""
    if allocator is Allocator.SCHEDULER:
        return all(_find_fence(device) is None for device in devices)
    return judge_fence(devices, allocator, time_added) is FenceStanding.UP


def find_allocators(published: Iterable[Device], remembered: Iterable[Device]) -> frozenset[Allocator]:
    """Who may have allocated these devices of late, as far as they say themselves.

    Args:
        published: from slices: there the taint counts, not the attribute, which the server never drops.
        remembered: from the inventory, which has no taints.
    """
    said = {_read_published(device) for device in published}
    said |= {_read_value(attribute.string) for device in remembered if (attribute := device.attributes.get(_ATTRIBUTE))}
    return frozenset(said)


def read_fence_times(devices: Iterable[Device]) -> frozenset[str]:
    """Every ``timeAdded`` of the fence."""
    taints = (_find_fence(device) for device in devices)
    return frozenset(taint.time_added for taint in taints if taint is not None and taint.time_added)


def _stamp(device: Device, time_added: str) -> Device:
    if not time_added or not any(_is_fence(taint) for taint in device.taints):
        return device
    taints = tuple(
        msgspec.structs.replace(taint, time_added=time_added) if _is_fence(taint) else taint for taint in device.taints
    )
    return msgspec.structs.replace(device, taints=taints)


def _read_published(device: Device) -> Allocator:
    taint = _find_fence(device)
    return Allocator.SCHEDULER if taint is None else _read_value(taint.value)


def _read_value(value: str | None) -> Allocator:
    """What is unknown is taken for a state in which both sides may have something under way."""
    return Allocator(value) if value in (SCHEDULER, *FENCED) else Allocator.DRAINING


def _find_fence(device: Device) -> Taint | None:
    return next((taint for taint in _blocking(device.taints) if _is_fence(taint)), None)


def _blocking(taints: Sequence[Taint]) -> Iterable[Taint]:
    return (taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute"))


def _is_fence(taint: Taint) -> bool:
    return taint.key == ALLOCATOR_KEY
