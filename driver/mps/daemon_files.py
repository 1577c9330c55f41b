"""What an MPS daemon is to be, and where its files lie. Pure."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"

MAX_MEETING_BYTES = 107 - len("/control_privileged")
"""Of the folder where a daemon binds its sockets: the kernel takes 107 bytes of a socket's path; this is the longest name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSpec:
    """One daemon."""

    name: str
    """Its folder's name: the claim's uid and the daemon's name in it."""
    uuids: tuple[str, ...]
    """The devices that it serves, GPUs or MIG devices, in order."""
    thread_percentage: int | None = None
    memory_mib: Mapping[str, int] = field(default_factory=dict)
    """By UUID: what one client may have of it."""
    is_multi_user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFiles:
    """The folders of one daemon below ``root``."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """All of it. As long as it is there, the daemon is wanted."""
        return self.root / self.name

    @property
    def pipe(self) -> Path:
        """Where clients meet the daemon."""
        return self.folder / "pipe"

    @property
    def meeting(self) -> Path:
        """A link to ``pipe`` with a short name: a node's name alone may be longer than a socket's path (B56)."""
        digest = hashlib.sha256(os.fsencode(self.folder.relative_to(self.root.parent))).hexdigest()
        return self.root.parent / digest[:12]

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"

    @property
    def shared_memory(self) -> Path:
        """The ``/dev/shm`` of the daemon and its clients."""
        return self.folder / "shm"

    @property
    def identity(self) -> Path:
        """Which process it is: its line of ``/proc/<pid>/stat``, written by itself."""
        return self.folder / "process"

    @property
    def output(self) -> Path:
        """What it writes to its terminal."""
        return self.log / "output.log"

    @property
    def lock(self) -> Path:
        """Held by whoever starts or stops it."""
        return self.root / f".{self.name}.lock"


def build_commands(spec: DaemonSpec) -> tuple[str, ...]:
    """What a daemon is told once it runs. MPS keeps none of it itself, so a new process is told again."""
    commands = []
    if spec.thread_percentage is not None:
        commands.append(f"set_default_active_thread_percentage {spec.thread_percentage}")
    commands += [f"set_default_device_pinned_mem_limit {uuid} {mib}M" for uuid, mib in sorted(spec.memory_mib.items())]
    # Asked in any case: that it is answered is what being ready means.
    return (*commands, "get_default_active_thread_percentage")


def build_environment(spec: DaemonSpec, files: DaemonFiles) -> dict[str, str]:
    """The variables of the daemon, and of the program that talks to it."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(spec.uuids),
        "CUDA_MPS_PIPE_DIRECTORY": str(files.meeting),
        "CUDA_MPS_LOG_DIRECTORY": str(files.log),
    }
