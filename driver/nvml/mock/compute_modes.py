"""What is set on mock GPUs until the driver is loaded anew: compute modes, and time slices, which ``nvidia-smi`` alone can set.

Both lie below the stand-in root, one small file for each GPU, so that the stand-in programs and every process see them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from driver.nvml.enums import ComputeMode
from driver.nvml.library import Code
from driver.nvml.mock.files import write_file
from driver.nvml.mock.mig import Refused

_MODES = "compute-modes"
TIME_SLICES = "time-slices"


class ComputeModes:
    """The modes of the GPUs below one stand-in root, by UUID."""

    def __init__(self, root: Path) -> None:
        self._folder = root / _MODES

    def read(self, uuid: str) -> int:
        """A number of ``ComputeMode``."""
        try:
            return int((self._folder / uuid).read_text(encoding="ascii"))
        except FileNotFoundError:
            return ComputeMode.DEFAULT

    def write(self, uuid: str, mode: int, *, is_mig_enabled: bool) -> None:
        """Refused as NVML does: an unknown mode, and any but the default where the GPU is in MIG mode."""
        if mode not in set(ComputeMode):
            raise Refused(Code.INVALID_ARGUMENT)
        if is_mig_enabled and mode != ComputeMode.DEFAULT:
            raise Refused(Code.NOT_SUPPORTED)
        write_file(self._folder / uuid, f"{int(mode)}\n".encode())


def read_time_slice(root: Path, uuid: str) -> int:
    """What ``nvidia-smi compute-policy`` has set; 0 is the default."""
    try:
        return int((root / TIME_SLICES / uuid).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def forget_settings(root: Path) -> None:
    """The driver is loaded anew."""
    for name in (_MODES, TIME_SLICES):
        shutil.rmtree(root / name, ignore_errors=True)
