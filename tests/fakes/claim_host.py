"""The machine's files that a claim needs: device nodes and what the driver installs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from driver.claims.effects import MigGpu
from driver.errors import DeviceNotReady
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFile, DriverFiles, DriverLibrary
from driver.nvml.library import Code, build_error

VERSION = "580.159.04"


@dataclass
class Host:
    """Device nodes and driver files; ``missing`` are node names that are not there now."""

    missing: set[str] = field(default_factory=set)
    has_hook: bool = False
    major: int = 195
    searches: int = 0

    def read_gpu_node(self, minor: int) -> DeviceNode:
        return self._node(f"nvidia{minor}", minor)

    def has_mig_instances(self, minor: int) -> bool:
        return False

    def read_mig_nodes(self, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        names = (f"cap-gi{gpu_instance}", f"cap-gi{gpu_instance}-ci{compute_instance}")
        return tuple(self._node(f"nvidia-caps/gpu{minor}-{name}", minor) for name in names)

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        return (self._node("nvidiactl", 255), self._node("nvidia-uvm", 0))

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        self.searches += 1
        if not driver_version:
            raise DeviceNotReady("no driver version is known")
        return driver_files(driver_version, has_hook=self.has_hook)

    def _node(self, name: str, minor: int) -> DeviceNode:
        if name in self.missing:
            raise DeviceNotReady(f"device node /dev/{name}: No such file or directory")
        return DeviceNode(path=f"/dev/{name}", host_path=f"/mock/dev/{name}", type="c", major=self.major, minor=minor)


def driver_files(version: str = VERSION, *, has_hook: bool = False) -> DriverFiles:
    library = DriverLibrary(
        host_path=f"/host/usr/lib64/libcuda.so.{version}",
        container_path=f"/usr/lib64/libcuda.so.{version}",
        soname_path="/usr/lib64/libcuda.so.1",
    )
    return DriverFiles(
        driver_version=version,
        libraries=(library,),
        binaries=(DriverFile(host_path="/host/usr/bin/nvidia-smi", container_path="/usr/bin/nvidia-smi"),),
        cdi_hook=DriverFile(host_path="/host/usr/bin/nvidia-cdi-hook", container_path="/usr/bin/nvidia-cdi-hook")
        if has_hook
        else None,
    )


class NoMig:
    """The MIG of a machine that has none."""

    def open_gpu(self, uuid: str) -> AbstractContextManager[MigGpu]:
        raise build_error("nvmlDeviceGetMigMode", Code.NOT_SUPPORTED)
