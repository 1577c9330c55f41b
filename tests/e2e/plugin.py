"""The driver's node half as a process, and what it leaves on disk."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.process import DriverProcess


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
        """The records of claims, without what is aside or half-written; none where no plugin was started yet."""
        return sorted(path for path in self.claim_records.glob("*") if path.suffix in {".json", ".ending"})

    def list_cdi_files(self) -> list[Path]:
        """What a runtime reads in the CDI folder; what a killed process left half-written is hidden, and swept later."""
        return sorted(path for path in self.cdi_root.iterdir() if path.is_file() and not path.name.startswith("."))

    def list_sockets(self) -> list[Path]:
        """Sockets of all instances, in both folders, hidden ones too."""
        return sorted(path for folder in (self.plugin_dir, self.registry) for path in folder.glob("**/*") if path.is_socket())


@dataclass(slots=True, kw_only=True)
class Plugin(DriverProcess):
    """One ``gpu-dra kubelet-plugin`` process. ``machine`` is a mock machine's name or file."""

    folders: PluginFolders
    machine: str
    mig: str = "off"
    """Scenarios of MIG say otherwise; the others count GPUs."""
    pod_uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def title(self) -> str:
        """How messages name it."""
        return "plugin"

    @property
    def log_path(self) -> Path:
        """Everything that it said, over all its starts."""
        return self.folders.logs / f"plugin-{self.pod_uid[:8]}.log"

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
            "--mig": self.mig,
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

    def wait_registered(self) -> None:
        """Wait until the kubelet has taken it.

        Raises:
            ProcessFailed: it has not, or the process ended.
        """
        self.wait_for_log("registered with the kubelet")

    def wait_serving(self) -> None:
        """Wait until it can be called, whether the kubelet has taken it or not."""
        self.wait_for_log("serving service")
