"""What sharing the devices of a claim takes, and whether they can be shared so. Pure.

Nothing is set that nobody asked for: a GPU that can do none of this is prepared as long as its claim says nothing (B63).

- Time slices: from Volta on, on whole GPUs. ``Default`` on an older GPU is what it has anyway.
- MPS: from Volta on. One daemon for all devices of one config entry. A whole GPU is set to EXCLUSIVE_PROCESS, so that a process
  cannot go around the daemon; a MIG device has no mode of its own, and a share of a GPU leaves the mode to the other shares.
- A share with MPS has a daemon of its own whose limit is the memory that the share was given: clients of other claims neither
  see it nor fail with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from driver.api.sharing import Interval, Mps, Sharing, TimeSlicing

VOLTA = (7, 0)
_TIME_SLICES = {Interval.DEFAULT: 0, Interval.SHORT: 1, Interval.MEDIUM: 2, Interval.LONG: 3}
_MIB = 1024 * 1024
_ENTRY = "status.allocation.devices.config[{}].opaque.parameters"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base: these stand in records."""


class MpsUse(_Part, frozen=True, kw_only=True):
    """The MPS daemon that serves a device. All devices of one daemon say the same, but for the memory."""

    daemon: Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", max_length=63)]
    """Its name within the claim."""
    thread_percentage: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    memory_mib: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """What one client may have of this device."""
    is_multi_user: bool = False


class DeviceSharing(_Part, frozen=True, kw_only=True):
    """What sharing one device takes, and so what taking it back takes."""

    time_slice: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    """The driver's number; None where none is set."""
    is_exclusive_process: bool = False
    """The GPU's compute mode is EXCLUSIVE_PROCESS."""
    mps: MpsUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One device of a claim, as far as sharing goes."""

    device: str
    uuid: str
    """The device's name where it is a MIG device that is still to be made."""
    is_mig: bool = False
    compute_capability: tuple[int, int] | None = None
    """None where it is not known: then the hardware has the last word."""
    share_bytes: int | None = None
    """Memory of a share; None for a whole device."""
    sharing: Sharing | None = None
    entry: int = 0
    """Which config entry ``sharing`` is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPlanned:
    """For each candidate in order what is to be done, or every reason why not."""

    devices: tuple[DeviceSharing | None, ...]
    faults: tuple[str, ...] = ()


_Limits: TypeAlias = Mapping[str, int]
"""MiB by UUID."""


def plan_sharing(candidates: Sequence[Candidate]) -> SharingPlanned:
    """What to do for the devices of one claim."""
    faults: list[str] = []
    limits = _resolve_limits(candidates, faults)
    planned = tuple(_plan_one(each, str(place), limits, faults) for place, each in enumerate(candidates))
    faults += _find_own_conflicts(candidates, planned)
    return SharingPlanned(devices=planned, faults=tuple(faults))


def find_conflict(mine: DeviceSharing | None, theirs: DeviceSharing | None) -> str | None:
    """Why two shares of one GPU cannot stand side by side; None where they can."""
    if mine is None or theirs is None or mine.time_slice is None or theirs.time_slice is None:
        return None
    if mine.time_slice == theirs.time_slice:
        return None
    names = {number: interval.value for interval, number in _TIME_SLICES.items()}
    return f"it has the time slice {names[theirs.time_slice]}, and a GPU has one for all its shares"


def _find_own_conflicts(candidates: Sequence[Candidate], planned: Sequence[DeviceSharing | None]) -> list[str]:
    """Two shares of one GPU in this very claim."""
    faults = []
    first: dict[str, DeviceSharing] = {}
    for candidate, sharing in zip(candidates, planned, strict=True):
        if sharing is None or sharing.time_slice is None:
            continue
        conflict = find_conflict(sharing, first.setdefault(candidate.device, sharing))
        if conflict is not None:
            faults.append(
                f"{_path(candidate)}.sharing.timeSlicingConfig.interval: another share of {candidate.device} in this claim "
                f"differs: {conflict}"
            )
    return faults


def _plan_one(candidate: Candidate, place: str, limits: Mapping[int, _Limits], faults: list[str]) -> DeviceSharing | None:
    match candidate.sharing:
        case TimeSlicing(interval=interval):
            return _plan_time_slice(candidate, interval, faults)
        case Mps() as mps:
            return _plan_mps(candidate, mps, _name_daemon(candidate, place), limits[candidate.entry], faults)
        case _:
            return None


def _plan_time_slice(candidate: Candidate, interval: Interval, faults: list[str]) -> DeviceSharing | None:
    if candidate.is_mig:
        return None
    if not _is_too_old(candidate):
        return DeviceSharing(time_slice=_TIME_SLICES[interval])
    if interval is not Interval.DEFAULT:
        faults.append(
            f"{_path(candidate)}.sharing.timeSlicingConfig.interval: {interval.value} cannot be set on {candidate.device}, "
            f"whose compute capability is {_dotted(candidate)}: 7.0 is needed; say Default, or leave sharing out"
        )
    return None


def _plan_mps(candidate: Candidate, mps: Mps, daemon: str, limits: _Limits, faults: list[str]) -> DeviceSharing | None:
    if _is_too_old(candidate):
        faults.append(
            f"{_path(candidate)}.sharing.strategy: MPS cannot be used on {candidate.device}, whose compute capability is "
            f"{_dotted(candidate)}: 7.0 is needed; say TimeSlicing, or leave sharing out"
        )
        return None
    memory_mib = limits.get(candidate.uuid)
    if candidate.share_bytes is not None:
        memory_mib = _limit_share(candidate, memory_mib, candidate.share_bytes // _MIB, faults)
    use = MpsUse(daemon=daemon, thread_percentage=mps.thread_percentage, memory_mib=memory_mib, is_multi_user=mps.is_multi_user)
    is_alone = not candidate.is_mig and candidate.share_bytes is None
    return DeviceSharing(is_exclusive_process=is_alone, mps=use)


def _limit_share(candidate: Candidate, asked_mib: int | None, share_mib: int, faults: list[str]) -> int | None:
    """A share's clients get no more than the share."""
    if share_mib == 0:
        faults.append(
            f"{_path(candidate)}.sharing.strategy: MPS needs a share of at least 1Mi, and {candidate.device} gives less"
        )
        return None
    if asked_mib is not None and asked_mib > share_mib:
        faults.append(
            f"{_path(candidate)}.sharing.mpsConfig: a memory limit of {asked_mib}Mi on {candidate.device} is more than the "
            f"share's {share_mib}Mi; leave the limit out to get the share's"
        )
    return share_mib if asked_mib is None else asked_mib


