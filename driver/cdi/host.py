"""The host's facts that a CDI file needs, read when asked: a node that was missing a moment ago may be there now (B48)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from driver.host.device_nodes import DeviceNode, read_device_node, read_optional_device_node
from driver.host.driver_files import DriverFiles, SearchFolders, find_driver_files
from driver.host.roots import Roots

REQUIRED_CONTROL_NODES = ("nvidiactl", "nvidia-uvm")
OPTIONAL_CONTROL_NODES = ("nvidia-uvm-tools", "nvidia-modeset")

_Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    version: str
    stamp: _Stamp
    files: DriverFiles


class HostFacts:
    """Device nodes and driver files below the machine's roots.

    Nodes are looked at anew each time. Driver files are searched for again only when one of them, or a folder that they may
    be in, has changed: the search reads thousands of names.
    """

    def __init__(self, roots: Roots, folders: SearchFolders | None = None) -> None:
        self._roots = roots
        self._folders = folders or SearchFolders()
        self._guard = threading.Lock()
        self._known: _Known | None = None

    def read_gpu_node(self, minor: int) -> DeviceNode:
        """``/dev/nvidia<minor>``.

        Raises:
            DeviceNotReady: names the path.
        """
        return read_device_node(self._roots, f"nvidia{minor}")

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        """The nodes that every container with a GPU gets.

        Raises:
            DeviceNotReady: a required one is missing; names the path.
        """
        required = [read_device_node(self._roots, name) for name in REQUIRED_CONTROL_NODES]
        optional = [read_optional_device_node(self._roots, name) for name in OPTIONAL_CONTROL_NODES]
        return (*required, *(node for node in optional if node is not None))

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        """The libraries and programs of this version of the driver.

        Raises:
            DeviceNotReady: there is no libcuda of this version.
        """
        with self._guard:
            known = self._known
        if known is not None and known.version == driver_version and known.stamp == self._stamp(known.files):
            return known.files
        files = find_driver_files(self._roots, driver_version, self._folders)
        made = _Known(version=driver_version, stamp=self._stamp(files), files=files)
        with self._guard:
            self._known = made
        return files

    def _stamp(self, files: DriverFiles) -> _Stamp:
        folders = [self._roots.driver / folder for folder in (*self._folders.libraries, *self._folders.binaries)]
        found = [*files.libraries, *files.binaries, *([files.cdi_hook] if files.cdi_hook else [])]
        return tuple(_stamp(path) for path in (*folders, *(self._inside(file.host_path) for file in found)))

    def _inside(self, host_path: str) -> Path:
        return self._roots.driver / Path(host_path).relative_to(self._roots.driver_on_host)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns
