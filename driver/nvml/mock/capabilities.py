"""The MIG capability files of the stand-in root: proc entries that say a device's minor number, and the device nodes.

The numbers are the real driver's: 15 GPU instances a GPU with 8 compute instances each, counted on from 3, so that GPU instance
3 of GPU 0 has 30 and its compute instance 0 has 31 (B40).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.nvml.mock.files import write_file, write_link
from driver.nvml.mock.mig import MigState
from driver.nvml.mock.model import Machine

_CONFIG_MINOR = 1
_MONITOR_MINOR = 2
_FIRST_MINOR = 3
_MINORS_PER_INSTANCE = 9
_MINORS_PER_GPU = 15 * _MINORS_PER_INSTANCE


def build_capabilities(machine: Machine, states: Mapping[int, MigState]) -> Mapping[str, int]:
    """The minor number of each capability, by its path below ``/proc/driver/nvidia/capabilities``."""
    if all(gpu.board.mig is None for gpu in machine.gpus):
        return {}
    minors = {"mig/config": _CONFIG_MINOR, "mig/monitor": _MONITOR_MINOR}
    for index, state in states.items():
        minor = machine.gpus[index].minor
        for instance in state.instances:
            folder = f"gpu{minor}/mig/gi{instance.id}"
            base = _FIRST_MINOR + minor * _MINORS_PER_GPU + instance.id * _MINORS_PER_INSTANCE
            minors[f"{folder}/access"] = base
            minors |= {f"{folder}/ci{compute.id}/access": base + 1 + compute.id for compute in instance.compute}
    return minors


def write_capabilities(root: Path, machine: Machine, states: Mapping[int, MigState]) -> None:
    """Brings proc entries and device nodes in step with the MIG state."""
    minors = build_capabilities(machine, states)
    proc, dev = root / "proc/driver/nvidia/capabilities", root / "dev/nvidia-caps"
    for path, minor in minors.items():
        write_link(dev / f"nvidia-cap{minor}", "/dev/null")
        write_file(proc / path, f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n".encode())
    wanted = {proc / path for path in minors}
    folders = {folder for path in wanted for folder in path.parents}
    for folder in _list_instance_folders(proc):
        if folder not in folders:
            shutil.rmtree(folder, ignore_errors=True)
    for node in dev.glob("nvidia-cap*"):
        if node.name.removeprefix("nvidia-cap") not in {str(minor) for minor in minors.values()}:
            node.unlink(missing_ok=True)


def _list_instance_folders(proc: Path) -> Iterator[Path]:
    yield from proc.glob("gpu*/mig/gi*/ci*")
    yield from proc.glob("gpu*/mig/gi*")
