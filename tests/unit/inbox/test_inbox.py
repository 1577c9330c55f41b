"""What signals and threads ask of the main thread, and that no signal is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from driver.inbox import Inbox

ROUNDS = 400
_PROGRAM = f"""
import os, signal, threading
from driver.inbox import Inbox

inbox = Inbox()
inbox.heed(signal.SIGUSR1, "asked")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # in the main thread: the kernel gives it to another one

def ask():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    for _ in range({ROUNDS}):
        os.kill(os.getpid(), signal.SIGUSR1)
        answered.acquire()

answered = threading.Semaphore(0)
threading.Thread(target=ask, daemon=True).start()
for _ in range({ROUNDS}):
    assert inbox.get() == "asked"
    answered.release()
"""


def test_what_was_put_comes_in_its_order() -> None:
    inbox: Inbox[int] = Inbox()
    for number in range(3):
        inbox.put(number)
    assert [inbox.get() for _ in range(3)] == [0, 1, 2]
    assert inbox.wait(0.0) is None


def test_a_thread_wakes_the_one_that_waits() -> None:
    inbox: Inbox[str] = Inbox()
    threading.Timer(0.05, inbox.put, ["now"]).start()
    assert inbox.get() == "now"


def test_a_full_pipe_loses_nothing() -> None:
    inbox: Inbox[int] = Inbox()
    count = 100_000  # more than the 65,536 bytes that a pipe holds
    for number in range(count):
        inbox.put(number)
    assert [inbox.get() for _ in range(count)] == list(range(count))


def test_a_signal_that_another_thread_gets_wakes_the_main_thread() -> None:
    """A lock does not: the C handler notes the signal, and nothing tells the thread that sleeps on it."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_each_signal_asks_for_its_own(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    woken = signal.set_wakeup_fd(-1)
    try:
        inbox: Inbox[signal.Signals] = Inbox()
        for each in before:
            inbox.heed(each, each)
        os.kill(os.getpid(), number)
        assert inbox.get() is number
    finally:
        signal.set_wakeup_fd(woken)
        for each, handler in before.items():
            signal.signal(each, handler)
