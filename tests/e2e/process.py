"""A part of the driver as a process: started, watched through its log, stopped, frozen and killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.devcluster.processes import wait_until

REPOSITORY = Path(__file__).parents[2]


class ProcessFailed(Exception):
    """The process did not do what the scenario needs; the text names its log."""


@dataclass(slots=True, kw_only=True)
class DriverProcess:
    """One process; the same again after each ``start``. Subclasses say its name, its log and its command."""

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Sequence[str] = ("-m", "driver.cli.main")
    """What Python runs; scenarios of crashes put a module of theirs in between."""
    _process: subprocess.Popen[bytes] | None = None
    _log_start: int = 0

    @property
    def title(self) -> str:
        """How messages name it."""
        raise NotImplementedError

    @property
    def log_path(self) -> Path:
        """Everything that it said, over all its starts."""
        raise NotImplementedError

    def build_command(self) -> list[str]:
        """The command line."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The running process."""
        if self._process is None:
            raise ProcessFailed(f"the {self.title} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the process; a former one must have ended."""
        if self.is_running():
            raise ProcessFailed(f"the {self.title} runs already, as process {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.build_command(),
                cwd=REPOSITORY,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def is_running(self) -> bool:
        """The process is there."""
        return self._process is not None and self._process.poll() is None

    def read_log(self) -> str:
        """What it said since its last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_for_log(self, text: str, *, timeout_s: float = 90.0) -> None:
        """Wait until it has said ``text`` since its last start."""
        wait_until(lambda: text in self.read_log() or not self.is_running(), timeout_s=timeout_s, interval_s=0.05)
        if text not in self.read_log():
            state = "runs" if self.is_running() else f"ended with {self._process.returncode if self._process else None}"
            raise ProcessFailed(f"the {self.title} {state} and has not said {text!r}; see {self.log_path}")

    def wait_ended(self, *, timeout_s: float = 60.0) -> int:
        """Wait until the process has ended by itself; its exit status, negative for a signal."""
        if self._process is None:
            raise ProcessFailed(f"the {self.title} was not started")
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired as err:
            raise ProcessFailed(f"the {self.title} (process {self.pid}) has not ended after {timeout_s:.0f} s") from err

    def stop(self) -> int:
        """SIGTERM, as the kubelet ends a pod; the exit status.

        Raises:
            ProcessFailed: it is still there after 30 s (it is killed then).
        """
        if not self.is_running():
            return 0
        os.kill(self.pid, signal.SIGTERM)
        os.kill(self.pid, signal.SIGCONT)
        try:
            return self.wait_ended(timeout_s=30.0)
        except ProcessFailed:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, and does not know it."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
