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
    path = roots.dev / relative
    try:
        found = path.stat()
    except OSError as err:
        raise DeviceNotReady(
            f"device node {path}: {err.strerror}; is the NVIDIA driver loaded, and is the dev root {roots.dev} right?"
        ) from err
    if not stat.S_ISCHR(found.st_mode):
        raise DeviceNotReady(f"device node {path} is no character device; is the dev root {roots.dev} right?")
    return DeviceNode(
        path=f"/dev/{relative}",
        host_path=str(roots.dev_on_host / relative),
        type="c",
        major=os.major(found.st_rdev),
        minor=os.minor(found.st_rdev),
    )


def read_optional_device_node(roots: Roots, relative: str) -> DeviceNode | None:
    """Like ``read_device_node``, and None where there is none: not every driver makes ``nvidia-modeset``."""
    try:
        return read_device_node(roots, relative)
    except DeviceNotReady as err:
        if not isinstance(err.__cause__, FileNotFoundError):
            log.event(_LOG, log.WARNING, "a device node is left out", node=relative, error=err)
        return None
