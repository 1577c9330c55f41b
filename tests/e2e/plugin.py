"""The driver's node half as a process, and what it leaves on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.devcluster.processes import wait_until

REPOSITORY = Path(__file__).parents[2]
REGISTERED_WITHIN_S = 90.0


class PluginFailed(Exception):
    """The process did not do what the scenario needs; the text names its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFolders:
    """Where a plugin's files lie. Two instances of a node share them."""

    kubelet_root: Path
    cdi_root: Path
    kubeconfig: Path
    node: str
    logs: Path

    @property
    def plugin_dir(self) -> Path:
        """Records, locks, sockets."""
        return self.kubelet_root / "plugins" / "gpu.nvidia.com"

    @property
    def claim_records(self) -> Path:
        """One file a claim."""
        return self.plugin_dir / "claims"

    @property
    def mock_state(self) -> Path:
        """What the mock machine remembers."""
        return self.plugin_dir / "mock"

    @property
    def registry(self) -> Path:
        """Where the kubelet looks for plugins."""
        return self.kubelet_root / "plugins_registry"

    def list_records(self) -> list[Path]:
        """The records of claims, without what is aside or half-written."""
        return sorted(self.claim_records.glob("*.json"))

    def list_cdi_files(self) -> list[Path]:
        """What a runtime reads in the CDI folder; what a killed process left half-written is hidden, and swept later."""
        return sorted(path for path in self.cdi_root.iterdir() if path.is_file() and not path.name.startswith("."))

    def list_sockets(self) -> list[Path]:
        """Sockets of all instances, in both folders, hidden ones too."""
        return sorted(path for folder in (self.plugin_dir, self.registry) for path in folder.glob("**/*") if path.is_socket())


@dataclass(slots=True, kw_only=True)
class Plugin:
    """One ``gpu-dra kubelet-plugin`` process. ``machine`` is a mock machine's name or file."""

    folders: PluginFolders
    machine: str
    pod_uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Sequence[str] = ("-m", "driver.cli.main")
    """What Python runs; scenarios of crashes put a module of theirs in between."""
    _process: subprocess.Popen[bytes] | None = None
    _log_start: int = 0

    @property
    def log_path(self) -> Path:
        """Everything that it said, over all its starts."""
        return self.folders.logs / f"plugin-{self.pod_uid[:8]}.log"

    @property
    def pid(self) -> int:
        """The running process."""
        if self._process is None:
            raise PluginFailed("the plugin was not started")
        return self._process.pid

    @property
    def service_socket(self) -> Path:
        """Where the kubelet calls this instance."""
        return self.folders.plugin_dir / f"dra-{self.pod_uid}.sock"

    @property
    def registration_socket(self) -> Path:
        """Where the kubelet finds this instance."""
        return self.folders.registry / f"gpu.nvidia.com-{self.pod_uid}-reg.sock"

    def build_command(self) -> list[str]:
        """The command line."""
        folders = self.folders
        flags = {
            "--nvml": f"mock:{self.machine}",
            "--node-name": folders.node,
            "--kubeconfig": folders.kubeconfig,
            "--kubelet-root": folders.kubelet_root,
            "--plugin-dir": folders.plugin_dir,
            "--cdi-root": folders.cdi_root,
            "--pod-uid": self.pod_uid,
            "--log-format": "text",
            "--log-level": "debug",
        }
        named = [text for flag, value in flags.items() for text in (flag, str(value))]
        return [sys.executable, *self.launcher, "kubelet-plugin", *named, *self.options]

    def start(self) -> None:
        """Start the process; a former one must have ended."""
        if self.is_running():
            raise PluginFailed(f"the plugin runs already, as process {self.pid}")
        self.folders.logs.mkdir(parents=True, exist_ok=True)
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

    def wait_registered(self) -> None:
        """Wait until the kubelet has taken it.

        Raises:
            PluginFailed: it has not, or the process ended.
        """
        self.wait_for_log("registered with the kubelet")

    def wait_serving(self) -> None:
        """Wait until it can be called, whether the kubelet has taken it or not."""
        self.wait_for_log("serving service")

    def wait_for_log(self, text: str, *, timeout_s: float = REGISTERED_WITHIN_S) -> None:
        """Wait until it has said ``text`` since its last start."""
        wait_until(lambda: text in self.read_log() or not self.is_running(), timeout_s=timeout_s, interval_s=0.05)
        if text not in self.read_log():
            state = "runs" if self.is_running() else f"ended with {self._process.returncode if self._process else None}"
            raise PluginFailed(f"the plugin {state} and has not said {text!r}; see {self.log_path}")

    def wait_ended(self, *, timeout_s: float = 60.0) -> int:
        """Wait until the process has ended by itself; its exit status, negative for a signal."""
        if self._process is None:
            raise PluginFailed("the plugin was not started")
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired as err:
            raise PluginFailed(f"the plugin (process {self.pid}) has not ended after {timeout_s:.0f} s") from err

    def stop(self) -> int:
        """SIGTERM, as the kubelet ends a pod; the exit status.

        Raises:
            PluginFailed: it is still there after 30 s (it is killed then).
        """
        if not self.is_running():
            return 0
        os.kill(self.pid, signal.SIGTERM)
        try:
            return self.wait_ended(timeout_s=30.0)
        except PluginFailed:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
