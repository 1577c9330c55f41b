"""Where a claim's MIG device lies, as its record keeps it. Pure.

This is all that making it, finding it again and removing it need: profile and place on a card, not a name, and not the numbers
of instances, which are not known before they are made.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from driver.names import DeviceName
from driver.nvml.library import Placement
from driver.topology.mig import Footprint, Partition
from driver.topology.mig_offer import can_switch_mode

_Slices = Annotated[int, msgspec.Meta(ge=0, le=1024)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Device = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", max_length=63)]


class RecordedMig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """One MIG device of a claim."""

    gpu: _Device
    """The whole GPU's device name."""
    gpu_uuid: Annotated[str, msgspec.Meta(max_length=253)] = msgspec.field(name="gpuUUID")
    profile_id: _Number
    start: _Slices
    """Memory slices."""
    size: _Slices
    compute: tuple[_Slices, _Slices] | None = None
    """Start and size, of a device that is a part of its GPU instance."""
    is_own: bool = False
    """Prepare makes the instance, and unprepare removes it."""
    is_mode_own: bool = False
    """The GPU's MIG mode is switched on and off with its instances."""
    gpu_instance_id: _Number | None = msgspec.field(name="gpuInstanceID", default=None)
    """This and the next are None until the instance is made."""
    compute_instance_id: _Number | None = msgspec.field(name="computeInstanceID", default=None)

    @property
    def placement(self) -> Placement:
        """Its memory slices."""
        return Placement(start=self.start, size=self.size)

    @property
    def part(self) -> str:
        """Tells the variables of several MIG devices of one GPU apart."""
        compute = "" if self.compute is None else f"_{self.compute[0]}"
        return f"_MIG_{self.profile_id}_{self.start}{compute}"

    @property
    def footprint(self) -> Footprint:
        """What no other claim may have at the same time."""
        compute = None if self.compute is None else Placement(start=self.compute[0], size=self.compute[1])
        return Footprint(gpu=DeviceName(self.gpu), memory=self.placement, compute=compute)

    def is_at(self, profile_id: int, placement: Placement) -> bool:
        """Whether a GPU instance of this profile and place is the device's."""
        return (self.profile_id, self.placement) == (profile_id, placement)


def build_recorded_mig(partition: Partition) -> RecordedMig:
    """The record of a MIG device that a claim is given."""
    made, compute = partition.made, partition.compute
    return RecordedMig(
        gpu=partition.gpu.name,
        gpu_uuid=partition.gpu.reading.uuid,
        profile_id=partition.profile.info.id,
        start=partition.placement.start,
        size=partition.placement.size,
        compute=None if compute is None else (compute.start, compute.size),
        is_own=made is None,
        is_mode_own=made is None and can_switch_mode(partition.gpu.reading),
        gpu_instance_id=None if made is None else made.gpu_instance_id,
        compute_instance_id=None if made is None else made.compute_instance_id,
    )
