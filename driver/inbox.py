"""What signals and threads ask of a process's main thread, which waits for it and does nothing else.

A handler of Python's runs when the main thread is at its bytecode. One whose signal comes just as the thread goes to sleep on a
lock, as a queue's ``get`` does, runs when something else wakes it: on a busy node one SIGTERM in some dozens was heeded by
nobody, and the kubelet killed the process after its grace. The byte that Python's C handler writes into a pipe
(``signal.set_wakeup_fd``) is there whatever the thread was at.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Any thread and any handler may ``put``; the main thread alone does the rest."""

    def __init__(self) -> None:
        self._asked: collections.deque[T] = collections.deque()
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def __del__(self) -> None:
        """Tests make many of them in one process."""
        os.close(self._reader)
        os.close(self._writer)

    def heed(self, number: signal.Signals, what: T) -> None:
        """From now on the signal puts ``what``."""
        signal.signal(number, lambda *_: self.put(what))
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def put(self, what: T) -> None:
        """Have ``get`` return it, after what was put before. Returns at once."""
        self._asked.append(what)
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._writer, b"\0")

    def get(self) -> T:
        """What is asked for; waited for."""
        while True:
            found = self.wait(None)
            if found is not None:
                return found

    def wait(self, timeout_s: float | None) -> T | None:
        """What is asked for; None when nothing was within the time, or when a signal that nobody heeds came."""
        if not self._asked:
            self._poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)
        return self._asked.popleft() if self._asked else None
