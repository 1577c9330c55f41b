"""Events: waited for, delivered once, to whom asked; the same from the mock and from the real backend over a stub."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from driver.nvml.enums import EventType
from driver.nvml.library import Event, EventSet, NvmlLibrary
from tests.contract.nvml.conftest import Backend
from tests.contract.nvml.test_answers import code_of

Open = Callable[[str], Backend]


def watch(library: NvmlLibrary, *indices: int) -> EventSet:
    event_set = library.event_set_create()
    for index in indices:
        library.device_register_events(library.device_handle_by_index(index), EventType.XID_CRITICAL, event_set)
    return event_set


def test_an_xid_is_delivered_once_with_its_gpu(open_backend: Open) -> None:
    backend = open_backend("dgx-h100")
    event_set = watch(backend.library, 0, 3)
    assert backend.library.event_set_wait(event_set, 0) is None
    backend.raise_xid(3, 79)
    assert backend.library.event_set_wait(event_set, 5000) == Event(
        uuid=backend.machine.gpus[3].uuid,
        type=EventType.XID_CRITICAL,
        data=79,
        gpu_instance_id=None,
        compute_instance_id=None,
    )
    assert backend.library.event_set_wait(event_set, 0) is None


def test_an_event_of_a_gpu_that_nobody_asked_for_is_not_delivered(open_backend: Open) -> None:
    backend = open_backend("dgx-h100")
    event_set = watch(backend.library, 0)
    backend.raise_xid(3, 79)
    assert backend.library.event_set_wait(event_set, 30) is None


def test_a_wait_takes_its_time_and_no_longer(open_backend: Open) -> None:
    """B36: a wait that came back at once would be a busy loop."""
    backend = open_backend("dgx-h100")
    event_set = watch(backend.library, 0)
    before_s = time.monotonic()
    assert backend.library.event_set_wait(event_set, 200) is None
    assert time.monotonic() - before_s >= 0.19


def test_an_event_ends_a_wait_that_is_under_way(open_backend: Open) -> None:
    backend = open_backend("dgx-h100")
    event_set = watch(backend.library, 5)
    seen: list[Event | None] = []
    waiter = threading.Thread(target=lambda: seen.append(backend.library.event_set_wait(event_set, 60_000)))
    waiter.start()
    backend.raise_xid(5, 48)
    waiter.join(30)
    assert not waiter.is_alive()
    assert [event.data for event in seen if event is not None] == [48]


def test_other_calls_are_answered_while_one_waits(open_backend: Open) -> None:
    backend = open_backend("dgx-h100")
    event_set = watch(backend.library, 0)
    waiter = threading.Thread(target=lambda: backend.library.event_set_wait(event_set, 60_000))
    waiter.start()
    assert backend.library.device_count() == 8
    assert waiter.is_alive()
    backend.raise_xid(0, 48)
    waiter.join(30)
    assert not waiter.is_alive()


def test_kinds_that_no_gpu_reports_are_not_supported(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    device = library.device_handle_by_index(0)
    assert library.device_supported_event_types(device) == 0xB
    event_set = library.event_set_create()
    assert code_of(lambda: library.device_register_events(device, 1 << 40, event_set)) == "NOT_SUPPORTED"


def test_a_set_that_is_freed_is_given_back(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    library.event_set_free(watch(library, 0))
