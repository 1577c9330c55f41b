"""The MIG rules: whatever is tried in whatever order, nothing is given out twice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.nvml.library import Code, Placement
from driver.nvml.mock import read_mock_machine
from driver.nvml.mock.mig import (
    ComputeState,
    InstanceState,
    MigState,
    Refused,
    build_compute_profiles,
    build_first_state,
    build_state_after_boot,
    plan_compute_instance,
    plan_compute_instance_gone,
    plan_gpu_instance,
    plan_gpu_instance_gone,
    plan_mode,
)
from driver.nvml.mock.model import MigTable, MockGpu

GPUS = {name: read_mock_machine(name).gpus[0] for name in ("dgx-a100", "dgx-h100", "hgx-b200", "a30", "rtx-pro-6000")}
ON = MigState(is_enabled=True, is_enabled_after_reset=True)


def table_of(gpu: MockGpu) -> MigTable:
    assert gpu.board.mig is not None
    return gpu.board.mig


def create(gpu: MockGpu, state: MigState, profile_id: int, start: int) -> MigState:
    profile = table_of(gpu).by_id(profile_id)
    size = profile.placements[0].size if profile is not None else 1
    after, _ = plan_gpu_instance(gpu, state, profile_id, Placement(start=start, size=size))
    return after


def refusal(gpu: MockGpu, state: MigState, profile_id: int, start: int) -> Code:
    with pytest.raises(Refused) as caught:
        create(gpu, state, profile_id, start)
    return caught.value.code


def check_nothing_is_given_out_twice(gpu: MockGpu, state: MigState) -> None:
    table = table_of(gpu)
    profiles = [table.by_id(instance.profile_id) for instance in state.instances]
    infos = [profile.info for profile in profiles if profile is not None]
    taken = [slot for one in state.instances for slot in range(one.start, one.start + one.size)]
    assert len(set(taken)) == len(taken)
    assert all(slot < table.memory_slices for slot in taken)
    assert sum(info.slice_count for info in infos) <= table.compute_slices
    memory_bytes = gpu.board.memory_bytes
    assert memory_bytes is not None
    assert sum(info.memory_size_mib for info in infos) * 1024 * 1024 <= memory_bytes
    for resource in ("multiprocessor_count", "copy_engine_count", "decoder_count", "encoder_count", "jpeg_count", "ofa_count"):
        assert sum(getattr(info, resource) for info in infos) <= max(getattr(one.info, resource) for one in table.profiles)
    assert len({one.id for one in state.instances}) == len(state.instances)
    for instance, info in zip(state.instances, infos, strict=True):
        slots = [slot for one in instance.compute for slot in range(one.start, one.start + one.size)]
        assert len(set(slots)) == len(slots)
        assert all(slot < info.slice_count for slot in slots)
        assert len({one.id for one in instance.compute}) == len(instance.compute)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "destroy", "compute", "compute gone", "mode", "boot"]),
        st.sampled_from([0, 5, 6, 9, 14, 15, 19, 20, 21, 32, 35, 47, 64, 65, 66, 67, 99]),
        st.integers(0, 12),
        st.integers(0, 9),
    ),
    max_size=40,
)


def play(gpu: MockGpu, state: MigState, step: tuple[str, int, int, int]) -> MigState:
    kind, profile_id, start, number = step
    match kind:
        case "create":
            return create(gpu, state, profile_id, start)
        case "destroy":
            return plan_gpu_instance_gone(state, start)[0]
        case "compute":
            return plan_compute_instance(gpu, state, start, number)[0]
        case "compute gone":
            return plan_compute_instance_gone(state, start, number)[0]
        case "mode":
            return plan_mode(gpu, state, is_enabled=number > 3)[0]
        case _:
            return build_state_after_boot(gpu, state) if number == 0 else state


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(GPUS)), STEPS)
def test_nothing_is_given_out_twice_whatever_is_tried(name: str, steps: list[tuple[str, int, int, int]]) -> None:
    gpu, state = GPUS[name], ON
    for step in steps:
        try:
            state = play(gpu, state, step)
        except Refused:
            continue
        check_nothing_is_given_out_twice(gpu, state)


@pytest.mark.parametrize("name", sorted(GPUS))
@pytest.mark.parametrize("order", ["low first", "high first"])
def test_every_profile_is_made_as_often_as_its_count_says(name: str, order: str) -> None:
    gpu = GPUS[name]
    for profile in table_of(gpu).profiles:
        state, made = ON, 0
        places = profile.placements if order == "low first" else profile.placements[::-1]
        for placement in places:
            try:
                state = create(gpu, state, profile.info.id, placement.start)
                made += 1
            except Refused as err:
                assert err.code is Code.INSUFFICIENT_RESOURCES  # noqa: PT017 - either end is right
        assert made == profile.info.instance_count


@pytest.mark.parametrize("order", list(itertools.permutations([(9, 4), (14, 0), (19, 2), (19, 3)])))
def test_a_layout_fits_in_every_order_when_its_places_are_kept(order: tuple[tuple[int, int], ...]) -> None:
    """B41: 3g + 2g + 2x1g."""
    state = ON
    for profile_id, start in order:
        state = create(GPUS["dgx-a100"], state, profile_id, start)
    assert len(state.instances) == 4


def test_four_double_memory_slices_leave_no_room_for_a_small_one() -> None:
    """B41: 4x 1g.10gb uses all eight memory slices of an A100."""
    gpu, state = GPUS["dgx-a100"], ON
    for start in (0, 2, 4, 6):
        state = create(gpu, state, 15, start)
    assert {refusal(gpu, state, 19, start) for start in range(7)} == {Code.INSUFFICIENT_RESOURCES}


def test_all_media_engines_in_one_instance_leave_instances_without_any() -> None:
    """RTX PRO 6000: +me.all takes every decoder, so that only -me fits beside it."""
    gpu = GPUS["rtx-pro-6000"]
    state = create(gpu, ON, 65, 0)
    assert refusal(gpu, state, 14, 3) is Code.INSUFFICIENT_RESOURCES
    assert len(create(gpu, state, 67, 3).instances) == 2


@pytest.mark.parametrize(
    ("profile_id", "start", "instance_id"), [(0, 0, 0), (9, 4, 1), (5, 0, 1), (14, 4, 3), (15, 6, 3), (19, 6, 7), (20, 0, 7)]
)
def test_instances_are_numbered_as_the_driver_does(profile_id: int, start: int, instance_id: int) -> None:
    assert create(GPUS["dgx-h100"], ON, profile_id, start).instances[0].id == instance_id


def test_a_number_that_is_free_again_is_used_again() -> None:
    gpu = GPUS["dgx-h100"]
    state = create(gpu, create(gpu, ON, 19, 0), 19, 1)
    state, _ = plan_gpu_instance_gone(state, 7)
    assert [one.id for one in create(gpu, state, 19, 5).instances] == [7, 8]


@pytest.mark.parametrize(
    ("name", "profile_id", "sizes"),
    [
        ("dgx-a100", 19, {0: (1, 14)}),
        ("dgx-a100", 15, {0: (1, 14)}),
        ("dgx-a100", 5, {0: (1, 14), 1: (2, 28), 3: (4, 56)}),
        ("dgx-a100", 0, {0: (1, 14), 1: (2, 28), 2: (3, 42), 3: (4, 56), 4: (7, 98)}),
        ("dgx-h100", 15, {0: (1, 16), 7: (1, 26)}),
        ("dgx-h100", 9, {0: (1, 16), 1: (2, 32), 2: (3, 60)}),
        ("hgx-b200", 15, {0: (1, 18), 7: (1, 30)}),
        ("a30", 0, {0: (1, 14), 1: (2, 28), 3: (4, 56)}),
    ],
)
def test_compute_profiles_are_those_of_the_gpu_instance(name: str, profile_id: int, sizes: dict[int, tuple[int, int]]) -> None:
    """B43, and NVIDIA's #1454: one slice with double memory has its multiprocessors in a profile of its own."""
    table = table_of(GPUS[name])
    profile = table.by_id(profile_id)
    assert profile is not None
    profiles = build_compute_profiles(table, profile)
    assert {number: (info.slice_count, info.multiprocessor_count) for number, info in profiles.items()} == sizes


