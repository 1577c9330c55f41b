"""Threads that claims are worked on in."""

from __future__ import annotations

import contextvars
import logging
import threading

import pytest

from driver import log
from driver.claims.workers import Workers
from driver.errors import ClaimBusy, ClaimError, DeviceInUse

WHO = contextvars.ContextVar("who", default="nobody")


def busy() -> ClaimBusy:
    return ClaimBusy("still working")


def test_work_gives_its_result_in_the_callers_context() -> None:
    WHO.set("caller")
    assert Workers().submit(WHO.get).wait(10, busy) == "caller"


def test_an_error_of_ours_is_the_answer() -> None:
    def refuse() -> None:
        raise DeviceInUse("held")

    assert isinstance(Workers().submit(refuse).wait(10, busy), DeviceInUse)


def test_b59_an_error_that_nobody_expected_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    """A claim gets an answer whatever happens, and the traceback goes to the log."""

    def fail() -> None:
        raise KeyError("oops")

    with caplog.at_level(logging.ERROR):
        answer = Workers().submit(fail).wait(10, busy)
    assert isinstance(answer, ClaimError)
    assert str(answer) == "internal error (KeyError); the plugin's log has the details"
    assert [log.read_event(record)["msg"] for record in caplog.records] == [
        "a claim's work ended with an error that nobody expected"
    ]
    assert caplog.records[0].exc_info is not None


def test_work_that_is_not_done_in_time_is_left_behind() -> None:
    gate = threading.Event()
    assert isinstance(Workers().submit(gate.wait).wait(0, busy), ClaimBusy)
    gate.set()


def test_work_runs_side_by_side_up_to_the_limit_and_then_in_turn() -> None:
    workers, gate, started = Workers(threads_max=3), threading.Event(), threading.Semaphore(0)

    def block() -> str:
        started.release()
        gate.wait(30)
        return "done"

    tasks = [workers.submit(block) for _ in range(5)]
    for _ in range(3):
        assert started.acquire(timeout=10)
    assert not started.acquire(timeout=0.05)
    gate.set()
    assert [task.wait(10, busy) for task in tasks] == ["done"] * 5


def test_threads_are_used_again() -> None:
    workers = Workers()
    names = {workers.submit(threading.get_ident).wait(10, busy) for _ in range(20)}
    assert len(names) < 20


def test_bursts_leave_few_threads_behind() -> None:
    """However threads and work meet: a thread whose work another one took is idle too, and is counted."""
    workers, before = Workers(idle_max=2), set(threading.enumerate())
    for _ in range(20):
        for task in [workers.submit(lambda: None) for _ in range(30)]:
            task.wait(10, busy)
    gate = threading.Event()
    assert workers.submit(lambda: "now").wait(10, busy) == "now"
    for _ in range(500):
        if len(set(threading.enumerate()) - before) <= 2:
            break
        gate.wait(0.02)
    assert len(set(threading.enumerate()) - before) <= 2


def test_the_threads_never_keep_the_process() -> None:
    assert Workers().submit(lambda: threading.current_thread().daemon).wait(10, busy) is True
