"""What of a GPU may be given out, by the setting, the hardware, and whose instances lie there. Pure.

*Static*: the MIG devices that are there, and the whole GPU while its MIG mode is off. *Dynamic*: every placement of every
profile, and the whole GPU, with counters that exclude what overlaps; the mode and the instances are then ours to change.

A GPU that serves virtual machines is given to no container. Never ours to change are: a GPU whose instances somebody else made
(`auto`), the mode of a GPU that needs a reset for it (before Hopper), any GPU while a reset is pending, and those of virtual
machines (B45, R37).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from driver.names import DeviceName
from driver.nvml.enums import VirtualizationMode
from driver.nvml.readings import GpuInstanceReading, GpuReading, MigProfile, MigReading
from driver.topology.mig import MadeInstance, OwnedInstance, Partition
from driver.topology.mig_names import MigIdentity, build_compute_text, build_profile_text, mig_device_name
from driver.topology.model import Gpu, Topology

_FIRST_WITHOUT_RESET = (9, 0)
"""The compute capability from which on the MIG mode changes without a reset of the GPU: Hopper's."""

_SERVES_GUESTS = frozenset({VirtualizationMode.HOST_VGPU, VirtualizationMode.HOST_VSGA})
_VIRTUAL = _SERVES_GUESTS | {VirtualizationMode.VGPU}


class MigSetting(enum.Enum):
    """``--mig``."""

    AUTO = "auto"
    STATIC = "static"
    DYNAMIC = "dynamic"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOffer:
    """What of one GPU may be given out."""

    gpu: Gpu
    is_whole: bool
    """The GPU itself."""
    partitions: tuple[Partition, ...] = ()
    is_dynamic: bool = False
    """Instances are made and removed by claims."""
    can_switch: bool = False
    """The MIG mode, too."""
    foreign: tuple[GpuInstanceReading, ...] = ()
    """Instances that no claim of ours owns; what they take is offered to nobody."""
    note: str = ""
    """Why it is less than could be expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferInputs:
    """What the offer of a node depends on beside its hardware."""

    setting: MigSetting
    has_counters: bool
    """The API server keeps shared counters: without them, overlapping devices would be given out side by side."""
    owned: Collection[OwnedInstance] = frozenset()
    """What records answer for."""
    unconfirmed: Collection[str] = frozenset()
    """UUIDs of GPUs on which something that seems to be nobody's was seen for the first time: a claim may just have ended."""
    names: Mapping[MigIdentity, DeviceName] = field(default_factory=dict)
    """What is published already: a device keeps its name when the driver renames its profile."""


def build_offers(topology: Topology, inputs: OfferInputs) -> tuple[GpuOffer, ...]:
    """An offer for each GPU, in the topology's order."""
    return tuple(_build_offer(gpu, inputs) for gpu in topology.gpus)


def find_ownerless(topology: Topology, owned: Collection[OwnedInstance]) -> frozenset[str]:
    """UUIDs of GPUs in MIG mode that have an instance of nobody, or none at all."""
    found = set()
    for gpu in topology.gpus:
        mig = gpu.reading.mig
        if mig is not None and mig.is_enabled and (not mig.instances or _list_foreign(gpu.reading, mig, owned)):
            found.add(gpu.reading.uuid)
    return frozenset(found)


def explain_not_dynamic(reading: GpuReading) -> str:
    """Why claims can make no instances on this GPU; empty where they can."""
    mig = reading.mig
    if mig is None:
        return "it cannot do MIG"
    if reading.virtualization_mode in _VIRTUAL:
        return "it is a virtual GPU, or serves virtual GPUs"
    if mig.is_enabled != mig.is_enabled_after_reset:
        return "its MIG mode waits for a reset of the GPU"
    if not mig.is_enabled and not can_switch_mode(reading):
        return "its MIG mode changes only with a reset of the GPU: switch it on by hand to have it divided"
    if not any(profile.placements for profile in mig.profiles):
        return "the driver tells no placements"
    return ""


def can_switch_mode(reading: GpuReading) -> bool:
    """Whether the MIG mode of this GPU changes at once, and may."""
    mig, capability = reading.mig, reading.cuda_compute_capability
    return (
        mig is not None
        and mig.is_enabled == mig.is_enabled_after_reset
        and capability is not None
        and capability >= _FIRST_WITHOUT_RESET
        and reading.virtualization_mode not in _VIRTUAL
    )


def _build_offer(gpu: Gpu, inputs: OfferInputs) -> GpuOffer:
    mig = gpu.reading.mig
    if gpu.reading.virtualization_mode in _SERVES_GUESTS:
        note = f"{gpu.name} serves virtual GPUs to virtual machines, and such a host has no CUDA: not published"
        return GpuOffer(gpu=gpu, is_whole=False, note=note)
    if mig is None:
        return GpuOffer(gpu=gpu, is_whole=True)
    if inputs.setting is MigSetting.OFF:
        note = f"{gpu.name} is in MIG mode, and MIG is off here: not published" if mig.is_enabled else ""
        return GpuOffer(gpu=gpu, is_whole=not mig.is_enabled, note=note)
    reason = _explain_static(gpu, mig, inputs)
    offer = _build_dynamic(gpu, mig, inputs) if reason is None else _build_static(gpu, mig, reason, inputs)
    if not mig.fault:
        return offer
    return replace(offer, note="; ".join(filter(None, (_build_fault_note(gpu, mig), offer.note))))


