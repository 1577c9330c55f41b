"""Start and stop processes that outlive this one, each by a file with its id and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hack.devcluster.layout import DevclusterError

Condition = Callable[[], bool]

_STATE, _START_TICKS = 0, 19
"""Fields of ``/proc/<pid>/stat`` behind the command's closing bracket."""


def wait_until(condition: Condition, *, timeout_s: float, interval_s: float = 0.1) -> bool:
    """Poll ``condition`` until it holds (True) or the time is over (False)."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(interval_s)
    return True


def read_start_ticks(pid: int) -> str | None:
    """When a live process started; None for one that is gone or a zombie. With the id it names a process for good."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in "ZX" else fields[_START_TICKS]


def read_pid(folder: Path, name: str) -> int | None:
    """The id of the running process ``name``, or None."""
    try:
        pid, ticks = (folder / f"{name}.pid").read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if read_start_ticks(int(pid)) == ticks else None


def start(folder: Path, name: str, argv: Sequence[str], *, cwd: Path) -> int:
    """Start ``argv`` in a session of its own, its output appended to ``<name>.log``. Already running: nothing happens."""
    running = read_pid(folder, name)
    if running is not None:
        return running
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    ticks = read_start_ticks(process.pid)
    process.returncode = 0  # not ours to wait for: it lives on when we end
    if ticks is None:
        raise DevclusterError(f"{name} ended at once; see {folder / name}.log")
    (folder / f"{name}.pid").write_text(f"{process.pid} {ticks}")
    return process.pid


def stop(folder: Path, name: str, *, patience_s: float = 10.0) -> None:
    """TERM, then KILL after ``patience_s``; returns when the process is gone. Not running: nothing happens."""
    pid = read_pid(folder, name)
    if pid is not None:
        end_process(pid, patience_s=patience_s)
    (folder / f"{name}.pid").unlink(missing_ok=True)


def end_process(pid: int, *, patience_s: float) -> None:
    """TERM one process, KILL it when it is still there after ``patience_s``, and wait until it is gone."""
    ticks = read_start_ticks(pid)
    if ticks is None:
        return
    steps = ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)) if patience_s > 0 else ((signal.SIGKILL, 10.0),)
    for number, wait_s in steps:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_until(lambda: read_start_ticks(pid) != ticks, timeout_s=wait_s, interval_s=0.05):
            return
    raise DevclusterError(f"process {pid} does not end, not even by SIGKILL")
