"""Device nodes that a container is to get."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from driver import log
from driver.errors import DeviceNotReady
from driver.host.roots import Roots

_LOG = log.logger(__name__)
_MOST_BYTES = 64 * 1024
_UVM = "nvidia-uvm"
_RELATIVE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device as a CDI file names it."""

    path: str
    """Where the container sees it."""
    host_path: str
    """Where the container runtime finds it."""
    type: str
    major: int
    minor: int


def read_device_node(roots: Roots, relative: str) -> DeviceNode:
    """Looks at ``relative`` (``nvidia0``, ``nvidia-caps/nvidia-cap12``) below the dev root, now: nothing is remembered (B48).

    Symlinks are followed; the node's own numbers go into the CDI file, so the runtime need not find the same file.

    Raises:
        DeviceNotReady: nothing is there, or it is no character device.
        ValueError: ``relative`` is no plain relative path.
    """
    if _RELATIVE.fullmatch(relative) is None:
        raise ValueError(f"{relative!r} is no path below /dev such as nvidia0")
    path = f"{roots.dev}/{relative}"
    try:
        found = os.stat(path)
    except OSError as err:
        raise DeviceNotReady(
            f"device node {path}: {err.strerror}; is the NVIDIA driver loaded, and is the dev root {roots.dev} right?"
        ) from err
    if not stat.S_ISCHR(found.st_mode):
        raise DeviceNotReady(f"device node {path} is no character device; is the dev root {roots.dev} right?")
    return DeviceNode(
        path=f"/dev/{relative}",
        host_path=os.path.join(roots.dev_on_host, relative),
        type="c",
        major=os.major(found.st_rdev),
        minor=os.minor(found.st_rdev),
    )


def read_uvm_node(roots: Roots) -> DeviceNode:
    """The node of CUDA's memory driver.

    Loading the module makes no node, only a program of NVIDIA's does: where the kernel has the driver and nobody has made its
    nodes, the runtime makes the container's by their numbers.

    Raises:
        DeviceNotReady: the module is not loaded, or something else stands in the node's place.
    """
    try:
        return read_device_node(roots, _UVM)
    except DeviceNotReady as err:
        if not isinstance(err.__cause__, FileNotFoundError):
            raise
        major = _read_major(roots, _UVM)
        if major is None or not roots.dev.is_dir():
            raise DeviceNotReady(
                f"{err} It is there once the module nvidia-uvm is loaded: `nvidia-modprobe -u -c 0` on the node does it."
            ) from err.__cause__
        return DeviceNode(path=f"/dev/{_UVM}", host_path=str(roots.dev_on_host / _UVM), type="c", major=major, minor=0)


def _read_major(roots: Roots, driver: str) -> int | None:
    """What the kernel has numbered a character driver with; None where it has no such driver."""
    try:
        with (roots.proc / "devices").open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii", errors="replace")
    except OSError:
        return None
    match = re.search(rf"^\s*(\d{{1,5}})\s+{re.escape(driver)}$", text, re.MULTILINE | re.ASCII)
    return None if match is None else int(match[1])


def read_optional_device_node(roots: Roots, relative: str) -> DeviceNode | None:
    """Like ``read_device_node``, and None where there is none: not every driver makes ``nvidia-modeset``."""
    try:
        return read_device_node(roots, relative)
    except DeviceNotReady as err:
        if not isinstance(err.__cause__, FileNotFoundError):
            log.event(_LOG, log.WARNING, "a device node is left out", node=relative, error=err)
        return None
