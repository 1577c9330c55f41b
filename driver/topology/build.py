"""From a reading to the node as it hangs together."""

from __future__ import annotations

from collections import Counter

from driver.nvml.readings import MachineReading
from driver.topology.links import build_links, count_peer_links
from driver.topology.model import Gpu, Topology
from driver.topology.names import gpu_device_name
from driver.topology.partition import build_partition


def build_topology(reading: MachineReading) -> Topology:
    """The GPUs in order of PCI address, the links between them, and the sets that these make."""
    gpus = tuple(sorted(reading.gpus, key=lambda gpu: gpu.pci))
    links = build_links(gpus, reading.pcie_levels)
    sets = build_partition(links, tuple(gpu.numa_node for gpu in gpus))
    island_sizes = Counter(sets.islands)
    return Topology(
        driver_version=reading.driver_version,
        cuda_driver_version=reading.cuda_driver_version,
        gpus=tuple(
            Gpu(
                name=gpu_device_name(gpu.pci),
                reading=gpu,
                nvlink_count=count_peer_links(gpu),
                island=sets.islands[position],
                island_size=island_sizes[sets.islands[position]],
                quad=sets.quads[position],
                pair=sets.pairs[position],
                component=sets.components[position],
            )
            for position, gpu in enumerate(gpus)
        ),
        links=links,
    )
