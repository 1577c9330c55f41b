# ruff: noqa: D102 - NvmlLibrary says what each call does
"""The mock's events: an entry that appears in the fault file is an event for every set that waits for its kind and GPU."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping

from driver.nvml.enums import EventType
from driver.nvml.library import Code, Device, EventSet
from driver.nvml.library import Event as NvmlEvent
from driver.nvml.mock.faults import Event, NeedsRecovery, RowsRemapped, XidEvent
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.session import Session, nvml_call

_LOOK_EVERY_S = 0.05
"""How often a waiting call looks at the fault file: a file system has nothing to wait on that works everywhere."""

_SINCE: Mapping[EventType, int] = {
    EventType.SINGLE_BIT_ECC: 0,
    EventType.DOUBLE_BIT_ECC: 0,
    EventType.XID_CRITICAL: 0,
    EventType.SINGLE_BIT_ECC_STORM: 560,
    EventType.DRAM_RETIREMENT: 560,
    EventType.DRAM_RETIREMENT_FAILURE: 560,
    EventType.NON_FATAL_POISON: 560,
    EventType.FATAL_POISON: 560,
    EventType.GPU_UNAVAILABLE: 565,
    EventType.GPU_RECOVERY_ACTION: 565,
}
"""The driver's major version that brought each, by the change log of the NVML API reference. Which GPUs lack which [?]."""


class _EventSet:
    """What was asked for, what is known already, and what waits to be fetched."""

    def __init__(self, opening: int, known: Counter[Event]) -> None:
        self.opening = opening
        self.lock = threading.Lock()
        self.types: dict[int, int] = {}
        self.known = known
        self.queue: deque[Event] = deque()
        self.is_freed = False

    def take(self, now: Counter[Event]) -> Event | None:
        """The next event, with ``now`` as what the file lists at present."""
        with self.lock:
            if now is not self.known:  # a storm's events are compared once, not at each call that fetches one
                fresh = now - self.known
                self.known = now
                self.queue.extend(event for event in fresh.elements() if self.types.get(event.gpu, 0) & encode_type(event))
            return self.queue.popleft() if self.queue else None


def encode_type(event: Event) -> EventType:
    """NVML's type of ``event``."""
    match event:
        case XidEvent():
            return EventType.XID_CRITICAL
        case NeedsRecovery():
            return EventType.GPU_RECOVERY_ACTION
        case RowsRemapped():
            return EventType.DRAM_RETIREMENT_FAILURE if event.has_failed else EventType.DRAM_RETIREMENT
    return EventType.DOUBLE_BIT_ECC if event.bits == "double" else EventType.SINGLE_BIT_ECC


class EventCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_supported_event_types(self, device: Device) -> int:
        self._gpu(device)
        return int(self._supported())

    @nvml_call
    def event_set_create(self) -> EventSet:
        return EventSet(_EventSet(self._opening, self._book.events()))

    @nvml_call
    def device_register_events(self, device: Device, event_types: int, event_set: EventSet) -> None:
        index = self._require(device, "gpu").gpu
        if event_types & ~int(self._supported()):
            raise Refused(Code.NOT_SUPPORTED)
        found = self._event_set(event_set)
        with found.lock:
            found.types[index] = found.types.get(index, 0) | event_types

    @nvml_call
    def event_set_wait(self, event_set: EventSet, timeout_ms: int) -> NvmlEvent | None:
        end_s = self._clock.monotonic_s() + timeout_ms / 1000
        while True:
            if self._open_count == 0:
                raise Refused(Code.UNINITIALIZED)
            event = self._event_set(event_set).take(self._book.events())
            if event is not None:
                return self._build_event(event)
            left_s = end_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            self._clock.sleep(min(left_s, _LOOK_EVERY_S))

    @nvml_call
    def event_set_free(self, event_set: EventSet) -> None:
        self._event_set(event_set).is_freed = True

    def _supported(self) -> EventType:
        supported = EventType(0)
        for kind, since in _SINCE.items():
            if self._driver_major() >= since:
                supported |= kind
        return supported

    def _event_set(self, event_set: object) -> _EventSet:
        if not isinstance(event_set, _EventSet) or event_set.is_freed or event_set.opening != self._opening:
            raise Refused(Code.INVALID_ARGUMENT)
        return event_set

    def _build_event(self, event: Event) -> NvmlEvent:
        return NvmlEvent(
            uuid=self._machine.gpus[event.gpu].uuid,
            type=int(encode_type(event)),
            data=getattr(event, "xid", 0),
            gpu_instance_id=getattr(event, "gpu_instance", None),
            compute_instance_id=getattr(event, "compute_instance", None),
        )
