"""One file lock that at most one thread of this process waits for, however many callers come and go.

A file lock has no time-out. So the caller never blocks in the kernel: a daemon thread does, and the caller waits for that
thread. A caller that gives up leaves the thread to the next caller; if none comes, the thread lets the lock go at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from dataclasses import dataclass

from driver.files import is_still_at

_HOLDER_MAX_BYTES = 1024
_END = b"\n"
"""After the holder. What an earlier, longer one left behind it means nothing: cutting it off is a write more at each step."""


@dataclass(slots=True)
class _Waiter:
    """What the waiting thread and its callers share; guarded by ``FileLock._guard``."""

    done: threading.Event
    is_wanted: bool = True
    descriptor: int | None = None
    error: OSError | None = None


class FileLock:
    """An exclusive lock on ``path``, across processes. Callers in this process take turns before they come here."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._waiter: _Waiter | None = None
        self._descriptor: int | None = None

    def acquire(self, timeout_s: float, holder: str) -> bool:
        """Take the lock and write ``holder`` into it; False when ``timeout_s`` passed first.

        Raises:
            OSError
        """
        if self.acquire_at_once(holder):
            return True
        return self._keep(self._wait(timeout_s), holder)

    def acquire_at_once(self, holder: str) -> bool:
        """``acquire`` that waits for nobody.

        Raises:
            OSError
        """
        return self._keep(self._take_at_once() if self._waiter is None else None, holder)

    def write_holder(self, holder: str) -> None:
        """Say who holds the lock, for whoever waits in another process. A full disk must not cost the lock."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, holder.encode()[:_HOLDER_MAX_BYTES] + _END, 0)

    def release(self, *, delete_file: bool) -> None:
        """Let the lock go. ``delete_file`` for names that will not come again; others notice and take a new file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if delete_file:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
        finally:
            os.close(descriptor)

    def read_holder(self) -> str:
        """Who holds the lock, as far as it said so."""
        try:
            with open(self._path, "rb") as file:
                return file.read(_HOLDER_MAX_BYTES + 1).partition(_END)[0].decode(errors="replace")
        except OSError:
            return ""

    def has_waiter(self) -> bool:
        """True while a thread waits for the lock: this object must then be kept for the next caller."""
        with self._guard:
            return self._waiter is not None

    def _keep(self, descriptor: int | None, holder: str) -> bool:
        if descriptor is None:
            return False
        self._descriptor = descriptor
        self.write_holder(holder)
        return True

    def _take_at_once(self) -> int | None:
        while True:
            descriptor = _open(self._path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            if is_still_at(self._path, descriptor):
                return descriptor
            os.close(descriptor)

    def _wait(self, timeout_s: float) -> int | None:
        with self._guard:
            waiter = self._waiter
            if waiter is None:
                waiter = self._waiter = _Waiter(threading.Event())
                threading.Thread(
                    target=self._block, args=(waiter,), name=f"flock {os.path.basename(self._path)}", daemon=True
                ).start()
            waiter.is_wanted = True
        waiter.done.wait(timeout_s)
        with self._guard:
            if not waiter.done.is_set():
                waiter.is_wanted = False
                return None
            self._waiter = None
        if waiter.error is not None:
            raise waiter.error
        return waiter.descriptor

    def _block(self, waiter: _Waiter) -> None:
        descriptor: int | None = None
        error: OSError | None = None
        try:
            descriptor = _open_and_lock(self._path)
        except OSError as err:
            error = err
        with self._guard:
            if not waiter.is_wanted:
                self._waiter = None
                if descriptor is not None:
                    os.close(descriptor)
                return
            waiter.descriptor, waiter.error = descriptor, error
            waiter.done.set()


def _open_and_lock(path: str) -> int:
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_still_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
