"""Threads side by side: what comes back, what is given up, and that no pass loses a thread more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.nvml.library import NvmlLibrary
from driver.nvml.reading_threads import GPU_DEADLINE_S, ReadingThreads
from tests.unit.nvml.changed import open_library

WAIT_S = 30
"""Longer than any of these tests takes: what is waited for comes."""


class Gate:
    """A library whose calls do not come back before they are let through."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.calls: list[str] = []
        self.threads: list[threading.Thread] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> str:
            self.calls.append(name)
            self.threads.append(threading.current_thread())
            assert self.is_open.wait(WAIT_S)
            return "answered"

        return call

    def end(self) -> None:
        self.is_open.set()
        for thread in self.threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


class Job:
    """Makes these calls in turn."""

    def __init__(self, key: str, *calls: str, answer: str | Exception = "done") -> None:
        self.key = key
        self.calls = calls
        self.answer = answer
        self.made: list[str] = []

    def run(self, library: NvmlLibrary) -> str:
        for call in self.calls:
            getattr(library, call)()
            self.made.append(call)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def give_up(self, reason: str) -> str:
        return f"{self.key} after {self.made}: {reason}"


@pytest.fixture
def gate() -> Iterator[Any]:
    made = Gate()
    yield made
    made.end()


def test_answers_come_in_the_order_of_the_jobs(gate: Any) -> None:
    jobs = [Job(f"gpu-{index}", answer=f"answer {index}") for index in range(20)]
    assert ReadingThreads().ask(gate, jobs) == [f"answer {index}" for index in range(20)]


def test_no_jobs_have_no_answers(gate: Any) -> None:
    assert ReadingThreads().ask(gate, []) == []


def test_jobs_run_side_by_side(gate: Any) -> None:
    """One after the other, these would wait for each other for ever."""
    meeting = threading.Barrier(8, timeout=WAIT_S)

    class Meeting(Job):
        def run(self, library: NvmlLibrary) -> str:
            meeting.wait()
            return "met"

    assert ReadingThreads().ask(gate, [Meeting(f"gpu-{index}") for index in range(8)]) == ["met"] * 8


def test_a_job_that_hangs_is_given_up_alone_with_the_call_that_it_hangs_in(gate: Any) -> None:
    threads = ReadingThreads(deadline_s=1.0)
    answers = threads.ask(gate, [Job("gpu-0"), Job("gpu-1", "device_uuid", "device_name"), Job("gpu-2")])
    assert answers == ["done", "gpu-1 after []: no answer within 1 s from nvmlDeviceGetUUID", "done"]


def test_what_was_noted_before_the_hang_is_kept(gate: Any) -> None:
    """So that the failure can name the GPU."""

    class Late(Job):
        def run(self, library: NvmlLibrary) -> str:
            self.made.append("its address")
            return super().run(library)

    (answer,) = ReadingThreads(deadline_s=0.2).ask(gate, [Late("gpu-1", "device_name")])
    assert answer == "gpu-1 after ['its address']: no answer within 0.2 s from nvmlDeviceGetName"


def test_a_hung_job_gets_no_second_thread_and_is_given_up_at_once(gate: Any) -> None:
    """With a deadline that outlasts the test, were it waited for again."""
    threads = ReadingThreads(deadline_s=0.2)
    first = threads.ask(gate, [Job("gpu-1", "device_uuid")])
    threads.deadline_s = 10 * WAIT_S
    for _ in range(5):
        assert threads.ask(gate, [Job("gpu-1", "device_name")]) == first
        assert threads.ask(gate, [Job("gpu-0"), Job("gpu-1", "device_name")]) == ["done", *first]
    assert gate.calls == ["device_uuid"]
    assert len(gate.threads) == 1


def test_a_job_that_is_asked_under_another_key_does_not_wait_for_the_hung_one(gate: Any) -> None:
    threads = ReadingThreads(deadline_s=0.2)
    threads.ask(gate, [Job("gpu-1", "device_uuid")])
    assert threads.ask(gate, [Job("levels-1")]) == ["done"]
    assert threads.ask(gate, []) == []
    assert threads.ask(gate, [Job("gpu-1")])[0].startswith("gpu-1 after []")


def test_a_call_that_comes_back_late_is_the_last_of_its_thread(gate: Any) -> None:
    """Nobody waits for the answer, and the library may have been closed meanwhile."""
    threads = ReadingThreads(deadline_s=0.2)
    job = Job("gpu-1", "device_uuid", "device_name")
    threads.ask(gate, [job])
    gate.end()
    assert gate.calls == ["device_uuid"]
    assert job.made == ["device_uuid"]


def test_when_the_call_is_back_the_next_pass_asks_again(gate: Any) -> None:
    threads = ReadingThreads(deadline_s=0.2)
    threads.ask(gate, [Job("gpu-1", "device_uuid")])
    gate.end()
    threads.deadline_s = WAIT_S
    assert threads.ask(gate, [Job("gpu-1", "device_uuid", answer="well")]) == ["well"]


def test_what_a_job_raises_is_raised_to_the_pass_and_the_others_are_not_left_behind(gate: Any) -> None:
    """A hung neighbour of a job that raised is known to the next pass, too."""
    threads = ReadingThreads(deadline_s=0.2)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        threads.ask(gate, [Job("gpu-0", answer=ZeroDivisionError("a bug")), Job("gpu-1", "device_uuid", "device_name")])
    assert threads.ask(gate, [Job("gpu-1")]) == ["gpu-1 after []: no answer within 0.2 s from nvmlDeviceGetUUID"]
    gate.end()
    assert gate.calls == ["device_uuid"]


def test_a_hung_thread_does_not_keep_the_process(gate: Any) -> None:
    ReadingThreads(deadline_s=0.2).ask(gate, [Job("gpu-1", "device_uuid")])
    assert [(thread.name, thread.daemon) for thread in gate.threads] == [("nvml-gpu-1", True)]


def test_a_followed_library_answers_as_the_library_does(tmp_path: Path) -> None:
    """Arguments and answers pass through."""

    class Names(Job):
        def run(self, library: NvmlLibrary) -> str:
            return library.device_name(library.device_handle_by_index(2))

    assert ReadingThreads().ask(open_library("t4", tmp_path), [Names("gpu-2")]) == ["Tesla T4"]


def test_eight_sleeping_gpus_have_time_to_wake() -> None:
    """About three seconds each, one after the other."""
    assert 8 * 3 <= GPU_DEADLINE_S <= 30
