"""How often a claim's unprepare has begun, for every instance of the plugin to see.

A prepare notes the count when it arrives and looks again before it takes effect: an unprepare that began in between has
already been answered, or will be, so the prepare must leave nothing behind (R8). Only the count is compared, never a time: a
named claim may be prepared again a moment after its unprepare.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from driver.cdi import names as cdi_names
from driver.claims.private_folder import make_private_folder
from driver.errors import StateUnwritable
from driver.names import ClaimUID, is_uid

KEPT_S = 600.0
"""No prepare is at work for so long: its call ends within a minute."""


class EndedCounts:
    """One small file a claim, which grows by a byte for each unprepare."""

    def __init__(self, folder: Path, now_s: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now_s = now_s

    def start(self) -> None:
        """Make the folder.

        Raises:
            StateUnwritable
        """
        make_private_folder(self._folder, "the folder of counts")

    def read(self, uid: ClaimUID) -> int:
        """How many unprepares of the claim have begun lately."""
        try:
            return self._path(uid).stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as err:
            raise StateUnwritable(f"reading {self._path(uid)}: {err}") from err

    def add(self, uid: ClaimUID) -> None:
        """An unprepare of the claim begins.

        Raises:
            StateUnwritable
        """
        try:
            descriptor = os.open(self._path(uid), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, b".")
            finally:
                os.close(descriptor)
        except OSError as err:
            raise StateUnwritable(f"writing {self._path(uid)}: {err}; look at the disk and at the folder's owner") from err

    def forget_old(self) -> None:
        """Drop the counts that nobody can be comparing any more."""
        limit = self._now_s() - KEPT_S
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if is_uid(entry.name) and entry.stat(follow_symlinks=False).st_mtime < limit:
                        Path(entry.path).unlink()

    def _path(self, uid: ClaimUID) -> Path:
        return self._folder / cdi_names.validate_uid(uid)
