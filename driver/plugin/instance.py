"""An instance of the plugin on disk: its folders, its lock, and what dead instances left behind.

Each instance holds ``flock`` on a file of its own beside the service socket, from before its first socket is bound until after
its last one is gone. So a file whose lock is free belongs to nobody, and a live neighbour in a rolling update is never
touched (B57). Whether someone answers on a socket is never tried: a busy one would look dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from driver import log
from driver.errors import SocketUnusable
from driver.files import is_still_at
from driver.plugin import sockets

_LOG = log.logger(__name__)

_SOCKET_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,106}\.sock")
_MAX_LOCK_FILE_BYTES = 4096
LOCK_PATIENCE_S = 5.0
"""A neighbour that looks for dead instances holds a lock for a moment only."""
_LOCK_RETRY_S = 0.05


class Instance:
    """The lock of a running instance. Made by ``take_instance``; ``release`` ends it."""

    def __init__(self, paths: sockets.SocketPaths, lock_fd: int) -> None:
        self.paths = paths
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Give the instance up. Its sockets are gone by now; the lock file goes while it is still ours."""
        if self._lock_fd >= 0:
            self.paths.lock.unlink(missing_ok=True)
            os.close(self._lock_fd)
            self._lock_fd = -1


def take_instance(paths: sockets.SocketPaths, *, patience_s: float = LOCK_PATIENCE_S) -> Instance:
    """Make the folders, take the instance's lock, and remove the files of dead instances.

    Raises:
        SocketUnusable: a folder cannot be made, or a live process holds this very instance.
    """
    plugin_dir, registry_dir = paths.service.parent, paths.registration.parent
    try:
        make_private_folder(plugin_dir)
        make_registry_folder(registry_dir)
        lock_fd = _lock_own_file(paths.lock, patience_s)
        _write_lock_file(lock_fd, paths)
    except OSError as err:
        raise SocketUnusable(f"taking the instance {paths.instance} in {plugin_dir}: {err}") from err
    for lock_path in sorted(plugin_dir.glob("dra-*.lock")):
        if lock_path != paths.lock:
            _remove_if_dead(lock_path, registry_dir)
    _remove_instance_sockets(paths.service, paths.registration)
    return Instance(paths, lock_fd)


def make_private_folder(folder: Path) -> None:
    """Make the folder, or narrow it: for its owner alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)


def make_registry_folder(folder: Path) -> None:
    """Make the kubelet's registration folder where it is missing, as the kubelet would; leave it alone where it is there."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    folder.chmod(0o750)


def is_socket(path: Path) -> bool:
    """True when the path itself (not what a link points to) is a unix socket."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _lock_own_file(lock_path: Path, patience_s: float) -> int:
    """Lock the instance's file, made if need be. A neighbour that looks for dead instances may hold it for a moment."""
    give_up_at = time.monotonic() + patience_s
    while True:
        fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if _try_lock(fd) and is_still_at(lock_path, fd):
            return fd
        holder = _read_lock_file(fd).get("pid", "unknown")
        os.close(fd)
        if time.monotonic() >= give_up_at:
            raise SocketUnusable(
                f"{lock_path} is locked by a live process (pid {holder}): two plugins with one instance name would take each "
                "other's sockets; give each its own pod uid, or stop the other one"
            )
        time.sleep(_LOCK_RETRY_S)


def _remove_if_dead(lock_path: Path, registry_dir: Path) -> None:
    try:
        fd = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as err:
        log.event(_LOG, log.WARNING, "cannot look at a lock file; it stays", path=lock_path, error=err)
        return
    try:
        if _try_lock(fd) and is_still_at(lock_path, fd):
            _remove_instance_sockets(*_read_socket_paths(fd, lock_path.parent, registry_dir))
            lock_path.unlink(missing_ok=True)
            log.event(_LOG, log.INFO, "removed the files of a dead instance", lock=lock_path)
    except OSError as err:
        log.event(_LOG, log.WARNING, "cannot remove the files of a dead instance", lock=lock_path, error=err)
    finally:
        os.close(fd)


def _remove_instance_sockets(*socket_paths: Path) -> None:
    for path in socket_paths:
        for each in (path, *_find_hidden(path)):
            if is_socket(each):
                each.unlink(missing_ok=True)


def _find_hidden(path: Path) -> Iterator[Path]:
    return path.parent.glob(f"{sockets.build_hidden_prefix(path)}*")


def _read_socket_paths(fd: int, plugin_dir: Path, registry_dir: Path) -> list[Path]:
    """The sockets that a lock file names. A file is not believed: only plain names, and only in the two folders."""
    content = _read_lock_file(fd)
    named = ((plugin_dir, content.get("service")), (registry_dir, content.get("registration")))
    return [folder / name for folder, name in named if isinstance(name, str) and _SOCKET_NAME.fullmatch(name)]


def _read_lock_file(fd: int) -> dict[str, object]:
    try:
        content = json.loads(os.pread(fd, _MAX_LOCK_FILE_BYTES, 0))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_lock_file(fd: int, paths: sockets.SocketPaths) -> None:
    names = {"service": paths.service.name, "registration": paths.registration.name, "pid": os.getpid()}
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(names).encode("ascii"), 0)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
