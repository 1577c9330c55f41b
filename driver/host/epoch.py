"""What must stay the same for remembered hardware facts to hold."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from driver.errors import DeviceNotReady
from driver.host.roots import Roots

_BOOT_ID = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
_MOST_BYTES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One life of the node's driver. Another epoch voids minors, capability numbers, MIG instances and library paths (R24)."""

    boot_id: str
    driver_version: str
    load_marker: str
    """Changes when the kernel module is loaded again without a reboot."""


def read_epoch(roots: Roots, driver_version: str) -> Epoch:
    """The epoch that the node is in now.

    Raises:
        DeviceNotReady: the boot id cannot be read, so a reboot could not be told from none.
    """
    path = f"{roots.proc}/sys/kernel/random/boot_id"
    try:
        boot_id = _read(path).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise DeviceNotReady(f"reading the boot id from {path}: {err}; is the proc root {roots.proc} right?") from err
    if _BOOT_ID.fullmatch(boot_id) is None:
        raise DeviceNotReady(f"{path} holds no boot id but {boot_id!r}; is the proc root {roots.proc} right?")
    return Epoch(boot_id=boot_id, driver_version=driver_version, load_marker=_read_load_marker(roots, driver_version))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def _read_load_marker(roots: Roots, driver_version: str) -> str:
    """The identity of the module's folder in sysfs, which is new at each load; the driver's version where there is none."""
    try:
        return build_load_marker(os.stat(f"{roots.sys}/module/nvidia"))
    except OSError:
        return driver_version


def build_load_marker(folder: os.stat_result) -> str:
    """What tells one load of a module from the next.

    In sysfs the inode does, and the ctime must not count: it is made up anew whenever the kernel has dropped the inode from
    memory (seen on Linux 6.18). A mock's folder lies on an ordinary file system, which gives inodes out again; there the ctime
    tells. Folders of sysfs have no size.
    """
    return f"inode-{folder.st_ino}" if folder.st_size == 0 else f"inode-{folder.st_ino}-{folder.st_ctime_ns}"
