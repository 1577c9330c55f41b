"""MIG devices as frozen values: which part of a GPU one is, and whether it is there or could be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from driver.names import DeviceName, GpuUUID, is_dns_label
from driver.nvml.library import Placement
from driver.nvml.readings import MigProfile
from driver.topology.mig_names import MigIdentity, parse_mig_name
from driver.topology.model import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeInstance:
    """A GPU instance with one of its compute instances: what a container can be given."""

    gpu_instance_id: int
    compute_instance_id: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A MIG device: one that is there, or one that can be made for a claim."""

    name: DeviceName
    gpu: Gpu
    profile: MigProfile
    text: str
    """NVIDIA's word for the profile: ``1g.10gb``."""
    placement: Placement
    """Memory slices."""
    multiprocessors: int
    identity: MigIdentity
    """What the name stands for."""
    made: MadeInstance | None = None
    """None where prepare makes the instance."""
    compute: Placement | None = None
    """Compute slices, of a compute instance that is not the whole GPU instance."""

    @property
    def footprint(self) -> Footprint:
        """What nobody else may have meanwhile."""
        return Footprint(gpu=self.gpu.name, memory=self.placement, compute=self.compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The part of a GPU that a device takes: two that overlap exclude each other, whatever they are called."""

    gpu: DeviceName
    memory: Placement | None = None
    """Memory slices; None is the whole GPU."""
    compute: Placement | None = None
    """Compute slices of the GPU instance, where the device is a part of it."""

    def overlaps(self, other: Footprint) -> bool:
        """Whether both cannot be given out at the same time."""
        if self.gpu != other.gpu:
            return False
        if self.memory is None or other.memory is None:
            return True
        if self.memory == other.memory and self.compute is not None and other.compute is not None:
            return is_overlap(self.compute, other.compute)
        return is_overlap(self.memory, other.memory)


NodeDevice: TypeAlias = Gpu | Partition
"""What a claim may be given."""


def is_overlap(one: Placement, other: Placement) -> bool:
    """Whether two ranges of slices have one in common."""
    return one.start < other.start + other.size and other.start < one.start + one.size


def gpu_of(device: NodeDevice) -> Gpu:
    """The card: the device itself, or the one that it is a part of."""
    return device.gpu if isinstance(device, Partition) else device


def find_device(devices: Mapping[DeviceName, NodeDevice], name: str) -> NodeDevice | None:
    """The device of this name; of a MIG device also under another name: its text may be an older driver's (R2)."""
    found = devices.get(DeviceName(name))
    identity = parse_mig_name(name) if found is None and is_dns_label(name) else None
    if identity is None:
        return found
    partitions = (each for each in devices.values() if isinstance(each, Partition))
    return next((each for each in partitions if each.identity == identity), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedInstance:
    """A GPU instance that a record of ours answers for: made for a claim, or to be removed."""

    gpu_uuid: GpuUUID
    profile_id: int
    start: int
