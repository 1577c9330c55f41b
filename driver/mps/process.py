"""Processes that need not be our children: which one it is, whether it lives, waiting for its end, ending it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
_START_TIME = 19
"""Place of ``starttime`` among the fields behind the command's name (proc(5))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process, not to be mistaken for a later one of the same number."""

    pid: int
    start_ticks: int
    """Clock ticks from the boot to its start."""


def parse_stat(text: str) -> tuple[Identity, str]:
    """A line of ``/proc/<pid>/stat``: which process, and its state (``S``, ``Z``).

    Raises:
        ValueError: it is none.
    """
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) <= _START_TIME:
        raise ValueError(f"{text[:80]!r} is no line of /proc/<pid>/stat")
    return Identity(pid=int(head.split(" ", 1)[0]), start_ticks=int(fields[_START_TIME])), fields[0]


def read_identity(path: Path) -> Identity | None:
    """What a process has written of itself; None where nothing readable is there."""
    try:
        return parse_stat(path.read_text(encoding="ascii", errors="replace"))[0]
    except (OSError, ValueError):
        return None


def is_alive(identity: Identity) -> bool:
    """True while that very process runs; one that has ended and waits for its parent does not."""
    try:
        found, state = parse_stat((_PROC / str(identity.pid) / "stat").read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError):
        return False
    return found == identity and state not in ("Z", "X")


@contextlib.contextmanager
def opened(identity: Identity) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None where it has."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor if is_alive(identity) else None
    finally:
        os.close(descriptor)


def wait_end(identity: Identity, timeout_s: float) -> bool:
    """True once the process has ended."""
    with opened(identity) as descriptor:
        if descriptor is None:
            reap(identity.pid)
            return True
        is_ended = bool(select.select([descriptor], [], [], timeout_s)[0])
    if is_ended:
        reap(identity.pid)
    return is_ended


def send(identity: Identity, number: signal.Signals) -> None:
    """A signal to that very process, if it is still there."""
    with opened(identity) as descriptor:
        if descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)


def own(child: subprocess.Popen[bytes]) -> None:
    """Remember a child until it has ended, whoever has started it and gone on."""
    _CHILDREN[child.pid] = child


def reap(pid: int) -> None:
    """Take back a child that has ended; whoever is not our child has another parent for that."""
    child = _CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        _CHILDREN.pop(pid, None)


def find_by_variable(variable: str, value: str) -> tuple[Identity, ...]:
    """Every process that was started with this variable: a daemon's servers, which may outlive it."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(parse_stat((entry / "stat").read_text(encoding="ascii", errors="replace"))[0])
        except (OSError, ValueError):
            continue
    return tuple(found)
