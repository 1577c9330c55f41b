"""What is known of the GPUs' health, and what an observation makes of it. Pure; ``file`` keeps it over restarts.

Two kinds of trouble. What is *seen* (recovery action, rows, links, brakes, deafness) is there as long as a look shows it. What
was *told* by an event (XID, ECC) stays until there is a sign that it is over: another boot or load of the driver; the driver's
own word, no earlier than ``SETTLE_S`` after the last event, that nothing is to be done about the GPU; errors that count from
nought again, which only a reset makes them do. A GPU without either sign keeps it until the reboot.

The same event told twice changes nothing but its count, and the order of events changes nothing but that of the counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from driver.health.classify import (
    ECC_FINDING,
    HOT_LOOKS,
    LOST_FINDING,
    Finding,
    choose_xid_finding,
    is_braked,
    is_hot,
    list_findings,
)
from driver.health.model import Health, Instance, Kind, Trouble
from driver.health.observations import Condition, DriverSeen, EccSeen, Looked, LostSeen, Observation, XidSeen
from driver.names import DeviceName
from driver.nvml.enums import RecoveryAction

SETTLE_S = 20.0
"""The driver may say what is to be done a moment after the event that it is to be done about."""
MAX_GPUS = 256
MAX_NUMBERS = 64
"""XIDs of which one GPU's are counted; a broken one that makes up numbers costs no memory."""
MAX_TOLD = 16
"""Troubles that events have told of one GPU."""

ECC_EVENT = 0
"""Stands for memory errors among the numbers of XIDs, which begin at 1."""

_TOLD = frozenset({Kind.XID, Kind.ECC})
_WEIGHT = {kind: place for place, kind in enumerate(Kind)}


class GpuMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of a GPU to judge the next look at it."""

    uuid: str = ""
    links: tuple[int, ...] = ()
    """NVLinks that were up in this boot."""
    uncorrected_ecc_errors: int | None = None
    last_told: datetime | None = None
    """When an event last told of a trouble."""
    hot_looks: int = 0
    """Looks in a row that showed the thermal brake; negative: that did not. Likewise below."""
    braked_looks: int = 0


class HealthState(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. On disk as JSON."""

    version: int = 1
    epoch: str = ""
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, Mapping[int, int]] = {}
    """By GPU and XID."""
    heard: Mapping[str, Mapping[int, datetime]] = {}
    """When an event last told of each, by GPU and XID (``ECC_EVENT`` for memory errors): see ``handover``."""
    gpus: Mapping[str, GpuMemory] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an administrator has said."""

    ignored_xids: frozenset[int] = field(default_factory=frozenset)


def reduce(state: HealthState, seen: Observation, rules: Rules) -> HealthState:
    """The state after an observation."""
    match seen:
        case DriverSeen():
            return _note_driver(state, seen.epoch)
        case XidSeen():
            counted = _count(_hear(state, seen.device, seen.number, seen.at), seen.device, seen.number)
            finding = choose_xid_finding(seen.number, rules.ignored_xids)
            return counted if finding is None else _note_told(counted, seen.device, seen.at, finding, seen.instance)
        case EccSeen():
            heard = _hear(state, seen.device, ECC_EVENT, seen.at)
            return _note_told(heard, seen.device, seen.at, ECC_FINDING, seen.instance)
        case LostSeen():
            told = [each for each in state.troubles if each.device == seen.device and each.kind in _TOLD]
            return _put(state, seen.device, [*told, *_date(state, seen.device, seen.at, (LOST_FINDING,))])
        case Looked():
            return _note_look(state, seen)


def build_health(state: HealthState) -> Health:
    """What others are told."""
    return Health(
        troubles=tuple(sorted(state.troubles, key=_key)),
        counts={(DeviceName(device), xid): count for device, row in state.counts.items() for xid, count in row.items()},
    )


def _note_driver(state: HealthState, epoch: str) -> HealthState:
    """Another boot or load of the driver: whatever is still wrong is seen anew."""
    if not epoch or epoch == state.epoch:
        return state
    if not state.epoch and not state.troubles:
        return msgspec.structs.replace(state, epoch=epoch)
    return HealthState(epoch=epoch)


def _count(state: HealthState, device: DeviceName, number: int) -> HealthState:
    row = state.counts.get(device, {})
    if (number not in row and len(row) >= MAX_NUMBERS) or (device not in state.counts and len(state.counts) >= MAX_GPUS):
        return state
    counts = {**state.counts, device: {**row, number: row.get(number, 0) + 1}}
    return msgspec.structs.replace(state, counts=counts)


def _hear(state: HealthState, device: DeviceName, number: int, at: datetime) -> HealthState:
    row = state.heard.get(device, {})
    if (number not in row and len(row) > MAX_NUMBERS) or (device not in state.heard and len(state.heard) >= MAX_GPUS):
        return state
    heard = {**state.heard, device: {**row, number: _choose_last(row.get(number), at)}}
    return msgspec.structs.replace(state, heard=heard)


def _note_told(
    state: HealthState, device: DeviceName, at: datetime, finding: Finding, instance: Instance | None
) -> HealthState:
    memory = state.gpus.get(device, GpuMemory())
    state = _remember(state, device, msgspec.structs.replace(memory, last_told=_choose_last(memory.last_told, at)))
    trouble = _build_trouble(device, at, finding, instance)
    own = [each for each in state.troubles if each.device == device]
    told = [each for each in own if each.kind in _TOLD]
    if any(_identity(each) == _identity(trouble) for each in told):
        return state
    if len(told) < MAX_TOLD:
        return _put(state, device, [*own, trouble])
    # A GPU that is told to have many sick instances may still fail as a whole, and all its MIG devices with it.
    parts = [each for each in told if each.instance is not None]
    if instance is not None or not parts:
        return state
    return _put(state, device, [*(each for each in own if each is not parts[-1]), trouble])


def _choose_last(before: datetime | None, at: datetime) -> datetime:
    """The later one; after a clock was set back the new one, or what was just told would count as long settled."""
    if before is None or (before - at).total_seconds() >= SETTLE_S:
        return at
    return max(before, at)


def _note_look(state: HealthState, seen: Looked) -> HealthState:
    condition, before = seen.condition, state.gpus.get(seen.device, GpuMemory())
    if before.uuid and before.uuid != condition.uuid:
        state, before = _forget(state, seen.device), GpuMemory()
    is_over = _is_over(before, condition, seen.at)
    memory = _learn(before, condition, keeps_event=not is_over)
    told = [each for each in state.troubles if each.device == seen.device and each.kind in _TOLD and not is_over]
    had = {each.kind for each in state.troubles if each.device == seen.device}
    findings = list_findings(
        condition,
        known_links=memory.links,
        hot=_lasts(memory.hot_looks, was=Kind.THERMAL in had),
        braked=_lasts(memory.braked_looks, was=Kind.POWER_BRAKE in had),
    )
    state = _remember(state, seen.device, memory)
    return _put(state, seen.device, [*told, *_date(state, seen.device, seen.at, findings)])


def _is_over(memory: GpuMemory, condition: Condition, at: datetime) -> bool:
    """Whether what events have told of this GPU is put right."""
    before, now = memory.uncorrected_ecc_errors, condition.uncorrected_ecc_errors
    if before is not None and now is not None and now < before:
        return True
    # A clock that was set back must not keep a GPU out until it has caught up.
    is_settled = memory.last_told is not None and abs((at - memory.last_told).total_seconds()) >= SETTLE_S
    return is_settled and condition.recovery_action == RecoveryAction.NONE


def _learn(before: GpuMemory, condition: Condition, *, keeps_event: bool) -> GpuMemory:
    up = {link for link, is_up in condition.links if is_up}
    errors = condition.uncorrected_ecc_errors
    return GpuMemory(
        uuid=condition.uuid,
        links=tuple(sorted(up.union(before.links))),
        uncorrected_ecc_errors=before.uncorrected_ecc_errors if errors is None else errors,
        last_told=before.last_told if keeps_event else None,
        hot_looks=_tally(before.hot_looks, is_now=is_hot(condition)),
        braked_looks=_tally(before.braked_looks, is_now=is_braked(condition)),
    )


def _tally(before: int, *, is_now: bool) -> int:
    return min(HOT_LOOKS, max(0, before) + 1) if is_now else max(-HOT_LOOKS, min(0, before) - 1)


def _lasts(looks: int, *, was: bool) -> bool:
    """Whether it has been so for a while, or not yet for a while otherwise."""
    return looks > -HOT_LOOKS if was else looks >= HOT_LOOKS


def _date(state: HealthState, device: DeviceName, at: datetime, findings: Sequence[Finding]) -> list[Trouble]:
    """Findings as troubles: what is known already keeps its moment."""
    known = {_identity(each): each.since for each in state.troubles if each.device == device}
    found = (_build_trouble(device, at, finding, None) for finding in findings)
    return [msgspec.structs.replace(each, since=known.get(_identity(each), each.since)) for each in found]


def _build_trouble(device: DeviceName, at: datetime, finding: Finding, instance: Instance | None) -> Trouble:
    return Trouble(
        device=device,
        instance=instance,
        kind=finding.kind,
        value=finding.value,
        scope=finding.scope,
        is_warning=finding.is_warning,
        since=at.astimezone(UTC).replace(microsecond=0),
        message=finding.message,
        advice=finding.advice,
    )


def _put(state: HealthState, device: DeviceName, own: Collection[Trouble]) -> HealthState:
    others = [each for each in state.troubles if each.device != device]
    return msgspec.structs.replace(state, troubles=tuple(sorted([*others, *own], key=_key)))


def _remember(state: HealthState, device: DeviceName, memory: GpuMemory) -> HealthState:
    if device not in state.gpus and len(state.gpus) >= MAX_GPUS:
        return state
    return msgspec.structs.replace(state, gpus={**state.gpus, device: memory})


def _forget(state: HealthState, device: DeviceName) -> HealthState:
    """Another card is in the slot."""
    return msgspec.structs.replace(
        _put(state, device, ()),
        counts={name: row for name, row in state.counts.items() if name != device},
        heard={name: row for name, row in state.heard.items() if name != device},
        gpus={name: memory for name, memory in state.gpus.items() if name != device},
    )


def _identity(trouble: Trouble) -> tuple[object, ...]:
    return trouble.device, trouble.instance, trouble.kind, trouble.value


def _key(trouble: Trouble) -> tuple[object, ...]:
    """Blocking ones first, by weight, then the oldest: its taint stays while younger ones of the kind come and go."""
    instance = trouble.instance
    place = (-1, -1) if instance is None else (instance.gpu_instance_id, instance.compute_instance_id or -1)
    return trouble.device, trouble.is_warning, _WEIGHT[trouble.kind], trouble.since, trouble.value, place
