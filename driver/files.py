"""Files that are there whole or not at all, and are never more than they should be."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from pathlib import Path

_SUFFIX = ".tmp"
_LEFTOVER_AGE_S = 60.0
"""Older temporary files belong to a process that died between two system calls; both take milliseconds."""


def write_atomically(path: Path, data: bytes, *, mode: int, sync_file: bool = True, sync_folder: bool) -> None:
    """Put ``data`` at ``path``: a reader sees the old file or the new one, never a part (B51).

    The temporary file is hidden and ends in ``.tmp``, which readers of CDI folders pass over. ``sync_file`` makes the
    content survive a loss of power, ``sync_folder`` the name.

    Raises:
        OSError
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, data)
            if sync_file:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if sync_folder:
        sync(path.parent)


def sync(folder: Path) -> None:
    """Make the folder's names survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """True for what a process leaves that is killed in ``write_atomically``."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def delete_leftovers(folder: Path, prefix: str, *, now_s: float | None = None) -> int:
    """Delete temporary files that a killed process left for files whose name begins with ``prefix``; how many.

    Young ones stay: they may be another instance's work.
    """
    deleted = 0
    limit = (time.time() if now_s is None else now_s) - _LEFTOVER_AGE_S
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if not (is_temporary(entry.name) and entry.name.startswith(f".{prefix}")):
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime < limit:
                    Path(entry.path).unlink()
                    deleted += 1
    return deleted


class NotPlainFile(OSError):
    """A folder, a link, a pipe: nothing that this program wrote."""


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The file's bytes, at most ``max_bytes`` and one; the caller refuses what is longer.

    Raises:
        NotPlainFile: something else stands there; it is not followed, and not waited for.
        OSError
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as err:
        if err.errno in (errno.ELOOP, errno.ENXIO):
            raise NotPlainFile(err.errno, "it is a link or a socket", str(path)) from err
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPlainFile(errno.EINVAL, "it is no plain file", str(path))
        return _read(descriptor, max_bytes + 1)
    finally:
        os.close(descriptor)


def _read(descriptor: int, wanted: int) -> bytes:
    parts = []
    while wanted > 0 and (part := os.read(descriptor, min(wanted, 1 << 20))):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
