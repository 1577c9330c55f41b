"""The listener, on a mock machine: what it hears and sees, and what it survives."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.errors import NvmlError
from driver.health.model import Instance
from driver.health.observations import DriverSeen, EccSeen, Looked, LostSeen, Observation, XidSeen
from driver.node.health.listener import DEAF_AFTER, HealthListener, ListenerSettings
from driver.nvml.library import Event, NvmlLibrary, Placement
from driver.nvml.mock import open_mock, write_faults
from driver.nvml.mock.faults import CallFails, CallHangs, EccEvent, Fault, GpuLost, NotReady, XidEvent

QUICK = ListenerSettings(look_s=0.3, wait_s=0.1, least_round_s=0.05, storm_rest_s=0.01)
GPU_0, GPU_3 = "gpu-0000-1b-00-0", "gpu-0000-61-00-0"


class Ear:
    """A machine that is listened to."""

    def __init__(self, folder: Path, machine: str = "dgx-h200", wrap: Callable[[Any], Any] = lambda library: library) -> None:
        self.folder = folder
        self.library = open_mock(machine, folder).library
        self.wrap = wrap
        self.seen: list[Observation] = []
        self.epoch = "boot-1"
        self.opened = 0
        self.open_now = 0
        self.listener: HealthListener | None = None

    def start(self, settings: ListenerSettings = QUICK) -> HealthListener:
        self.listener = HealthListener(self._open, self._note, lambda: self.epoch, settings=settings)
        self.listener.start()
        return self.listener

    def play(self, *faults: Fault) -> None:
        write_faults(self.folder, faults)

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in list(self.seen) if isinstance(each, kind)]

    def wait(self, is_true: Callable[[], bool], timeout_s: float = 20.0) -> None:
        end_s = time.monotonic() + timeout_s
        while not is_true():
            assert time.monotonic() < end_s
            time.sleep(0.01)

    def wait_listening(self) -> None:
        """Until every GPU was looked at after it was registered."""
        self.wait(lambda: len(self.of(Looked)) >= 8)

    @contextlib.contextmanager
    def _open(self) -> Iterator[NvmlLibrary]:
        self.opened += 1
        self.library.init()
        self.open_now += 1
        try:
            yield self.wrap(self.library)
        finally:
            self.open_now -= 1
            self.library.shutdown()

    def _note(self, observations: Sequence[Observation]) -> None:
        self.seen += observations


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    found = Ear(tmp_path)
    yield found
    if found.listener is not None:
        write_faults(tmp_path, [])
        found.listener.stop(10.0)


def test_it_says_the_boot_first_and_looks_at_every_gpu(ear: Ear) -> None:
    ear.start()
    ear.wait_listening()
    assert ear.seen[0] == DriverSeen(epoch="boot-1")
    look = ear.of(Looked)[0]
    assert look.device == GPU_0
    assert look.condition.has_events
    assert len(look.condition.links) == 18
    assert all(is_up for _, is_up in look.condition.links)
    assert (look.condition.recovery_action, look.condition.uncorrected_ecc_errors) == (0, 0)


def test_an_event_is_told_with_its_gpu_and_followed_by_a_look_at_it(ear: Ear) -> None:
    ear.start(ListenerSettings(look_s=600.0, wait_s=0.1))
    ear.wait_listening()
    ear.play(XidEvent(gpu=3, xid=48), EccEvent(gpu=3))
    ear.wait(lambda: bool(ear.of(XidSeen)) and bool(ear.of(EccSeen)) and len(ear.of(Looked)) > 8)
    assert [(each.device, each.number, each.instance) for each in ear.of(XidSeen)] == [(GPU_3, 48, None)]
    assert {each.device for each in ear.of(Looked)[8:]} == {GPU_3}
    assert ear.of(Looked)[-1].condition.recovery_action == 1


def test_an_event_of_an_instance_tells_where_it_lies(ear: Ear) -> None:
    library = ear.library
    library.init()
    gpu = library.device_handle_by_index(0)
    library.device_set_mig_mode(gpu, enabled=True)
    made = library.gpu_instance_info(library.device_create_gpu_instance_with_placement(gpu, 9, Placement(start=4, size=4)))
    library.shutdown()
    ear.start()
    ear.wait_listening()
    ear.play(XidEvent(gpu=0, xid=48, gpu_instance=made.id, compute_instance=0), XidEvent(gpu=0, xid=48, gpu_instance=60))
    ear.wait(lambda: len(ear.of(XidSeen)) == 2)
    assert {each.instance for each in ear.of(XidSeen)} == {
        Instance(gpu_instance_id=made.id, compute_instance_id=0, start=4, size=4),
        Instance(gpu_instance_id=60),
    }


def test_a_gpu_that_is_lost_is_told_alone(ear: Ear) -> None:
    ear.start()
    ear.wait_listening()
    ear.play(GpuLost(gpu=3))
    ear.wait(lambda: bool(ear.of(LostSeen)))
    assert {each.device for each in ear.of(LostSeen)} == {GPU_3}


def test_a_gpu_without_events_is_looked_at_all_the_same(ear: Ear) -> None:
    ear.play(CallFails(call="nvmlDeviceGetSupportedEventTypes", code="NOT_SUPPORTED", gpu=3))
    ear.start()
    ear.wait_listening()
    assert {each.device for each in ear.of(Looked) if not each.condition.has_events} == {GPU_3}


def test_a_machine_without_any_events_is_looked_at_too(ear: Ear) -> None:
    ear.play(CallFails(call="nvmlDeviceGetSupportedEventTypes", code="NOT_SUPPORTED"))
    ear.start()
    ear.wait(lambda: len(ear.of(Looked)) >= 24)


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "FUNCTION_NOT_FOUND"])
def test_a_library_without_event_sets_is_opened_once_and_looked_at_by_it(ear: Ear, code: str) -> None:
    """Every GPU is deaf; NVML is not opened again and again for that."""
    ear.play(CallFails(call="nvmlEventSetCreate", code=code))
    ear.start()
    ear.wait(lambda: len(ear.of(Looked)) >= 24)
    assert not any(each.condition.has_events for each in ear.of(Looked))
    assert ear.opened == 1


def test_a_gpu_that_refuses_newer_events_is_still_heard(ear: Ear) -> None:
    """The first call for it is the one with all that it says it has."""
    ear.play(CallFails(call="nvmlDeviceRegisterEvents", code="NOT_SUPPORTED", gpu=3, times=1))
    ear.start(ListenerSettings(look_s=600.0, wait_s=0.1))
    ear.wait_listening()
    assert all(each.condition.has_events for each in ear.of(Looked))
    ear.play(XidEvent(gpu=3, xid=48))
    ear.wait(lambda: [each.number for each in ear.of(XidSeen)] == [48])


def test_a_gpu_that_refuses_all_events_is_deaf_alone(ear: Ear) -> None:
    ear.play(CallFails(call="nvmlDeviceRegisterEvents", code="NOT_SUPPORTED", gpu=3))
    ear.start()
    ear.wait_listening()
    assert {each.device for each in ear.of(Looked) if not each.condition.has_events} == {GPU_3}


def test_unsupported_facts_are_absent_and_nothing_else_breaks(ear: Ear) -> None:
    calls = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows")
    ear.play(*(CallFails(call=call, code="FUNCTION_NOT_FOUND") for call in (*calls, "nvmlDeviceGetCurrentClocksEventReasons")))
    ear.start()
    ear.wait_listening()
    condition = ear.of(Looked)[0].condition
    assert (condition.recovery_action, condition.uncorrected_ecc_errors) == (None, None)
    assert (condition.remapped_rows, condition.clocks_reasons) == (None, None)
    assert len(condition.links) == 18


def test_a_driver_that_comes_later_is_listened_to(ear: Ear) -> None:
    ear.play(NotReady())
    ear.start()
    ear.wait(lambda: ear.opened >= 1)
    assert ear.seen == []
    ear.play()
    ear.wait_listening()


def test_nvml_is_opened_anew_for_another_driver_or_when_asked(ear: Ear) -> None:
    listener = ear.start()
    ear.wait_listening()
    ear.epoch = "boot-1 loaded-again"
    ear.wait(lambda: ear.opened >= 2 and DriverSeen(epoch=ear.epoch) in ear.seen)
    before = ear.opened
    listener.reopen()
    ear.wait(lambda: ear.opened > before)


def test_without_events_nvml_is_closed_between_looks(ear: Ear) -> None:
    ear.start(ListenerSettings(look_s=0.5, holds_nvml=False))
    ear.wait_listening()
    ear.wait(lambda: ear.open_now == 0)
    assert all(each.condition.has_events for each in ear.of(Looked))
    ear.play(XidEvent(gpu=3, xid=48))
    ear.wait(lambda: any(each.condition.recovery_action == 1 for each in ear.of(Looked)))
    assert ear.of(XidSeen) == []


def test_a_hung_gpu_holds_up_no_event_of_another(ear: Ear) -> None:
    """Its look is given up; those after it do not wait for it again."""
    ear.start(ListenerSettings(look_s=600.0, wait_s=0.1))
    ear.wait_listening()
    ear.play(CallHangs(call="nvmlDeviceGetRemappedRows", gpu=3), XidEvent(gpu=3, xid=119), XidEvent(gpu=0, xid=79))
    ear.wait(lambda: {each.number for each in ear.of(XidSeen)} == {119, 79}, 5.0)


class BusyWait:
    """A library whose wait comes back at once, empty (B36)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def event_set_wait(self, event_set: object, timeout_ms: int) -> None:
        self.waits += 1


