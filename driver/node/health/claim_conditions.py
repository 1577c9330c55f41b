"""What the claims are told of their devices' health: the condition ``Healthy`` in ``status.devices``. Pure.

A device that was never ill has no condition: to say that nothing is wrong would be one write a prepared claim. ``False`` comes
with the trouble, ``True`` when it is over. What only warns is told by the slice's taint and the kubelet's state, not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driver.api.claim_status_v1 import MESSAGE_MAX_BYTES, REASON_MAX, Condition, DeviceStatus, ReportedClaim
from driver.health.model import Kind, Trouble
from driver.kube.events import cut_text
from driver.names import DeviceName
from driver.node.words import HealthSeen, describe_lost, name_reasons
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.health_taints import list_troubles

CONDITION = "Healthy"
_IS_OVER = "nothing is known to be wrong with it any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a device is not healthy. ``reason`` is one word, as conditions have it."""

    reason: str
    message: str
    advice: str = ""


Verdicts = Mapping[DeviceName, Verdict | None]
"""Of every published device; None: it is healthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A device of the claim is ill, or well again (``verdict`` is None)."""

    device: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is to be written into a claim, and what is new in it."""

    devices: tuple[DeviceStatus, ...]
    """All that we have to say: what stood there and is not among them goes."""
    changes: tuple[Change, ...]


def build_verdicts(seen: HealthSeen) -> Verdicts:
    """The verdict on every device that is published."""
    reasons = name_reasons(seen.failures)
    by_gpu: dict[str, list[Trouble]] = {}
    for trouble in seen.health.troubles:
        by_gpu.setdefault(trouble.device, []).append(trouble)

    def judge(name: DeviceName) -> Verdict | None:
        ill = [each for each in list_troubles(name, by_gpu, seen.partitions) if not each.is_warning]
        lost = describe_lost(name, reasons) if name in seen.merged.lost else ""
        if not lost and not ill:
            return None
        texts = dict.fromkeys((lost, *(each.message for each in ill)))
        return Verdict(
            reason="DeviceLost" if not ill else _build_reason(ill[0]),
            message="; ".join(text for text in texts if text),
            advice=ill[0].advice if ill else "",
        )

    return {name: judge(name) for name in (DeviceName(device.name) for device in seen.merged.devices)}


def _build_reason(trouble: Trouble) -> str:
    word = "".join(part.capitalize() for part in trouble.kind.value.split("-"))
    return f"{word}{trouble.value}"[:REASON_MAX] if trouble.kind is Kind.XID else word


def plan_report(claim: ReportedClaim, verdicts: Verdicts, pool: PoolIdentity, *, now: str) -> Report | None:
    """What to write into the claim as it is now, or None where it says so already.

    Args:
        claim: as read.
        verdicts: a device that is not among them is not judged: what is said of it stays.
        pool: which devices are this node's.
        now: RFC 3339, for ``lastTransitionTime``.
    """
    said = {_key(each): each for each in claim.status.devices}
    devices, changes, is_new = [], [], False
    for entry in _list_own(claim, pool):
        before = _find_condition(said.get(_key(entry)))
        wanted = _choose_condition(before, DeviceName(entry.device), verdicts, now)
        if wanted is None:
            continue
        devices.append(
            DeviceStatus(
                driver=entry.driver, pool=entry.pool, device=entry.device, share_id=entry.share_id, conditions=(wanted,)
            )
        )
        is_new = is_new or wanted != before
        if before is None or before.status != wanted.status:
            changes.append(Change(device=entry.device, verdict=verdicts.get(DeviceName(entry.device))))
    return Report(devices=tuple(devices), changes=tuple(changes)) if is_new else None


def _list_own(claim: ReportedClaim, pool: PoolIdentity) -> Sequence[DeviceStatus]:
    """This node's devices of the allocation, each once."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    own = (each for each in results if (each.driver, each.pool) == (pool.driver, pool.pool))
    entries = (DeviceStatus(driver=each.driver, pool=each.pool, device=each.device, share_id=each.share_id) for each in own)
    return tuple(dict.fromkeys(entries))


def _key(entry: DeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id


def _find_condition(entry: DeviceStatus | None) -> Condition | None:
    return next((each for each in (() if entry is None else entry.conditions) if each.type == CONDITION), None)


def _choose_condition(before: Condition | None, device: DeviceName, verdicts: Verdicts, now: str) -> Condition | None:
    if device not in verdicts:
        return before
    verdict = verdicts[device]
    if verdict is None and before is None:
        return None
    status, reason, message = ("True", "Recovered", _IS_OVER) if verdict is None else ("False", verdict.reason, _spell(verdict))
    if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
        return before
    since = before.last_transition_time if before is not None and before.status == status else ""
    return Condition(type=CONDITION, status=status, reason=reason, message=message, last_transition_time=since or now)


def _spell(verdict: Verdict) -> str:
    text = f"{verdict.message}. {verdict.advice}" if verdict.advice else verdict.message
    return cut_text(text, MESSAGE_MAX_BYTES)
