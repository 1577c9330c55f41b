"""Jobs are done by a few threads, and what was begun is not left half done at a stop."""

from __future__ import annotations

import threading

import pytest

from driver.controller.writing.threads import WriterThreads
from driver.controller.writing.writer import Job, Report, SettleJob
from tests.unit.controller.writing.test_claim_steps import OURS

JOB = SettleJob(claim=OURS, users=())
LONG_S = 30.0


class Hands:
    """A writer that waits to be let on, and counts."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.reports: list[Report] = []
        self.failed = threading.Event()
        self.failures: list[Exception] = []
        self.error: Exception | None = None

    def run(self, job: Job) -> Report:
        self.begun.release()
        assert self.may_end.wait(LONG_S)
        if self.error is not None:
            raise self.error
        return Report(job=job, written=())

    def note_failure(self, error: Exception) -> None:
        self.failures.append(error)
        self.failed.set()

    def threads(self, count: int) -> WriterThreads:
        return WriterThreads(self, self.reports.append, self.note_failure, count=count)  # type: ignore[arg-type]


@pytest.fixture
def hands() -> Hands:
    return Hands()


def begin(hands: Hands, threads: WriterThreads, count: int) -> None:
    for _ in range(count):
        threads.submit(JOB)
    for _ in range(count):
        assert hands.begun.acquire(timeout=LONG_S)


def test_several_are_done_at_once(hands: Hands) -> None:
    threads = hands.threads(3)
    threads.start()
    begin(hands, threads, 3)
    hands.may_end.set()
    assert threads.stop(LONG_S)
    assert [each.job for each in hands.reports] == [JOB] * 3


def test_a_stop_drops_what_waits_and_ends_what_was_begun(hands: Hands) -> None:
    threads = hands.threads(1)
    threads.start()
    begin(hands, threads, 1)
    threads.submit(JOB)
    assert not threads.stop(0.01), "one is at work still"
    hands.may_end.set()
    assert threads.stop(LONG_S)
    assert len(hands.reports) == 1


def test_an_error_that_nobody_foresaw_is_told(hands: Hands) -> None:
    hands.error = ValueError("a bug")
    hands.may_end.set()
    threads = hands.threads(1)
    threads.start()
    threads.submit(JOB)
    assert hands.failed.wait(LONG_S)
    assert hands.failures == [hands.error]
    assert threads.stop(LONG_S)


def test_threads_that_never_began_are_stopped(hands: Hands) -> None:
    assert hands.threads(2).stop(LONG_S)
