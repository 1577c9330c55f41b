"""When two forms of a slice's content mean the same, and what the server left out of what it was sent.

Quantities are compared as numbers (the server writes ``81920Mi`` as ``80Gi``), and a taint without ``timeAdded`` equals one
with any: the server fills it in. The order of devices is part of the meaning: it is the order of allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Capacity, Counter, CounterConsumption, CounterSet, Device, Taint
from driver.resourceslice.content import SliceContent


def is_same_content(one: SliceContent, other: SliceContent) -> bool:
    """Whether writing ``other`` over ``one`` would change nothing."""
    if one == other:
        return True
    return (
        len(one.devices) == len(other.devices)
        and len(one.shared_counters) == len(other.shared_counters)
        and all(map(_is_same_device, one.devices, other.devices))
        and all(map(_is_same_counter_set, one.shared_counters, other.shared_counters))
    )


def name_dropped_fields(sent: SliceContent, stored: SliceContent) -> tuple[str, ...]:
    """The fields of ``sent`` that ``stored`` lacks, as ``devices[].taints``: what a disabled feature gate takes away."""
    lost = {"sharedCounters"} if len(stored.shared_counters) < len(sent.shared_counters) else set()
    if len(stored.devices) < len(sent.devices):
        lost.add("devices")
    for before, after in zip(sent.devices, stored.devices, strict=False):
        lost |= {f"devices[].{name}" for name in _lost_device_fields(before, after)}
    return tuple(sorted(lost))


def keep_taint_times(device: Device, before: Device | None) -> Device:
    """The device with the ``timeAdded`` of the taints that it has already: eviction counts from that moment."""
    if before is None or not device.taints:
        return device
    times = {_taint_key(taint): taint.time_added for taint in before.taints}
    taints = tuple(
        taint if taint.time_added else msgspec.structs.replace(taint, time_added=times.get(_taint_key(taint)))
        for taint in device.taints
    )
    return msgspec.structs.replace(device, taints=taints)


def _lost_device_fields(sent: Device, stored: Device) -> list[str]:
    lost = []
    for name, wire in zip(Device.__struct_fields__, Device.__struct_encode_fields__, strict=True):
        before, after = getattr(sent, name), getattr(stored, name)
        if isinstance(before, Mapping | tuple):
            if len(after) < len(before):
                lost.append(wire)
        elif before is not None and after is None:
            lost.append(wire)
    policies = [key for key, value in sent.capacity.items() if value.request_policy is not None]
    if any(key in stored.capacity and stored.capacity[key].request_policy is None for key in policies):
        lost.append("capacity[].requestPolicy")
    return lost


def _is_same_device(one: Device, other: Device) -> bool:
    return (
        one.name == other.name
        and one.attributes == other.attributes
        and one.allow_multiple_allocations == other.allow_multiple_allocations
        and _is_same_map(one.capacity, other.capacity)
        and len(one.consumes_counters) == len(other.consumes_counters)
        and all(map(_is_same_consumption, one.consumes_counters, other.consumes_counters))
        and len(one.taints) == len(other.taints)
        and all(map(_is_same_taint, one.taints, other.taints))
    )


def _is_same_map(one: Mapping[str, Capacity], other: Mapping[str, Capacity]) -> bool:
    return one.keys() == other.keys() and all(
        _number(value.value) == _number(other[key].value) and value.request_policy == other[key].request_policy
        for key, value in one.items()
    )


def _is_same_counters(one: Mapping[str, Counter], other: Mapping[str, Counter]) -> bool:
    return one.keys() == other.keys() and all(_number(each.value) == _number(other[key].value) for key, each in one.items())


def _is_same_consumption(one: CounterConsumption, other: CounterConsumption) -> bool:
    return one.counter_set == other.counter_set and _is_same_counters(one.counters, other.counters)


def _is_same_counter_set(one: CounterSet, other: CounterSet) -> bool:
    return one.name == other.name and _is_same_counters(one.counters, other.counters)


def _is_same_taint(one: Taint, other: Taint) -> bool:
    times_agree = one.time_added is None or other.time_added is None or one.time_added == other.time_added
    return times_agree and _taint_key(one) == _taint_key(other)


def _taint_key(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect


def _number(text: str) -> Fraction | str:
    """The quantity's value; text that is none is compared as it is."""
    try:
        return parse_quantity(text)
    except ValueError:
        return text
