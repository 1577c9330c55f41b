"""Which GPU a device of a node is, or is a part of."""

from __future__ import annotations

from driver.allocator.device_node import DeviceNode
from driver.allocator.tables import positions_of
from driver.topology.mig_names import parse_gpu_of_device
from driver.topology.names import gpu_device_name


def name_gpu(node: DeviceNode, at: int) -> str:
    """The GPU's device name: told by the device's own, by the counters that it draws on, else by the GPU's UUID.

    A part of which nothing tells it is a GPU of its own.
    """
    device = node.devices[at]
    if node.whole >> at & 1:
        return device.name
    pci = parse_gpu_of_device(device.name)
    if pci is not None:
        return gpu_device_name(pci)
    group = node.shape.group_of[at]
    wholes = list(positions_of(node.shape.groups[group].whole_mask)) if group >= 0 else []
    if len(wholes) == 1:
        return node.devices[wholes[0]].name
    parent = device.attributes.get("parentUUID")
    return device.name if parent is None or not parent.string else parent.string
