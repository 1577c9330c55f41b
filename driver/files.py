"""Files that are there whole or not at all, and are never more than they should be."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
"""A path; as text where a claim is prepared."""

_SUFFIX = ".tmp"
_LEFTOVER_AGE_S = 60.0
"""Older temporary files belong to a process that died between two system calls; both take milliseconds."""


def write_atomically(
    path: StrPath, data: bytes, *, mode: int, sync_file: bool = True, sync_folder: bool, has_one_writer: bool = False
) -> None:
    """Put ``data`` at ``path``: a reader sees the old file or the new one, never a part (B51).

    The temporary file is hidden and ends in ``.tmp``, which readers of CDI folders pass over. ``sync_file`` makes the
    content survive a loss of power, ``sync_folder`` the name. Whoever holds a lock for the file says ``has_one_writer``: what
    a killed process left of it then has a name that is known (``name_temporary``), and is written over.

    Raises:
        OSError
    """
    whole = os.fspath(path)
    folder = os.path.dirname(whole)
    temporary = name_temporary(whole, "" if has_one_writer else f".{secrets.token_hex(4)}")
    try:
        _write_new(temporary, data, mode=mode, sync_file=sync_file)
        os.replace(temporary, whole)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if sync_folder:
        sync(folder or ".")


def name_temporary(path: str, word: str = "") -> str:
    """What a file is called until it is whole."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}{word}{_SUFFIX}"


def _write_new(path: str, data: bytes, *, mode: int, sync_file: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:  # of a process that was killed
        os.unlink(path)
        descriptor = os.open(path, flags, 0o600)
    try:
        if mode != 0o600:
            os.fchmod(descriptor, mode)
        _write_all(descriptor, data)
        if sync_file:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: StrPath) -> bool:
    """Delete a file; that there is none is no error, and answers False.

    Raises:
        OSError
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def is_still_at(path: StrPath, descriptor: int) -> bool:
    """False when the file was deleted, or made anew, after it was opened: a lock on it then locks nothing.

    Raises:
        OSError
    """
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def make_folder(folder: StrPath, *, mode: int) -> None:
    """Make the folder, and those above it, with this mode whatever the umask is; one that is there keeps its own.

    Raises:
        OSError
    """
    try:
        os.mkdir(folder, 0o777)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
        return
    os.chmod(folder, mode)


def sync(folder: StrPath) -> None:
    """Make the folder's names survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """True for what a process leaves that is killed in ``write_atomically``."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def delete_leftovers(folder: StrPath, prefix: str, *, now_s: float | None = None) -> int:
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
                    os.unlink(entry.path)
                    deleted += 1
    return deleted


class NotPlainFile(OSError):
    """A folder, a link, a pipe: nothing that this program wrote."""


def read_bounded(path: StrPath, max_bytes: int) -> bytes:
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
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlainFile(errno.EINVAL, "it is no plain file", str(path))
        return _read(descriptor, max_bytes + 1, found.st_size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, wanted: int, size: int) -> bytes:
    """At most ``wanted`` bytes; a file that has the ``size`` that it had is read in one go."""
    data = os.read(descriptor, min(wanted, size + 1))
    if len(data) <= size:
        return data
    parts = [data]
    wanted -= len(data)
    while wanted > 0 and (part := os.read(descriptor, min(wanted, 1 << 20))):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    view = memoryview(data)[written:]
    while view:
        view = view[os.write(descriptor, view) :]
