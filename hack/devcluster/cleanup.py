"""Remove all that a cluster left on the machine, also after it was killed half-way."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hack.devcluster import cgroups, network, processes
from hack.devcluster.layout import Layout


def remove_cluster(layout: Layout) -> None:
    """End every process of this cluster, undo its mounts and its bridge, and delete its home."""
    for pid_file in sorted(layout.logs.glob("*.pid")):
        processes.stop(layout.logs, pid_file.stem, patience_s=0)
    for pid in list(find_shims(layout)):  # before their containers: a shim tells containerd of each death
        processes.end_process(pid, patience_s=0)
    for pid in list(find_container_processes(layout)):
        processes.end_process(pid, patience_s=0)
    unmount_below(layout.home)
    subprocess.run(["ip", "link", "delete", network.BRIDGE], capture_output=True, check=False)
    network.close_service(layout)
    _remove_cgroups(layout)
    shutil.rmtree(layout.home, ignore_errors=True)
    if layout.home.exists():  # a last mount went away late
        unmount_below(layout.home)
        shutil.rmtree(layout.home)


def find_shims(layout: Layout) -> Iterator[int]:
    """The shims of this cluster's containerd."""
    for pid, folder in _list_processes():
        command = _read(folder / "cmdline").split("\0")
        if "containerd-shim" in command[0] and str(layout.containerd_socket) in command:
            yield pid


def find_container_processes(layout: Layout) -> Iterator[int]:
    """Processes whose root file system is an overlay under this cluster's containerd."""
    marker = str(layout.home / "containerd")
    for pid, folder in _list_processes():
        for line in _read(folder / "mountinfo").splitlines():
            if line.split(" ")[4] == "/" and " - overlay " in line and marker in line:
                yield pid
                break


def unmount_below(home: Path) -> None:
    """Detach every mount in ``home``, the innermost first."""
    points = [line.split(" ")[1] for line in _read(Path("/proc/mounts")).splitlines()]
    for point in sorted((point for point in points if point.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def _remove_cgroups(layout: Layout) -> None:
    """Remove the empty cgroups of pods; one that has a process cannot be removed, and stays."""
    for root in cgroups.list_roots():
        for folder, _, _ in os.walk(root / layout.cgroup.strip("/"), topdown=False):
            try:
                os.rmdir(folder)  # noqa: PTH106 os.walk speaks strings
            except OSError:
                continue


def _list_processes() -> Iterator[tuple[int, Path]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield int(folder.name), folder


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # the process ended meanwhile
