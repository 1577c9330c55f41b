"""Which claims' unprepares have begun, for every instance of the plugin to see.

A prepare notes where the log ends when it arrives and looks again before it takes effect: an unprepare that began in between
has already been answered, or will be, so the prepare must leave nothing behind (R8). Only the order counts, never a time: a
named claim may be prepared again a moment after its unprepare.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from driver.cdi import names as cdi_names
from driver.claims.private_folder import make_private_folder
from driver.errors import StateUnwritable
from driver.names import ClaimUID

LOG_NAME = "log"
MOST_BYTES = 1 << 20
"""28,000 unprepares: far more than begin while one prepare is at work."""


class EndedLog:
    """One file, a line for each unprepare. Lines of several processes never mix: each is appended by one write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = os.path.join(folder, LOG_NAME)
        self._guard = threading.Lock()
        self._descriptor: int | None = None

    def start(self) -> None:
        """Make the folder and the log.

        Raises:
            StateUnwritable
        """
        make_private_folder(self._folder, "the folder of what has ended")
        self.read_end()

    def read_end(self) -> int:
        """Where the log ends now.

        Raises:
            StateUnwritable
        """
        try:
            return self._open()[1]
        except OSError as err:
            raise self._build_error("reading", err) from err

    def has_begun(self, uid: ClaimUID, since: int) -> bool:
        """Whether an unprepare of the claim has begun since the log ended there; also True where that is not known any more.

        Raises:
            StateUnwritable
        """
        try:
            descriptor, size = self._open()
            if size == since:
                return False
            if size < since:
                return True
            return cdi_names.validate_uid(uid).encode() in os.pread(descriptor, size - since, since)
        except OSError as err:
            raise self._build_error("reading", err) from err

    def add(self, uid: ClaimUID) -> None:
        """An unprepare of the claim begins.

        Raises:
            StateUnwritable
        """
        line = f"{cdi_names.validate_uid(uid)}\n".encode()
        try:
            os.write(self._open()[0], line)
        except OSError as err:
            raise self._build_error("writing", err) from err

    def cut(self) -> None:
        """Empty a log that has grown long. A prepare that is at work has to be asked for again then.

        Raises:
            StateUnwritable
        """
        if self.read_end() > MOST_BYTES:
            try:
                os.ftruncate(self._open()[0], 0)
            except OSError as err:
                raise self._build_error("writing", err) from err

    def _open(self) -> tuple[int, int]:
        """The log and its size. It is open as long as this object lives, and made again where somebody deleted it."""
        descriptor = self._descriptor
        if descriptor is not None:
            found = os.fstat(descriptor)
            if found.st_nlink:
                return descriptor, found.st_size
        with self._guard:
            current = self._descriptor
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            if current is None:
                current = self._descriptor = os.open(self._path, flags, 0o600)
            elif not os.fstat(current).st_nlink:
                made = os.open(self._path, flags, 0o600)
                os.dup2(made, current, inheritable=False)  # the number stays: others are about to use it
                os.close(made)
            return current, os.fstat(current).st_size

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _build_error(self, doing: str, err: OSError) -> StateUnwritable:
        return StateUnwritable(f"{doing} {self._path}: {err}; look at the disk and at the folder's owner")
