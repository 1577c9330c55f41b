"""From slices to the pools that can be allocated from: complete, of the newest generation, valid, and tied to one node.

What is left out is named with its reason; the rest of the cluster goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import CounterSet, Device, ResourceSlice


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool that can be allocated from. ``devices`` are in the order of slice names, then of the slice."""

    driver: str
    name: str
    node: str
    devices: tuple[Device, ...]
    counter_sets: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLeftOut:
    """A pool that nothing can be allocated from now."""

    driver: str
    name: str
    nodes: tuple[str, ...]
    """The nodes that its slices name: a request for all devices cannot be served there before the pool is whole."""
    reason: str


def gather_pools(slices: Iterable[ResourceSlice]) -> tuple[tuple[Pool, ...], tuple[PoolLeftOut, ...]]:
    """The usable pools in order of driver and name, and those left out. Slices of an older generation do not count."""
    members: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        members.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    pools: list[Pool] = []
    left_out: list[PoolLeftOut] = []
    for (driver, name), found in sorted(members.items()):
        newest = max(each.spec.pool.generation for each in found)
        current = sorted((each for each in found if each.spec.pool.generation == newest), key=lambda each: each.metadata.name)
        reason = _find_fault(current)
        if reason is None:
            pools.append(_build_pool(driver, name, current))
        else:
            nodes = sorted({each.spec.node_name for each in current if each.spec.node_name})
            left_out.append(PoolLeftOut(driver=driver, name=name, nodes=tuple(nodes), reason=reason))
    return tuple(pools), tuple(left_out)


def _build_pool(driver: str, name: str, slices: Sequence[ResourceSlice]) -> Pool:
    return Pool(
        driver=driver,
        name=name,
        node=slices[0].spec.node_name or "",
        devices=tuple(device for each in slices for device in each.spec.devices),
        counter_sets=tuple(counters for each in slices for counters in each.spec.shared_counters),
    )


def _find_fault(slices: Sequence[ResourceSlice]) -> str | None:
    expected = slices[0].spec.pool.resource_slice_count
    if len(slices) != expected:
        return f"incomplete: {len(slices)} of {expected} slices; it is being updated"
    nodes = {each.spec.node_name for each in slices}
    if len(nodes) != 1 or not slices[0].spec.node_name:
        return "not tied to one node by nodeName"
    devices = [device for each in slices for device in each.spec.devices]
    twice = _first_twice(device.name for device in devices)
    if twice is not None:
        return f"invalid: two devices are named {twice}"
    return _find_counter_fault(devices, [counters for each in slices for counters in each.spec.shared_counters])


def _find_counter_fault(devices: Sequence[Device], counter_sets: Sequence[CounterSet]) -> str | None:
    twice = _first_twice(each.name for each in counter_sets)
    if twice is not None:
        return f"invalid: two counter sets are named {twice}"
    known = {each.name: each.counters for each in counter_sets}
    for device in devices:
        for consumption in device.consumes_counters:
            missing = [name for name in consumption.counters if name not in known.get(consumption.counter_set, {})]
            if missing or consumption.counter_set not in known:
                what = f"counter {missing[0]} of " if missing else ""
                return f"invalid: device {device.name} draws on {what}counter set {consumption.counter_set}, which is not there"
    return _find_bad_quantity(devices, counter_sets)


def _find_bad_quantity(devices: Sequence[Device], counter_sets: Sequence[CounterSet]) -> str | None:
    drawn = (counter for device in devices for each in device.consumes_counters for counter in each.counters.values())
    held = (counter for each in counter_sets for counter in each.counters.values())
    for counter in (*held, *drawn):
        try:
            amount = parse_quantity(counter.value)
        except ValueError as err:
            return f"invalid: {err}"
        if amount < 0:
            return f"invalid: a counter of {counter.value}, which is below zero"
    return None


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
