"""The host's facts that a CDI file needs, read when asked: a node that was missing a moment ago may be there now (B48)."""

from __future__ import annotations

from driver.host.device_nodes import DeviceNode, read_device_node, read_optional_device_node
from driver.host.driver_file_cache import DriverFileCache
from driver.host.driver_files import DriverFiles
from driver.host.roots import Roots

REQUIRED_CONTROL_NODES = ("nvidiactl", "nvidia-uvm")
OPTIONAL_CONTROL_NODES = ("nvidia-uvm-tools", "nvidia-modeset")


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

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        """The nodes that every container with a GPU gets.

        Raises:
            DeviceNotReady: a required one is missing; names the path.
        """
        required = [read_device_node(self._roots, name) for name in REQUIRED_CONTROL_NODES]
        optional = [read_optional_device_node(self._roots, name) for name in OPTIONAL_CONTROL_NODES]
        return (*required, *(node for node in optional if node is not None))

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        """The libraries and programs of this version of the driver.

        Raises:
            DeviceNotReady: there is no libcuda of this version.
        """
        return self._driver_files.find(driver_version)
