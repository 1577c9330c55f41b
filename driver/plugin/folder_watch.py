"""Wakes a thread when an entry of a folder comes or goes, by inotify; no polling.

The standard library has no inotify, and a library for three system calls is one more thing to trust in a process of root.
Where the kernel refuses an instance (``fs.inotify.max_user_instances`` is used up on many busy nodes), a look every 15 seconds
stands in for it.
"""

from __future__ import annotations

import ctypes
import os
import select
import threading
from pathlib import Path
from typing import Protocol

from driver import log

_LOG = log.logger(__name__)

_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_ONLYDIR = 0x01000000
_MASK = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR

FALLBACK_S = 15.0


class Inotify(Protocol):
    """The two calls of libc; each answers -1 and sets errno when it fails."""

    def inotify_init1(self, flags: int) -> int:
        """A descriptor."""

    def inotify_add_watch(self, fd: int, path: bytes, mask: int) -> int:
        """Watch the folder that is now at the path."""


class FolderWatch:
    """One thread calls ``arm`` and ``wait`` in turn; any thread may call ``wake``."""

    def __init__(self, folder: Path, *, libc: Inotify | None = None, fallback_s: float = FALLBACK_S) -> None:
        self._folder = folder
        self._libc: Inotify = libc if libc is not None else ctypes.CDLL(None, use_errno=True)
        self._fallback_s = fallback_s
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._inotify_fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_armed = False
        self._is_closed = False
        self._wake_lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._wake_fd, select.POLLIN)
        if self._inotify_fd >= 0:
            self._poll.register(self._inotify_fd, select.POLLIN)
        else:
            reason = os.strerror(ctypes.get_errno())
            log.event(_LOG, log.WARNING, "no inotify; looking at the folder every few seconds", folder=folder, reason=reason)

    def arm(self) -> bool:
        """Watch what is now at the folder's path; cheap when it is watched already. Look at the folder after this, not before.

        False when there is no such folder, or no way to watch it.
        """
        self._is_armed = (
            self._inotify_fd >= 0 and self._libc.inotify_add_watch(self._inotify_fd, os.fsencode(self._folder), _MASK) >= 0
        )
        return self._is_armed

    def wait(self, timeout_s: float | None) -> None:
        """Return when an entry came or went since ``arm``, when woken, or after the time; None waits without end."""
        if not self._is_armed:
            timeout_s = self._fallback_s if timeout_s is None else min(timeout_s, self._fallback_s)
        self._poll.poll(None if timeout_s is None else max(0, int(timeout_s * 1000)) + 1)
        for fd in (self._wake_fd, self._inotify_fd):
            _drain(fd)

    def wake(self) -> None:
        """End the wait that runs, or the next one; nothing once closed."""
        with self._wake_lock:
            if not self._is_closed:
                os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """Give the descriptors back; the thread that waits has ended."""
        with self._wake_lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._wake_fd)
            if self._inotify_fd >= 0:
                os.close(self._inotify_fd)


def _drain(fd: int) -> None:
    if fd < 0:
        return
    try:
        os.read(fd, 64 << 10)
    except BlockingIOError:
        return