def _build_fault_note(gpu: Gpu, mig: MigReading) -> str:
    known = "what is known of it counts" if mig.is_mode_known else "it is taken for a GPU without MIG"
    return f"{gpu.name}: MIG cannot be read now, and {known} until it can: {mig.fault}"


def _explain_static(gpu: Gpu, mig: MigReading, inputs: OfferInputs) -> str | None:
    """None where the GPU is divided by claims; else why not, empty where that is as it was asked for."""
    if inputs.setting is MigSetting.STATIC:
        return ""
    reason = explain_not_dynamic(gpu.reading) or ("" if inputs.has_counters else "the API server keeps no shared counters")
    if inputs.setting is MigSetting.DYNAMIC:
        return reason or None
    if reason or not can_switch_mode(gpu.reading):
        return ""
    is_free = not mig.is_enabled or gpu.reading.uuid in inputs.unconfirmed
    return None if is_free or any(each.gpu_uuid == gpu.reading.uuid for each in inputs.owned) else ""


def _build_static(gpu: Gpu, mig: MigReading, reason: str, inputs: OfferInputs) -> GpuOffer:
    notes = [f"{gpu.name} is not divided by claims: {reason}"] if reason else []
    if not mig.is_enabled:
        return GpuOffer(gpu=gpu, is_whole=True, note="; ".join(notes))
    partitions = tuple(_list_made(gpu, mig, inputs))
    if not partitions:
        notes.append(f"{gpu.name} is in MIG mode and has no MIG device: nothing of it can be given out")
    return GpuOffer(gpu=gpu, is_whole=False, partitions=partitions, note="; ".join(notes))


def _build_dynamic(gpu: Gpu, mig: MigReading, inputs: OfferInputs) -> GpuOffer:
    can_switch = can_switch_mode(gpu.reading)
    is_confirmed = gpu.reading.uuid not in inputs.unconfirmed
    foreign = _list_foreign(gpu.reading, mig, inputs.owned) if is_confirmed else ()
    note = f"{gpu.name} has MIG instances that no claim made; what they take is not given out" if foreign else ""
    return GpuOffer(
        gpu=gpu,
        is_whole=can_switch and not foreign,
        partitions=tuple(_list_placements(gpu, mig, inputs)),
        is_dynamic=True,
        can_switch=can_switch,
        foreign=foreign,
        note=note,
    )


def _list_foreign(reading: GpuReading, mig: MigReading, owned: Collection[OwnedInstance]) -> tuple[GpuInstanceReading, ...]:
    def is_owned(each: GpuInstanceReading) -> bool:
        return OwnedInstance(gpu_uuid=reading.uuid, profile_id=each.profile_id, start=each.placement.start) in owned

    return tuple(each for each in mig.instances if not is_owned(each))


def _list_placements(gpu: Gpu, mig: MigReading, inputs: OfferInputs) -> Iterator[Partition]:
    for profile in mig.profiles:
        text = build_profile_text(profile.number, profile.info, gpu.reading.memory_bytes)
        for placement in profile.placements:
            identity = MigIdentity(gpu=gpu.reading.pci, profile_id=profile.info.id, start=placement.start)
            yield Partition(
                name=_name(identity, text, inputs),
                gpu=gpu,
                profile=profile,
                text=text,
                placement=placement,
                multiprocessors=profile.info.multiprocessor_count,
                identity=identity,
            )


def _list_made(gpu: Gpu, mig: MigReading, inputs: OfferInputs) -> Iterator[Partition]:
    by_id = {profile.info.id: profile for profile in mig.profiles}
    for instance in mig.instances:
        profile = by_id.get(instance.profile_id)
        if profile is not None:
            yield from _list_compute(gpu, profile, instance, inputs)


def _list_compute(gpu: Gpu, profile: MigProfile, instance: GpuInstanceReading, inputs: OfferInputs) -> Iterator[Partition]:
    whole = build_profile_text(profile.number, profile.info, gpu.reading.memory_bytes)
    for each in instance.compute:
        is_part = each.placement.size < profile.info.slice_count
        text = build_compute_text(each.placement, whole) if is_part else whole
        identity = MigIdentity(
            gpu=gpu.reading.pci,
            profile_id=profile.info.id,
            start=instance.placement.start,
            compute=(each.profile_id, each.placement.start) if is_part else None,
        )
        yield Partition(
            name=_name(identity, text, inputs),
            gpu=gpu,
            profile=profile,
            text=text,
            placement=instance.placement,
            multiprocessors=each.multiprocessor_count,
            made=MadeInstance(gpu_instance_id=instance.id, compute_instance_id=each.id, uuid=each.uuid),
            identity=identity,
            compute=each.placement if is_part else None,
        )


def _name(identity: MigIdentity, text: str, inputs: OfferInputs) -> DeviceName:
    return inputs.names.get(identity) or mig_device_name(identity, text)
