"""Becomes an MPS daemon: run as a program of its own, by its file's name, with what it is to do as JSON.

It needs no shell and no other program, since the image of the plugin may have none; and nothing of this package, since it may
leave the file system that this package lies on. See ``driver.mps.launch``.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

TAKEN = 75
"""Exit status: another process is the daemon already."""
_NEW_MOUNTS = 0x20000
_BIND, _PRIVATE_ALL = 0x1000, 0x40000 | 0x4000
_NO_SUID_NO_DEV = 0x2 | 0x4
_SHARED_MEMORY = b"/dev/shm"
_HOST_NAMESPACES = ("cgroup", "mnt")


def _check(status: int, what: str) -> None:
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def _enter_host(libc: ctypes.CDLL) -> None:
    """Into the namespaces of the machine's first process, of which the host's process numbers are seen."""
    descriptors = [os.open(f"/proc/1/ns/{name}", os.O_RDONLY) for name in _HOST_NAMESPACES]
    for descriptor, name in zip(descriptors, _HOST_NAMESPACES, strict=True):
        _check(libc.setns(descriptor, 0), f"/proc/1/ns/{name}")
        os.close(descriptor)
    os.chdir("/")


def _leave_group(folder: str) -> None:
    """Out of the plugin's own control group, with which its container's processes are ended."""
    try:
        Path(folder).mkdir(exist_ok=True)
        # Never made here: below cgroup v1 the folder is an ordinary one, and a file in it moves nobody.
        descriptor = os.open(f"{folder}/cgroup.procs", os.O_WRONLY)
        try:
            os.write(descriptor, str(os.getpid()).encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError as err:
        sys.stderr.write(f"the daemon ends with the plugin's container: {err}\n")


def _take_shared_memory(libc: ctypes.CDLL, folder: str) -> None:
    """A mount namespace of our own, with ``folder`` as ``/dev/shm``. The folder is a file system by itself, for all to see.

    What pods put there must not fill the node's ``/run``.
    """
    if not os.path.ismount(folder):
        _check(libc.mount(b"gpu-dra-mps", folder.encode(), b"tmpfs", ctypes.c_ulong(_NO_SUID_NO_DEV), b"mode=1777"), folder)
    _check(libc.unshare(_NEW_MOUNTS), "a mount namespace (CAP_SYS_ADMIN is needed)")
    _check(libc.mount(None, b"/", None, ctypes.c_ulong(_PRIVATE_ALL), None), "/")
    _check(libc.mount(folder.encode(), _SHARED_MEMORY, None, ctypes.c_ulong(_BIND), None), _SHARED_MEMORY.decode())


def _write_identity(path: str) -> bool:
    """Write down who this is, unless somebody has; whole or not at all."""
    draft = Path(f"{path}.{os.getpid()}")
    draft.write_bytes(Path("/proc/self/stat").read_bytes())
    try:
        Path(path).hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def main(text: str) -> int:
    """Become what ``text`` says; does not come back unless it cannot."""
    plan = json.loads(text)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if plan["enters_host"]:
            _enter_host(libc)
        if plan["control_group"]:
            _leave_group(plan["control_group"])
        if plan["shared_memory"]:
            _take_shared_memory(libc, plan["shared_memory"])
        if plan["identity"]:
            os.umask(0)  # clients of any user are to get in
            if not _write_identity(plan["identity"]):
                return TAKEN
        os.execve(plan["command"][0], plan["command"], plan["environment"])  # noqa: S606  no shell is the point
    except OSError as err:
        sys.stderr.write(f"{err}\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
