"""Which taints keep a request away from a device; rules of the administrator that taint devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from driver.allocator.pools import Pool
from driver.api.claim_spec_v1 import Toleration
from driver.api.resource_v1 import Device, Taint

_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The taint by which devices are the controller's: a device without it is somebody else's, and it needs no toleration."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRule:
    """A DeviceTaintRule: the taint of every device that all given names fit. No name at all is every device (R22)."""

    taint: Taint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


def is_fenced(device: Device, fence: Fence) -> bool:
    """True when the device carries the fence."""
    return any(_is_fence(taint, fence) for taint in device.taints)


def is_tolerated(device: Device, tolerations: Sequence[Toleration], fence: Fence | None) -> bool:
    """True when no taint of the device keeps a request with these tolerations away. Unknown effects keep nobody away."""
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in device.taints
        if taint.effect in _BLOCKING and not (fence is not None and _is_fence(taint, fence))
    )


def apply_rules(pools: Iterable[Pool], rules: Sequence[TaintRule]) -> tuple[Pool, ...]:
    """The pools with the taints that rules add."""
    return tuple(_apply(pool, rules) for pool in pools)


def _apply(pool: Pool, rules: Sequence[TaintRule]) -> Pool:
    fitting = [rule for rule in rules if rule.driver in (None, pool.driver) and rule.pool in (None, pool.name)]
    if not fitting:
        return pool
    return replace(pool, devices=tuple(_taint(device, fitting) for device in pool.devices))


def _taint(device: Device, rules: Sequence[TaintRule]) -> Device:
    added = tuple(rule.taint for rule in rules if rule.device in (None, device.name))
    return msgspec.structs.replace(device, taints=device.taints + added) if added else device


def _is_fence(taint: Taint, fence: Fence) -> bool:
    return taint.key == fence.key and taint.value == fence.value


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
