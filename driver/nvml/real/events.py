# ruff: noqa: D102 - NvmlLibrary says what each call does
"""Events, through pynvml. ctypes lets go of the interpreter while a call waits."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import pynvml

from driver.nvml.library import Code, Device, Event, EventSet
from driver.nvml.real.session import Handle, Refused, Session, nvml_call, pointer_of, read_text, wrap

_WHOLE_GPU = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _EventSetHandle:
    handle: Handle
    uuids: dict[int | None, str] = field(default_factory=dict)
    """By the address of the GPU's handle, as it was when it was registered: the GPU may be lost when its event comes."""


def _address_of(pointer: Any) -> int | None:
    return ctypes.cast(pointer, ctypes.c_void_p).value


def _require(event_set: object) -> _EventSetHandle:
    if not isinstance(event_set, _EventSetHandle):
        raise Refused(Code.INVALID_ARGUMENT)
    return event_set


def _instance_id(raw: int) -> int | None:
    return None if raw == _WHOLE_GPU else raw


class EventCalls(Session):
    """See ``NvmlLibrary``."""

    @nvml_call
    def device_supported_event_types(self, device: Device) -> int:
        return int(pynvml.nvmlDeviceGetSupportedEventTypes(pointer_of(device)))

    @nvml_call
    def event_set_create(self) -> EventSet:
        return EventSet(_EventSetHandle(wrap(pynvml.nvmlEventSetCreate())))

    @nvml_call
    def device_register_events(self, device: Device, event_types: int, event_set: EventSet) -> None:
        found, pointer = _require(event_set), pointer_of(device)
        found.uuids[_address_of(pointer)] = read_text(pynvml.nvmlDeviceGetUUID, pointer)
        pynvml.nvmlDeviceRegisterEvents(pointer, event_types, pointer_of(found.handle))

    @nvml_call
    def event_set_wait(self, event_set: EventSet, timeout_ms: int) -> Event | None:
        found = _require(event_set)
        try:
            raw = pynvml.nvmlEventSetWait(pointer_of(found.handle), timeout_ms)
        except pynvml.NVMLError_Timeout:
            return None
        uuid = found.uuids.get(_address_of(raw.device))
        return Event(
            uuid=read_text(pynvml.nvmlDeviceGetUUID, raw.device) if uuid is None else uuid,
            type=int(raw.eventType),
            data=int(raw.eventData),
            gpu_instance_id=_instance_id(int(raw.gpuInstanceId)),
            compute_instance_id=_instance_id(int(raw.computeInstanceId)),
        )

    @nvml_call
    def event_set_free(self, event_set: EventSet) -> None:
        pynvml.nvmlEventSetFree(pointer_of(_require(event_set).handle))
