"""What is set on a GPU so that processes can share it: its compute mode, by NVML, and its time slice, by ``nvidia-smi``.

NVML has no call for time slices (only vGPU schedulers have one), so the driver's own program is run, as NVIDIA's driver does.
NVML is open only while something is set. Both are gone when the driver is loaded anew.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver.errors import NvmlError
from driver.nvml.library import Code, OpenNvml, build_error

_SMI_S = 20.0

GONE = frozenset(
    {
        Code.UNINITIALIZED,
        Code.NOT_FOUND,
        Code.DRIVER_NOT_LOADED,
        Code.LIBRARY_NOT_FOUND,
        Code.GPU_IS_LOST,
        Code.GPU_NOT_FOUND,
    }
)
"""The codes that say that what was set went with the driver or the card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSetting:
    """What one GPU is to have. None is left as it is."""

    uuid: str
    compute_mode: int | None = None
    time_slice: int | None = None
    """0 is the driver's default, 1 to 3 are its short, medium and long one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smi:
    """The driver's ``nvidia-smi``, and its libraries' folders where the loader does not find them by itself."""

    program: Path
    preload: Path | None = None
    """``libnvidia-ml``: nothing else of the driver's root may meet this system's C library."""


class GpuControls:
    """Sets what it is told to on GPUs; the same again is fine."""

    def __init__(self, open_nvml: OpenNvml, find_smi: Callable[[], Smi]) -> None:
        self._open_nvml = open_nvml
        self._find_smi = find_smi

    def set(self, setting: GpuSetting) -> None:
        """Make the GPU so; its mode first, since a GPU that one process has alone has no time slices.

        Raises:
            NvmlError: NVML or ``nvidia-smi`` refuses.
            DeviceNotReady: there is no ``nvidia-smi``.
        """
        with self._open_nvml() as library:
            device = library.device_handle_by_uuid(setting.uuid)
            if setting.compute_mode is not None and library.device_compute_mode(device) != setting.compute_mode:
                library.device_set_compute_mode(device, setting.compute_mode)
                if library.device_compute_mode(device) != setting.compute_mode:
                    raise build_error("nvmlDeviceSetComputeMode (without effect)", Code.INVALID_STATE)
        if setting.time_slice is not None:
            _run_compute_policy(self._find_smi(), setting.uuid, setting.time_slice)


def _run_compute_policy(smi: Smi, uuid: str, time_slice: int) -> None:
    command = [str(smi.program), "compute-policy", "-i", uuid, "--set-timeslice", str(time_slice)]
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    if smi.preload is not None:
        variables["LD_PRELOAD"] = str(smi.preload)
    call = "nvidia-smi compute-policy --set-timeslice"
    try:
        done = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SMI_S,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise build_error(call, Code.TIMEOUT) from err
    except OSError as err:
        raise NvmlError(call, Code.UNKNOWN, f"{smi.program}: {err.strerror}") from err
    if done.returncode != 0:
        said = " ".join(done.stdout.split())[-200:]
        raise NvmlError(call, done.returncode, f"{build_error(call, done.returncode).name}: {said or 'it says nothing'}")
