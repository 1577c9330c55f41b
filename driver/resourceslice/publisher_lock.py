"""Which of several instances on this node may write slices: the newest that lives (R3).

One file, ``publish.lock``, and byte-range locks of open file descriptions. Each instance takes the next ticket, a number kept
in the file, and holds the byte of that number for as long as it lives; the kernel lets go of it when the process ends, however
it ends. An instance is the publisher while nobody holds a byte beyond its own: so a new instance takes over by arriving, an old
one yields without being asked, and takes up again if the new one dies.

Byte 0 is held around writes. A new instance therefore does not write before an old one has finished the request it is at: this
alone is waited for, by looking again every few hundredths of a second. Threads of one instance share its file, and so the locks
on it: among themselves they take turns by a lock in memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from driver.errors import StateUnwritable

_FLOCK = struct.Struct("@hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid: struct flock of 64-bit Linux
_WRITING = 0
_TICKET_BYTES = 20
_TRY_AGAIN_S = 0.05
_ARRIVAL_WAIT_S = 60.0


class PublisherLock(Protocol):
    """Says whether this instance is the one that writes slices."""

    def acquire(self) -> None:
        """Become the newest instance. Once; again is no change."""

    def is_held(self) -> bool:
        """Whether this instance is the publisher now."""

    def is_anothers(self) -> bool:
        """Whether another instance is the publisher; before the first has come it is nobody's."""

    def writing(self, wait_s: float) -> AbstractContextManager[bool]:
        """A context in which this instance alone writes; False where it may not.

        Raises ``StateUnwritable`` where an older instance did not end its own request in time.
        """

    def release(self) -> None:
        """Stop being the publisher; an older instance that still runs may take up again."""


class FilePublisherLock:
    """``PublisherLock`` on one file, which is made when it is not there and never removed."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._path = path
        self._clock = clock
        self._sleep = sleep
        self._file = -1
        self._ticket = 0
        self._turn = threading.Lock()

    def acquire(self) -> None:
        """Take the next ticket. Raises ``StateUnwritable`` where the file cannot be used."""
        if self._ticket:
            return
        with self._turn:
            if self._ticket:
                return
            try:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._ticket = self._take_ticket()
            except OSError as err:
                self.release()
                raise StateUnwritable(f"taking the publisher's lock {self._path}: {err.strerror or err}") from err

    def is_held(self) -> bool:
        """Whether no instance with a later ticket lives."""
        return bool(self._ticket) and not _is_locked_by_another(self._file, self._ticket + 1, length=0)

    def is_anothers(self) -> bool:
        """Whether an instance with a later ticket lives; to one without a ticket each is later."""
        return any(ticket > self._ticket for ticket in self.read_others())

    def read_others(self) -> tuple[int, ...]:
        """The tickets of the other instances that live; none where it cannot be told."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ()
        try:
            return tuple(sorted(each for each in _find_locked(file, _WRITING + 1, None) if each != self._ticket))
        finally:
            os.close(file)

    def read_last_ticket(self) -> int:
        """The newest ticket that anybody took: it tells of an instance that came and went between two looks; 0 for none."""
        try:
            return _parse_ticket(self._path.read_bytes()[:_TICKET_BYTES])
        except OSError:
            return 0

    @contextmanager
    def writing(self, wait_s: float) -> Iterator[bool]:
        """Hold byte 0. Yields False, without it, for an instance that is not the newest."""
        if not self.is_held():
            yield False
            return
        if not self._turn.acquire(timeout=wait_s):
            raise StateUnwritable(f"publishing under {self._path}: another thread has been writing for {wait_s:.0f} s")
        try:
            if not self._wait_for_turn(wait_s):
                raise StateUnwritable(f"publishing under {self._path}: another instance has been writing for {wait_s:.0f} s")
            try:
                yield self.is_held()
            finally:
                _set_lock(self._file, fcntl.F_UNLCK, _WRITING)
        finally:
            self._turn.release()

    def release(self) -> None:
        """Let go of the ticket; ``acquire`` takes a new one."""
        file, self._file, self._ticket = self._file, -1, 0
        if file >= 0:
            os.close(file)

    def _take_ticket(self) -> int:
        if not self._wait_for_turn(_ARRIVAL_WAIT_S):
            raise BlockingIOError(errno.EAGAIN, f"another instance has been writing for {_ARRIVAL_WAIT_S:.0f} s")
        try:
            ticket = _parse_ticket(os.pread(self._file, _TICKET_BYTES, 0)) + 1
            while _is_locked_by_another(self._file, ticket, length=0):  # the number was lost, the older instances live
                ticket += 1
            os.pwrite(self._file, f"{ticket:<{_TICKET_BYTES}}".encode(), 0)
            _set_lock(self._file, fcntl.F_WRLCK, ticket)
            return ticket
        finally:
            _set_lock(self._file, fcntl.F_UNLCK, _WRITING)

    def _wait_for_turn(self, wait_s: float) -> bool:
        ends_at = self._clock() + wait_s
        while not _set_lock(self._file, fcntl.F_WRLCK, _WRITING):
            if self._clock() >= ends_at:
                return False
            self._sleep(_TRY_AGAIN_S)
        return True


def _parse_ticket(text: bytes) -> int:
    """0 where it cannot be read: a number that was lost is found again by the locks of those that live."""
    digits = text.decode(errors="replace").strip()
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _set_lock(file: int, kind: int, start: int) -> bool:
    """Lock or unlock one byte; False where another holds it."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0))
    except BlockingIOError:
        return False
    return True


def _is_locked_by_another(file: int, start: int, *, length: int) -> bool:
    """Whether another holds a byte from ``start`` on; length 0 is to the end of all numbers."""
    return _find_lock(file, start, length) is not None


def _find_lock(file: int, start: int, length: int) -> tuple[int, int] | None:
    """First byte and length of a lock of another's that is in the way, if any. It may begin before ``start``."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind, _, found, found_length, _ = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else (int(found), int(found_length))


def _find_locked(file: int, start: int, end: int | None) -> Iterator[int]:
    """All bytes that others hold from ``start`` to before ``end``: the kernel names any of them.

    What one holder has side by side is one lock to the kernel: byte 0 and ticket 1, while the first instance writes.
    """
    if end is not None and start >= end:
        return
    lock = _find_lock(file, start, 0 if end is None else end - start)
    if lock is not None:
        first, after = max(lock[0], start), lock[0] + lock[1]
        yield from range(first, after)
        yield from _find_locked(file, start, first)
        yield from _find_locked(file, max(after, first + 1), end)
