"""Few claims at a time compute; the others wait for their turn, or for the disk, the API server, the hardware.

Python runs one thread at a time, and a prepare makes a hundred short calls of the system. Where fifty threads do so side by
side, each call ends with a fight for the interpreter, which cost a burst a third of its CPU time. A thread gives its turn up
while it waits for something long. A turn is advice and no lock: who does not get one soon goes on without, so that a thread
stuck in the kernel holds nobody up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MOST = 2
"""One in Python, one in the kernel."""
_PATIENCE_S = 0.1


class _Mine(threading.local):
    has_turn = False


class Turns:
    """Taken around the work for a claim, given up around its waits."""

    def __init__(self, most: int = _MOST, patience_s: float = _PATIENCE_S) -> None:
        self._free = threading.Semaphore(most)
        self._patience_s = patience_s
        self._mine = _Mine()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """This thread computes in the block."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """This thread waits in the block; nothing where it had no turn."""
        if not self._mine.has_turn:
            yield
            return
        self._give()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._mine.has_turn = self._free.acquire(timeout=self._patience_s)

    def _give(self) -> None:
        if self._mine.has_turn:
            self._mine.has_turn = False
            self._free.release()
