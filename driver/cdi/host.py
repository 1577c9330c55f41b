"""The host's facts that a CDI file needs, read when asked: a node that was missing a moment ago may be there now (B48)."""

from __future__ import annotations

from driver.host.capabilities import has_instances, read_mig_nodes
from driver.host.device_nodes import DeviceNode, read_device_node, read_optional_device_node, read_uvm_node
from driver.host.driver_file_cache import DriverFileCache
from driver.host.driver_files import DriverFiles
from driver.host.roots import Roots

_CONTROL = "nvidiactl"
_UVM_TOOLS = "nvidia-uvm-tools"
_MODESET = "nvidia-modeset"


class HostFacts:
    """Device nodes and driver files below the machine's roots.

    Nodes are looked at anew each time; driver files are searched for again only when a folder that decides about them has
    changed.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._driver_files = DriverFileCache(roots)

    def read_gpu_node(self, minor: int) -> DeviceNode:
        """``/dev/nvidia<minor>``.

        Raises:
            DeviceNotReady: names the path.
        """
        return read_device_node(self._roots, f"nvidia{minor}")

    def read_mig_nodes(self, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        """The two capabilities of a MIG device of the GPU with this minor number.

        Raises:
            DeviceNotReady: names the path.
        """
        return read_mig_nodes(self._roots, minor, gpu_instance, compute_instance)

    def has_mig_instances(self, minor: int) -> bool:
        """Whether somebody has divided the GPU with this minor number: by the driver's files, without NVML."""
        return has_instances(self._roots, minor)

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        """The nodes that every container with a GPU gets.

        Raises:
            DeviceNotReady: a required one is missing; names the path.
        """
        required = (read_device_node(self._roots, _CONTROL), read_uvm_node(self._roots))
        optional = (read_optional_device_node(self._roots, name) for name in (_UVM_TOOLS, _MODESET))
        return (*required, *(node for node in optional if node is not None))

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        """The libraries and programs of this version of the driver.

        Raises:
            DeviceNotReady: there is no libcuda of this version.
        """
        return self._driver_files.find(driver_version)
