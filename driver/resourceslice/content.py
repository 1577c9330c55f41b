"""What one slice of a pool is to hold, before it has a name, a pool generation or an owner."""

from __future__ import annotations

from dataclasses import dataclass

from driver.api.resource_v1 import CounterSet, Device


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceContent:
    """The payload of one slice: devices or shared counters, never both (the API forbids the mix from 1.35 on).

    The place in the sequence given to the publisher is the slice's index in its pool.
    """

    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