def _name_daemon(candidate: Candidate, place: str) -> str:
    """One for each config entry, since a container with devices of two daemons reaches one of them only; one for each share."""
    return f"config-{candidate.entry}" if candidate.share_bytes is None else f"share-{place}"


def _resolve_limits(candidates: Sequence[Candidate], faults: list[str]) -> Mapping[int, _Limits]:
    """For each config entry its devices' limits by UUID. A position counts the UUIDs in order, as in NVIDIA's driver (B65)."""
    entries: dict[int, Mps] = {each.entry: each.sharing for each in candidates if isinstance(each.sharing, Mps)}
    resolved = {}
    for entry, mps in entries.items():
        uuids = sorted({each.uuid for each in candidates if each.entry == entry and isinstance(each.sharing, Mps)})
        resolved[entry] = _resolve_entry(entry, mps, uuids, faults)
    return resolved


def _resolve_entry(entry: int, mps: Mps, uuids: Sequence[str], faults: list[str]) -> _Limits:
    path = f"{_ENTRY.format(entry)}.sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
    by_uuid: dict[str, int] = {}
    for key, memory_mib in mps.memory_mib_by_device:
        uuid = uuids[int(key)] if key.isdecimal() and int(key) < len(uuids) else key
        if uuid not in uuids:
            faults.append(f"{path}[{key}]: the config is for {len(uuids)} devices: {', '.join(uuids)}; this is none of them")
        elif uuid in by_uuid:
            faults.append(f"{path}[{key}]: {uuid} stands there twice, by position and by UUID; say it once")
        else:
            by_uuid[uuid] = memory_mib
    if mps.memory_mib is not None:
        by_uuid = dict.fromkeys(uuids, mps.memory_mib) | by_uuid
    return by_uuid


def _is_too_old(candidate: Candidate) -> bool:
    return candidate.compute_capability is not None and candidate.compute_capability < VOLTA


def _path(candidate: Candidate) -> str:
    return _ENTRY.format(candidate.entry)


def _dotted(candidate: Candidate) -> str:
    major, minor = candidate.compute_capability or (0, 0)
    return f"{major}.{minor}"
