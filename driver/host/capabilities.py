"""The device nodes by which a container may use a MIG device: one of its GPU instance, and one of its compute instance.

Their numbers stand below ``/proc/driver/nvidia/capabilities`` and in ``/proc/devices``. The nodes themselves need not be there:
the container runtime makes its own by the numbers, and the driver makes the host's when it likes (B40).
"""

from __future__ import annotations

import glob
import re
from pathlib import Path

from driver.errors import DeviceNotReady
from driver.host.device_nodes import DeviceNode
from driver.host.roots import Roots

_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d{1,7})\s*$", re.MULTILINE | re.ASCII)
_MAJOR = re.compile(r"^\s*(\d{1,5})\s+nvidia-caps$", re.MULTILINE | re.ASCII)
_MOST_BYTES = 64 * 1024


def read_mig_nodes(roots: Roots, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, DeviceNode]:
    """The capabilities of the GPU with this minor number, of its GPU instance and of that one's compute instance.

    Raises:
        DeviceNotReady: one of the files is not there, which means that the MIG device is not; or holds no number.
    """
    major = _read_number(roots.proc / "devices", _MAJOR)
    folder = roots.proc / f"driver/nvidia/capabilities/gpu{minor}/mig/gi{gpu_instance}"
    minors = (_read_number(path / "access", _MINOR) for path in (folder, folder / f"ci{compute_instance}"))
    first, second = (_build_node(roots, major, each) for each in minors)
    return first, second


def has_instances(roots: Roots, minor: int) -> bool:
    """Whether the driver has a GPU instance on the GPU with this minor number."""
    return bool(_list(roots.proc / f"driver/nvidia/capabilities/gpu{minor}/mig", "gi*"))


def list_instances(roots: Roots) -> tuple[str, ...]:
    """The MIG devices that the driver has capabilities for, by their folders: cheap, and changes whenever one comes or goes."""
    return _list(roots.proc / "driver/nvidia/capabilities", "gpu*/mig/gi*/ci*")


def list_bound_gpus(roots: Roots) -> tuple[str, ...]:
    """The PCI addresses of the GPUs that the driver has: as cheap, and changes when one is plugged, bound or taken away."""
    return _list(roots.proc / "driver/nvidia/gpus", "*")


def _list(folder: Path, pattern: str) -> tuple[str, ...]:
    """Folders come and go while they are listed: ``Path.glob`` fails on one that is gone (Python 3.11)."""
    return tuple(sorted(glob.glob(pattern, root_dir=folder)))  # noqa: PTH207


def _build_node(roots: Roots, major: int, minor: int) -> DeviceNode:
    name = f"nvidia-caps/nvidia-cap{minor}"
    return DeviceNode(path=f"/dev/{name}", host_path=str(roots.dev_on_host / name), type="c", major=major, minor=minor)


def _read_number(path: Path, pattern: re.Pattern[str]) -> int:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii", errors="replace")
    except OSError as err:
        raise DeviceNotReady(f"MIG capability {path}: {err.strerror}; is the MIG device there, see `nvidia-smi -L`?") from err
    match = pattern.search(text)
    if match is None:
        raise DeviceNotReady(f"MIG capability {path}: no {pattern.pattern} in it; is the proc root right?")
    return int(match[1])