def test_a_wait_that_comes_back_at_once_makes_no_busy_loop(tmp_path: Path) -> None:
    made: list[BusyWait] = []

    def wrap(library: Any) -> BusyWait:
        made.append(BusyWait(library))
        return made[-1]

    ear = Ear(tmp_path, wrap=wrap)
    listener = ear.start(ListenerSettings(look_s=600.0))
    ear.wait_listening()
    threading.Event().wait(1.0)
    listener.stop(10.0)
    assert 1 <= sum(each.waits for each in made) <= 8


def test_a_call_that_fails_as_nobody_expected_is_not_the_end(tmp_path: Path) -> None:
    failures = iter([RuntimeError("boom"), NvmlError("nvmlEventSetCreate", 999, "UNKNOWN")])

    def wrap(library: Any) -> Any:
        for error in failures:
            raise error
        return library

    ear = Ear(tmp_path, wrap=wrap)
    listener = ear.start()
    ear.wait_listening()
    listener.stop(10.0)
    assert ear.opened >= 3


def test_every_event_set_is_freed_also_that_of_an_opening_that_failed(tmp_path: Path) -> None:
    """Other parts of the process hold NVML open meanwhile, so that no shutdown frees them."""
    held: set[int] = set()

    class Counting:
        def __init__(self, library: Any) -> None:
            self._library = library

        def __getattr__(self, name: str) -> Any:
            return getattr(self._library, name)

        def event_set_create(self) -> Any:
            made = self._library.event_set_create()
            held.add(id(made))
            return made

        def event_set_free(self, event_set: Any) -> None:
            held.remove(id(event_set))
            self._library.event_set_free(event_set)

    ear = Ear(tmp_path, wrap=Counting)
    ear.play(CallFails(call="nvmlDeviceGetCount", code="UNKNOWN", times=1))
    listener = ear.start()
    ear.wait_listening()
    listener.stop(10.0)
    assert ear.opened > 1
    assert held == set()


