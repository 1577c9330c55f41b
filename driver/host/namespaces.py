"""Whether this process runs in a container, and what of the host it sees."""

from __future__ import annotations

import os
from pathlib import Path

_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's own number for the machine's (PROC_PID_INIT_INO)."""
_PAUSE = "pause"
"""The first process of a pod whose containers share their processes."""


def sees_host_processes(proc: Path = Path("/proc")) -> bool:
    """True on the host, and in a container with ``hostPID``, also where the node is itself a container (kind, LXC)."""
    return _read(proc / "self/ns/pid") == _FIRST_PID_NAMESPACE or _is_led_by_another(proc)


def _is_led_by_another(proc: Path) -> bool:
    """Whether the first process that is seen has other files than this one, and is not there for this pod alone."""
    first = _read(proc / "1/ns/mnt")
    try:
        name = (proc / "1/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return False
    return first not in ("", _read(proc / "self/ns/mnt")) and name != _PAUSE


def is_on_host_files(proc: Path = Path("/proc")) -> bool:
    """True where this process has the file system of the machine's first process. Say first that it sees that process."""
    own = _read(proc / "self/ns/mnt")
    return own != "" and own == _read(proc / "1/ns/mnt")


def _read(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115  a text, no path
    except OSError:
        return ""
