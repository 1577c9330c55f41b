"""The processes of a run: each started for the run, spoken to by lines, read from ``/proc``, and ended by its own id."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

END_S = 20.0
ROOT = Path(__file__).resolve().parents[2]


class BenchFailed(Exception):
    """What was to be measured did not work; the figures would mean nothing."""


class Child:
    """A process of ours; its errors go to a file that is shown when it fails."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        self._log_file = log.open("ab")
        self.started_at = time.monotonic()
        self.popen = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log_file)

    @property
    def pid(self) -> int:
        """Its id."""
        return self.popen.pid

    def ask(self, message: Any) -> Any:
        """Send a line, wait for the answer's line."""
        _pipe(self.popen.stdin).write(msgspec.json.encode(message) + b"\n")
        _pipe(self.popen.stdin).flush()
        return msgspec.json.decode(self.read_line())

    def read_line(self) -> bytes:
        """The next line of its output."""
        line: bytes = _pipe(self.popen.stdout).readline()
        if not line:
            raise BenchFailed(f"{self.popen.args!r} ended:\n{self.read_log()}")
        return line

    def read_log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-3000:]

    def end(self) -> float:
        """SIGTERM, and SIGKILL when that does not help; how long it took in seconds."""
        started = time.monotonic()
        self.popen.terminate()
        try:
            self.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self._log_file):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()
        return time.monotonic() - started


def python(module: str, *arguments: str) -> list[str]:
    """The command line of a module of ours."""
    return [sys.executable, "-m", module, *arguments]


def wait_until(is_true: Callable[[], bool], what: str, *, timeout_s: float = 60.0, interval_s: float = 0.005) -> float:
    """Poll until it is so; the time of the monotonic clock at which it was seen.

    Raises:
        BenchFailed: it did not become so in time.
    """
    give_up_at = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > give_up_at:
            raise BenchFailed(f"waited {timeout_s:g} s for {what}")
        time.sleep(interval_s)
    return time.monotonic()


def read_memory_mb(pid: int) -> dict[str, float]:
    """Resident memory of the process, its peak, and what of it no other process shares, in MB of 10^6 bytes."""
    status = _read_kb(Path(f"/proc/{pid}/status"), ("VmRSS", "VmHWM", "RssAnon"))
    return {"rss": status["VmRSS"], "peak": status["VmHWM"], "anonymous": status["RssAnon"]}


def count_threads(pid: int) -> int:
    """The process's threads now."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def read_cpu_s(pid: int) -> float:
    """The time that the process's threads have run so far, those that have ended too, to the nanosecond.

    This is ``clock_getcpuclockid``, which Python has for threads only: the id negated bit by bit, and 2 for the scheduler's
    own count.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _read_kb(path: Path, keys: Sequence[str]) -> dict[str, float]:
    found = {}
    for line in path.read_text().splitlines():
        key, _, rest = line.partition(":")
        if key in keys:
            found[key] = int(rest.split()[0]) * 1024 / 1e6
    return found


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
