"""What MIG lets happen to one GPU: state in, state out, or a refusal with NVML's code. Pure.

The rules are those of the hardware (topology.md 2.12): an instance lies at one of its profile's placements, memory slices are
never shared, and neither compute slices nor multiprocessors nor engines are given out twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

import msgspec

from driver.nvml.library import Code, ComputeInstanceProfileInfo, GpuInstanceProfileInfo, Placement
from driver.nvml.mock.model import MigTable, MockGpu
from driver.nvml.readings import MigProfile

_COMPUTE_SIZES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}
"""Compute-instance profile numbers and their slices; NVML's 8_SLICE, 6_SLICE and 7_SLICE_NVL are on no GPU of ours (B43)."""
_ODD_SIZE = 3
"""Three of four slices is no compute instance."""
_ONE_SLICE_REV1 = 7
"""The compute instance that has all multiprocessors of an instance of one compute slice and double memory."""
_RESOURCES = tuple(
    field.name for field in fields(GpuInstanceProfileInfo) if field.name not in {"id", "instance_count", "memory_size_mib"}
)


_State = TypeVar("_State", "ComputeState", "InstanceState")


class Refused(Exception):
    """NVML would say ``code``."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


class ComputeState(msgspec.Struct, frozen=True, kw_only=True):
    """A compute instance; ``start`` and ``size`` count compute slices of its GPU instance."""

    id: int
    profile_id: int
    start: int
    size: int


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU instance; ``start`` and ``size`` count memory slices of the GPU."""

    id: int
    profile_id: int
    start: int
    size: int
    compute: tuple[ComputeState, ...] = ()

    def by_id(self, compute_id: int) -> ComputeState:
        """Refused with NOT_FOUND where there is none."""
        return _find(self.compute, compute_id)


class MigState(msgspec.Struct, frozen=True, kw_only=True):
    """The MIG state of a GPU."""

    is_enabled: bool = False
    is_enabled_after_reset: bool = False
    instances: tuple[InstanceState, ...] = ()
    """By id."""

    def by_id(self, instance_id: int) -> InstanceState:
        """Refused with NOT_FOUND where there is none."""
        return _find(self.instances, instance_id)


def _find(states: tuple[_State, ...], wanted: int) -> _State:
    for state in states:
        if state.id == wanted:
            return state
    raise Refused(Code.NOT_FOUND)


def build_first_state(gpu: MockGpu) -> MigState:
    """What is there when the machine is switched on for the first time.

    Raises:
        Refused: the machine file's instances do not fit together.
    """
    state = MigState(is_enabled=gpu.mig_is_enabled, is_enabled_after_reset=gpu.mig_is_enabled)
    for profile_id, start in gpu.mig_instances:
        table = _require_table(gpu)
        profile = _require_profile(table, profile_id)
        placement = Placement(start=start, size=profile.placements[0].size)
        state, instance = plan_gpu_instance(gpu, state, profile_id, placement)
        whole = max(build_compute_profiles(table, profile).values(), key=lambda info: info.multiprocessor_count)
        state, _ = plan_compute_instance(gpu, state, instance.id, whole.id)
    return state


def build_state_after_boot(gpu: MockGpu, before: MigState) -> MigState:
    """Instances do not outlive a boot; the mode does where it needs a reset, and not from Hopper on."""
    is_enabled = before.is_enabled_after_reset and gpu.board.needs_reset_for_mig
    return MigState(is_enabled=is_enabled, is_enabled_after_reset=is_enabled)


def plan_mode(gpu: MockGpu, state: MigState, *, is_enabled: bool) -> tuple[MigState, Code]:
    """The state after the mode was set, and the activation's code."""
    _require_table(gpu)
    if state.instances and not is_enabled:
        raise Refused(Code.IN_USE)
    if gpu.board.needs_reset_for_mig:
        changed = msgspec.structs.replace(state, is_enabled_after_reset=is_enabled)
        return changed, Code.SUCCESS if state.is_enabled == is_enabled else Code.RESET_REQUIRED
    return msgspec.structs.replace(state, is_enabled=is_enabled, is_enabled_after_reset=is_enabled), Code.SUCCESS


def plan_gpu_instance(gpu: MockGpu, state: MigState, profile_id: int, placement: Placement) -> tuple[MigState, InstanceState]:
    """The state with an instance of ``profile_id`` at ``placement``, and the instance."""
    table = _require_table(gpu)
    if not state.is_enabled:
        raise Refused(Code.NOT_SUPPORTED)
    profile = _require_profile(table, profile_id)
    if placement not in profile.placements:
        raise Refused(Code.INVALID_ARGUMENT)
    if not _fits(table, state, profile, placement):
        raise Refused(Code.INSUFFICIENT_RESOURCES)
    instance = InstanceState(
        id=_choose_instance_id(table, state, placement), profile_id=profile_id, start=placement.start, size=placement.size
    )
    instances = tuple(sorted((*state.instances, instance), key=lambda one: one.id))
    return msgspec.structs.replace(state, instances=instances), instance


