"""Whether this process runs in a container, and what of the host it sees."""

from __future__ import annotations

import os
from pathlib import Path

_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's own number for the machine's (PROC_PID_INIT_INO)."""


def sees_host_processes(proc: Path = Path("/proc")) -> bool:
    """True on the host, and in a container with ``hostPID``."""
    return _read(proc / "self/ns/pid") == _FIRST_PID_NAMESPACE


def is_on_host_files(proc: Path = Path("/proc")) -> bool:
    """True where this process has the file system of the machine's first process. Say first that it sees that process."""
    own = _read(proc / "self/ns/mnt")
    return own != "" and own == _read(proc / "1/ns/mnt")


def _read(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115  a text, no path
    except OSError:
        return ""