def test_a_boot_takes_instances_and_hoppers_mode_and_makes_amperes_pending_mode_current() -> None:
    hopper, ampere = GPUS["dgx-h100"], GPUS["dgx-a100"]
    assert build_state_after_boot(hopper, create(hopper, ON, 19, 0)) == MigState()
    assert build_state_after_boot(ampere, create(ampere, ON, 19, 0)) == ON
    pending, code = plan_mode(ampere, MigState(), is_enabled=True)
    assert code is Code.RESET_REQUIRED
    assert build_state_after_boot(ampere, pending) == ON


def test_what_the_machine_file_made_is_there_with_compute_instances() -> None:
    machine = read_mock_machine("dgx-h100")
    gpu = MockGpu(
        **{field: getattr(machine.gpus[0], field) for field in MockGpu.__slots__ if not field.startswith("mig_")},
        mig_is_enabled=True,
        mig_instances=((15, 0), (9, 4)),
    )
    assert build_first_state(gpu) == MigState(
        is_enabled=True,
        is_enabled_after_reset=True,
        instances=(
            InstanceState(id=1, profile_id=9, start=4, size=4, compute=(ComputeState(id=0, profile_id=2, start=0, size=3),)),
            InstanceState(id=3, profile_id=15, start=0, size=2, compute=(ComputeState(id=0, profile_id=7, start=0, size=1),)),
        ),
    )