def _fits(table: MigTable, state: MigState, profile: MigProfile, placement: Placement) -> bool:
    for other in state.instances:
        if placement.start < other.start + other.size and other.start < placement.start + placement.size:
            return False
    if sum(other.profile_id == profile.info.id for other in state.instances) >= profile.info.instance_count:
        return False
    held = [_require_profile(table, other.profile_id).info for other in state.instances]
    for resource in _RESOURCES:
        there_is = max(getattr(any_profile.info, resource) for any_profile in table.profiles)
        if sum(getattr(info, resource) for info in (*held, profile.info)) > there_is:
            return False
    return True


def _choose_instance_id(table: MigTable, state: MigState, placement: Placement) -> int:
    """As the driver numbers them: 0 for the whole GPU, then halves, quarters, eighths; the lowest that is free."""
    share = table.memory_slices // placement.size
    used = {instance.id for instance in state.instances}
    free = [number for number in range(share - 1, 2 * share - 1) if number not in used]
    if not free:
        raise Refused(Code.INSUFFICIENT_RESOURCES)
    return free[0]


def plan_gpu_instance_gone(state: MigState, instance_id: int) -> tuple[MigState, None]:
    """The state without the instance, which has no compute instance any more."""
    instance = state.by_id(instance_id)
    if instance.compute:
        raise Refused(Code.IN_USE)
    return msgspec.structs.replace(state, instances=tuple(one for one in state.instances if one.id != instance_id)), None


def build_compute_profiles(table: MigTable, profile: MigProfile) -> Mapping[int, ComputeInstanceProfileInfo]:
    """The compute-instance profiles of a GPU instance, by NVML's number, which is also their id."""
    slices, whole = profile.info.slice_count, profile.info.multiprocessor_count
    profiles = {}
    for number, size in _COMPUTE_SIZES.items():
        if size > slices or (size == _ODD_SIZE and slices == _ODD_SIZE + 1):
            continue
        multiprocessors = whole if size == slices > 1 else size * table.slice_multiprocessors
        profiles[number] = ComputeInstanceProfileInfo(
            id=number, slice_count=size, instance_count=slices // size, multiprocessor_count=multiprocessors
        )
    if slices == 1 and whole > table.slice_multiprocessors:
        profiles[_ONE_SLICE_REV1] = ComputeInstanceProfileInfo(
            id=_ONE_SLICE_REV1, slice_count=1, instance_count=1, multiprocessor_count=whole
        )
    return profiles


def plan_compute_instance(gpu: MockGpu, state: MigState, instance_id: int, profile_id: int) -> tuple[MigState, ComputeState]:
    """The state with a compute instance of ``profile_id`` at the lowest free slices, and the compute instance."""
    table = _require_table(gpu)
    instance = state.by_id(instance_id)
    profile = _require_profile(table, instance.profile_id)
    info = build_compute_profiles(table, profile).get(profile_id)
    if info is None:
        raise Refused(Code.NOT_SUPPORTED)
    start = _find_compute_start(instance, profile.info.slice_count, info.slice_count)
    used = {one.id for one in instance.compute}
    number = next(candidate for candidate in range(len(used) + 1) if candidate not in used)
    compute = ComputeState(id=number, profile_id=profile_id, start=start, size=info.slice_count)
    grown = msgspec.structs.replace(instance, compute=tuple(sorted((*instance.compute, compute), key=lambda one: one.id)))
    return _replace_instance(state, grown), compute


def _find_compute_start(instance: InstanceState, slices: int, size: int) -> int:
    taken = {slot for one in instance.compute for slot in range(one.start, one.start + one.size)}
    for start in range(slices - size + 1):
        if taken.isdisjoint(range(start, start + size)):
            return start
    raise Refused(Code.INSUFFICIENT_RESOURCES)


def plan_compute_instance_gone(state: MigState, instance_id: int, compute_id: int) -> tuple[MigState, None]:
    """The state without the compute instance."""
    instance = state.by_id(instance_id)
    instance.by_id(compute_id)
    rest = tuple(one for one in instance.compute if one.id != compute_id)
    return _replace_instance(state, msgspec.structs.replace(instance, compute=rest)), None


def _replace_instance(state: MigState, changed: InstanceState) -> MigState:
    instances = tuple(changed if one.id == changed.id else one for one in state.instances)
    return msgspec.structs.replace(state, instances=instances)


def _require_table(gpu: MockGpu) -> MigTable:
    if gpu.board.mig is None:
        raise Refused(Code.NOT_SUPPORTED)
    return gpu.board.mig


def _require_profile(table: MigTable, profile_id: int) -> MigProfile:
    profile = table.by_id(profile_id)
    if profile is None:
        raise Refused(Code.NOT_SUPPORTED)
    return profile
