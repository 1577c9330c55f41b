"""What the mock machine of a node has of MIG, and what an administrator does to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from driver.api.resource_v1 import ResourceSlice
from driver.errors import NvmlError
from driver.nvml.library import Device, GpuInstance, NvmlLibrary
from driver.nvml.mock import open_mock
from driver.nvml.reader import read_machine
from driver.nvml.readings import GpuReading, MachineReading
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import content_of
from driver.topology.mig_offer import MigSetting
from driver.topology.names import gpu_device_name
from tests.component.node.one_node import DRIVER, OneNode

MACHINE = "hgx-h100-4"
GPU = "gpu-0000-06-00-0"
ALL = 4 * 26
"""Devices of the machine, with every placement of every MIG profile."""

Instance = tuple[str, int, int]
"""A GPU's device name, a profile's number, a start."""


class NoSysfs:
    """Nothing that the kernel says matters here."""

    def numa_node(self, pci: object) -> int | None:
        return None

    def pcie_root(self, pci: object) -> str | None:
        return None


@contextmanager
def opened(machine: str, state_dir: Path) -> Iterator[NvmlLibrary]:
    """NVML, as another process has it."""
    library = open_mock(machine, state_dir).library
    library.init()
    try:
        yield library
    finally:
        library.shutdown()


def read(machine: str, state_dir: Path) -> MachineReading:
    """The machine as it is now."""
    with opened(machine, state_dir) as library:
        return read_machine(library, NoSysfs())


def list_instances(machine: str, state_dir: Path) -> list[Instance]:
    """The MIG devices that are there; a GPU instance without its compute instance has a negative profile."""
    return sorted(each for gpu in read(machine, state_dir).gpus for each in _instances_of(gpu))


def list_divided(machine: str, state_dir: Path) -> list[str]:
    """The GPUs in MIG mode."""
    return [gpu_device_name(gpu.pci) for gpu in read(machine, state_dir).gpus if gpu.is_mig_enabled]


def switch_mode(library: NvmlLibrary, index: int, *, enabled: bool) -> None:
    """As ``nvidia-smi -mig``."""
    library.device_set_mig_mode(library.device_handle_by_index(index), enabled=enabled)


def make(library: NvmlLibrary, index: int, profile_id: int, start: int, *, parts: int = 1) -> None:
    """As ``nvidia-smi mig -cgi -C``: so many compute instances; none for 0."""
    device = library.device_handle_by_index(index)
    library.device_set_mig_mode(device, enabled=True)
    places = library.device_gpu_instance_possible_placements(device, profile_id)
    place = next(each for each in places if each.start == start)
    instance = library.device_create_gpu_instance_with_placement(device, profile_id, place)
    whole = 7 if profile_id == 15 else {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[_slices(library, device, profile_id)]
    for _ in range(parts):
        library.gpu_instance_create_compute_instance(instance, whole if parts == 1 else 0)


def destroy_all(library: NvmlLibrary, index: int) -> None:
    """As ``nvidia-smi mig -dci; nvidia-smi mig -dgi``."""
    device = library.device_handle_by_index(index)
    for number in range(18):
        for instance in _list_of(library, device, number):
            for profile in range(9):
                for compute in library.gpu_instance_compute_instances(instance, profile):
                    library.compute_instance_destroy(compute)
            library.gpu_instance_destroy(instance)


def _slices(library: NvmlLibrary, device: Device, profile_id: int) -> int:
    infos = (library.device_gpu_instance_profile_info(device, number) for number in (0, 1, 2, 3, 4, 7, 9))
    return next(info.slice_count for info in infos if info.id == profile_id)


def _list_of(library: NvmlLibrary, device: Device, number: int) -> tuple[GpuInstance, ...]:
    try:
        return library.device_gpu_instances(device, library.device_gpu_instance_profile_info(device, number).id)
    except NvmlError:
        return ()


def _instances_of(gpu: GpuReading) -> Iterator[Instance]:
    for each in gpu.mig.instances if gpu.mig is not None else ():
        yield gpu_device_name(gpu.pci), each.profile_id if each.compute else -each.profile_id, each.placement.start


class MigNode:
    """One node of four H100, and what it has of MIG."""

    def __init__(self, node: OneNode, machine: str = MACHINE) -> None:
        self.node = node
        self.machine = machine

    def start(self, mig: MigSetting = MigSetting.AUTO, count: int = ALL) -> None:
        self.plugin = self.node.start(self.machine, mig=mig)
        self.node.wait_published(count)

    def restart(self, mig: MigSetting = MigSetting.AUTO) -> None:
        self.node.stop(self.plugin)
        self.plugin = self.node.start(self.machine, mig=mig)
        self.node.kubelet.wait_registered(DRIVER)

    def contents(self) -> list[SliceContent]:
        slices = self.node.api.objects("resourceslices")
        return [content_of(msgspec.convert(each, ResourceSlice)) for each in slices]

    def has_published(self, count: int) -> bool:
        return len(self.node.devices()) == count

    def instances(self) -> list[Instance]:
        return list_instances(self.machine, self.node.mock_state)

    def divided(self) -> list[str]:
        return list_divided(self.machine, self.node.mock_state)

    def spec(self, uid: str) -> dict[str, Any]:
        path = self.node.cdi_root / f"k8s.gpu.nvidia.com-claim_{uid}.json"
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])

    def records(self) -> list[str]:
        """The files of claims that hold something: ``.json``, and ``.ending`` once an unprepare began."""
        folder = self.node.plugin_dir / "claims"
        return sorted(path.name for path in folder.iterdir() if path.suffix in {".json", ".ending"}) if folder.is_dir() else []

    def device_nodes(self, uid: str) -> list[str]:
        return [node["path"] for device in self.spec(uid)["devices"] for node in device["containerEdits"]["deviceNodes"]]
