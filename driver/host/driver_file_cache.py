"""Driver files found before they are needed, and found again when the driver root has changed under us.

A search reads some hundred files; a check reads the identity of about twenty folders. A remembered answer that outlives its
folders is how prepares fail until a restart after the driver was replaced (B48).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from driver import log
from driver.host.driver_files import BINARY_FOLDERS, LIBRARY_FOLDERS, DriverFiles, find_driver_files
from driver.host.inside import resolve_inside
from driver.host.roots import Roots

_LOG = log.logger(__name__)

_SETTLED_NS = 2_000_000_000
"""A folder changed less than this ago may change again within the same tick of its file system's clock, unseen."""

_Identity = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class _Remembered:
    files: DriverFiles
    folders: tuple[str, ...]
    """Whole paths, made once: a check is part of every prepare."""
    identity: _Identity


class DriverFileCache:
    """``find_driver_files`` with a memory of one answer. Safe to call from several threads."""

    def __init__(self, roots: Roots, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._roots = roots
        self._now_ns = now_ns
        self._remembered: _Remembered | None = None
        self._said: tuple[str, ...] = ()

    def find(self, driver_version: str) -> DriverFiles:
        """The files as they are now. Looking first and at the folders after is safe: what changed meanwhile is not settled.

        Raises:
            DeviceNotReady: as ``find_driver_files``; a failure is not remembered.
        """
        known = self._remembered
        if known is not None and known.files.driver_version == driver_version and _identify(known.folders) == known.identity:
            return known.files
        self._remembered = None
        files = find_driver_files(self._roots, driver_version)
        self._say_skipped(files.skipped)
        folders = self._folders_that_decide(files)
        identity = _identify(folders)
        if self._is_settled(identity):
            self._remembered = _Remembered(files, folders, identity)
        return files

    def _say_skipped(self, skipped: tuple[str, ...]) -> None:
        """Once, not at each search: a bad bind mount stays until somebody reads of it."""
        if skipped != self._said:
            self._said = skipped
            log.event(_LOG, log.WARNING if skipped else log.INFO, "driver files were passed over", skipped=skipped)

    def _folders_that_decide(self, files: DriverFiles) -> tuple[str, ...]:
        """The search folders, what their links lead to, the folders of what was found, and all above them.

        Whatever is put in, taken out or turned round changes one of these.
        """
        decide = {PurePosixPath()}
        for folder in (*LIBRARY_FOLDERS, *BINARY_FOLDERS):
            decide |= _with_parents(PurePosixPath(folder))
            try:
                decide |= _with_parents(resolve_inside(self._roots.driver, folder))
            except OSError:
                continue
        for file in (*files.libraries, *files.binaries):
            decide |= _with_parents(PurePosixPath(file.host_path).relative_to(self._roots.driver_on_host).parent)
        return tuple(str(self._roots.driver / folder) if folder.parts else f"{self._roots.driver}/." for folder in decide)

    def _is_settled(self, identity: _Identity) -> bool:
        newest = max((entry[2] for entry in identity if entry is not None), default=0)
        return newest + _SETTLED_NS < self._now_ns()


def _identify(folders: Iterable[str]) -> _Identity:
    """Device, inode and mtime of each folder itself (a link is not followed, but at the root); None where there is none."""
    return tuple(_identity(folder) for folder in folders)


def _identity(folder: str) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(folder)  # a Path for each of twenty folders would cost more than the look itself
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _with_parents(path: PurePosixPath) -> set[PurePosixPath]:
    return {path, *path.parents}
