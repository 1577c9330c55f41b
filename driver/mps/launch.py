"""Starting the daemon's process so that it is found again, whoever of us dies meanwhile.

The process writes down who it is before it becomes the daemon, and only if nobody has before it: a plugin that is killed right
after it has started one leaves a process that its successor finds, and two plugins never start two. It has a session of its own
and outlives the plugin: clients of a daemon that ends are lost.

On a real machine the daemon has a mount namespace of its own, in which ``/dev/shm`` is the claim's folder: MPS looks for its
clients' memory there and nowhere else. Where the plugin runs in a container, the daemon leaves it: it has the host's files and
a control group of its own, so that it does not end with the container. For this the plugin must see the host's processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.errors import DeviceNotReady
from driver.mps import launcher
from driver.mps.daemon_files import PROGRAM, DaemonFiles, DaemonSpec, build_environment

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DETACH = 2
_CONTROL_GROUP = "/sys/fs/cgroup/gpu-dra-mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where the driver's own program is, and what it needs to run."""

    program: Path
    libraries: Mapping[str, Path]
    """Names under which the driver's libraries are looked for; empty where the loader finds them by itself."""
    enters_host: bool = False
    """Both are paths of the host, and the daemon is to run there and not in this container."""


def start_process(spec: DaemonSpec, files: DaemonFiles, tools: Tools, *, isolates: bool) -> subprocess.Popen[bytes]:
    """Start the daemon; ``files.identity`` tells of it once it has begun.

    Raises:
        DeviceNotReady: it cannot be started at all.
    """
    plan = {
        "enters_host": tools.enters_host,
        "control_group": _CONTROL_GROUP if tools.enters_host else "",
        "shared_memory": str(files.shared_memory) if isolates else "",
        "identity": str(files.identity),
        "command": [str(tools.program), "-f", *(["-multiuser-server"] if spec.is_multi_user else [])],
        "environment": build_variables(spec, files, tools),
    }
    try:
        with files.output.open("ab") as output:
            return subprocess.Popen(
                _build_launch(plan), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
    except OSError as err:
        raise DeviceNotReady(f"starting {PROGRAM} for {', '.join(spec.uuids)}: {err}") from err


def build_variables(spec: DaemonSpec, files: DaemonFiles, tools: Tools) -> dict[str, str]:
    """All variables of the process: none of this one's, which are not the driver's business."""
    variables = {"PATH": f"{tools.program.parent}:{_PATH}", **build_environment(spec, files)}
    if tools.libraries:
        variables["LD_LIBRARY_PATH"] = str(files.folder / "lib")
    return variables


def _build_launch(plan: Mapping[str, object]) -> list[str]:
    return [sys.executable, "-I", "-S", launcher.__file__, json.dumps(plan)]


def write_library_links(files: DaemonFiles, tools: Tools) -> None:
    """Links to the driver's own libraries and nothing else: its root has a C library too, which must not meet ours."""
    folder = files.folder / "lib"
    folder.mkdir(exist_ok=True)
    for name, path in tools.libraries.items():
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(path)


def tell(spec: DaemonSpec, files: DaemonFiles, tools: Tools, commands: Sequence[str], timeout_s: float) -> str | None:
    """Have the daemon do ``commands``; what it said, or None where it does not answer."""
    plan = {
        "enters_host": tools.enters_host,
        "control_group": "",
        "shared_memory": "",
        "identity": "",
        "command": [str(tools.program)],
        "environment": build_variables(spec, files, tools),
    }
    try:
        asked = subprocess.Popen(
            _build_launch(plan),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError:
        return None
    with asked:
        try:
            said, _ = asked.communicate("".join(f"{command}\n" for command in commands), timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(asked.pid, signal.SIGKILL)
            asked.communicate()
            return None
    return said if asked.returncode == 0 else None


def unmount(folder: Path) -> None:
    """Take the file system off the folder, whoever still uses it.

    From within a container it is not seen, and goes with the folder: the kernel takes it off a folder that is deleted.
    """
    if os.path.ismount(folder):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(folder), _DETACH) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))


def read_tail(path: Path, most_bytes: int = 400) -> str:
    """The end of a log in one line, for a message."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            text = file.read(most_bytes).decode(errors="replace")
    except OSError:
        return ""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())