class Stranger:
    """A library that tells of a GPU that it does not have, without end."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def event_set_wait(self, event_set: object, timeout_ms: int) -> Event:
        del event_set, timeout_ms
        return Event(uuid="GPU-\x1b[31m", type=8, data=2**64 - 1, gpu_instance_id=None, compute_instance_id=None)


def test_events_of_a_gpu_that_is_not_there_are_said_once_and_held_against_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(tmp_path, wrap=Stranger)
    listener = ear.start()
    ear.wait(lambda: len(ear.of(Looked)) >= 24)
    listener.stop(10.0)
    assert ear.of(XidSeen) == []
    assert (capsys.readouterr().err + caplog.text).count("an event of a GPU that nobody listens to") == 1


@pytest.mark.parametrize("call", ["nvmlEventSetWait", "nvmlEventSetCreate"])
def test_gpus_whose_events_cannot_be_waited_for_count_as_unmonitored_until_they_can(ear: Ear, call: str) -> None:
    """Not at the first failure: the driver may be on its way. An operator must not believe that somebody listens."""
    ear.play(CallFails(call=call, code="UNKNOWN"))
    ear.start(replace(QUICK, look_s=600.0 if "Wait" in call else 0.3))
    ear.wait(lambda: any(not each.condition.has_events for each in ear.of(Looked)), 40.0)
    assert ear.opened > DEAF_AFTER
    assert all(each.condition.has_events for each in ear.of(Looked)[: 8 * DEAF_AFTER]) or "Create" in call
    ear.play()
    ear.wait(lambda: all(each.condition.has_events for each in ear.of(Looked)[-8:]), 60.0)
    ear.play(XidEvent(gpu=3, xid=48))
    ear.wait(lambda: [each.number for each in ear.of(XidSeen)] == [48])


class OneThenFailure:
    """A library whose wait tells of an XID, and fails at once when it is asked for the next."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._waits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def event_set_wait(self, event_set: object, timeout_ms: int) -> Event:
        del event_set, timeout_ms
        self._waits += 1
        if self._waits > 1:
            raise NvmlError("nvmlEventSetWait", 999, "UNKNOWN")
        uuid = self._library.device_uuid(self._library.device_handle_by_index(3))
        return Event(uuid=uuid, type=8, data=79, gpu_instance_id=None, compute_instance_id=None)


def test_an_event_that_came_before_a_failure_is_not_lost(tmp_path: Path) -> None:
    ear = Ear(tmp_path, wrap=OneThenFailure)
    listener = ear.start()
    ear.wait(lambda: bool(ear.of(XidSeen)))
    listener.stop(10.0)
    assert (ear.of(XidSeen)[0].device, ear.of(XidSeen)[0].number) == (GPU_3, 79)


def test_it_ends_at_once_though_nvml_is_waited_for_long(ear: Ear) -> None:
    """NVML's wait cannot be ended from outside, so the thread is left behind."""
    listener = ear.start(ListenerSettings())
    ear.wait_listening()
    begun_s = time.monotonic()
    listener.stop()
    assert time.monotonic() - begun_s < 5.0
    ear.play(XidEvent(gpu=3, xid=48))  # ends the wait, and with it the thread
    listener.stop(10.0)
