"""The cgroup of a cluster's pods, in every hierarchy that the machine has."""

from __future__ import annotations

from pathlib import Path

from hack.devcluster.layout import Layout

_MOUNT = Path("/sys/fs/cgroup")
_INHERITED = ("cpuset.cpus", "cpuset.mems")
"""Version 1 gives a new cpuset nothing, and no process may enter it then."""


def list_roots(mount: Path = _MOUNT) -> list[Path]:
    """The root of each hierarchy: of version 1 one a controller, of version 2 the only one."""
    if (mount / "cgroup.controllers").exists():
        return [mount]
    return sorted(folder for folder in mount.iterdir() if folder.is_dir() and not folder.is_symlink())


def make_cgroup(layout: Layout, mount: Path = _MOUNT) -> None:
    """Make the cgroup that the kubelet is told to stay below; it makes none itself."""
    for root in list_roots(mount):
        folder = root / layout.cgroup.strip("/")
        folder.mkdir(exist_ok=True)
        for name in _INHERITED:
            if (root / name).exists() and not (folder / name).read_text().strip():
                (folder / name).write_text((root / name).read_text())
