"""What sharing needs of a node, put together: NVML, the driver's own programs, the folder of the MPS daemons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from driver.claims.effects import Incident
from driver.claims.sharing import ClaimSharing
from driver.errors import DeviceNotReady
from driver.host.elf import read_elf
from driver.host.namespaces import is_on_host_files, sees_host_processes
from driver.host.programs import find_program, list_libraries, on_host
from driver.mps.daemon import Daemons
from driver.mps.daemon_files import PROGRAM
from driver.mps.launch import Tools
from driver.mps.watch import DaemonWatch
from driver.node.counter_support import ShareSupport
from driver.node.ground import NodeGround
from driver.nvml.gpu_controls import GpuControls, Smi
from driver.resourceslice.shares import ShareSetting

_NAME_MAX = 255
"""Bytes of a file's name; a node's name alone may have 253."""


@dataclass(frozen=True, slots=True)
class ShareReader:
    """Which GPUs are divided by memory: as set, where the API server keeps such devices."""

    setting: ShareSetting
    support: ShareSupport

    def read(self) -> ShareSetting:
        """Asks the server only where shares are set.

        Raises:
            ApiError: it cannot be known now.
        """
        if not self.setting.is_on or self.support.read():
            return self.setting
        return replace(self.setting, is_on=False, is_refused=True)


def build_sharing(ground: NodeGround) -> ClaimSharing:
    """The node's. Mock nodes of one machine share the folder of the MPS daemons, so each has a folder in it."""
    settings = ground.settings
    folder = settings.mps_dir / f"{settings.driver_name}-{settings.pool.pool}"[:_NAME_MAX]
    daemons = Daemons(root=folder, find_tools=lambda: _find_tools(ground), isolates=settings.isolates_mps)
    return ClaimSharing(
        controls=GpuControls(ground.open_nvml, lambda: _find_smi(ground)),
        daemons=daemons,
        watch=DaemonWatch(daemons, lambda text: ground.reports.report(Incident(reason="MpsDaemonTrouble", message=text))),
        root_on_host=folder,  # the container runtime must see it at the same path
    )


def _find_tools(ground: NodeGround) -> Tools:
    """The daemon's program, to be run beside this process, or on the host where this one is in a container.

    Raises:
        DeviceNotReady: there is none, or the daemon would end with this container.
    """
    roots = ground.roots
    program = find_program(roots, PROGRAM)
    if not ground.settings.isolates_mps:
        return Tools(program=program, libraries=_find_libraries(ground, on_host=False))
    if not sees_host_processes():
        raise DeviceNotReady(
            "MPS needs a kubelet plugin that sees the host's processes (hostPID: true in its pod, and privileged): its daemon "
            "would end with the plugin's container, and the pods' work with it"
        )
    if is_on_host_files():
        return Tools(program=program, libraries=_find_libraries(ground, on_host=False))
    return Tools(program=on_host(roots, program), libraries=_find_libraries(ground, on_host=True), enters_host=True)


def _find_smi(ground: NodeGround) -> Smi:
    program = find_program(ground.roots, "nvidia-smi")
    library = _find_libraries(ground, on_host=False).get("libnvidia-ml.so.1")
    return Smi(program=program, preload=library if library is not None and read_elf(library) is not None else None)


def _find_libraries(ground: NodeGround, *, on_host: bool) -> dict[str, Path]:
    root = ground.roots.driver_on_host if on_host else ground.roots.driver
    if root == Path("/"):
        return {}
    files = ground.host.read_driver_files(ground.state.read().epoch.driver_version)
    return dict(list_libraries(ground.roots, files, on_host=on_host))
