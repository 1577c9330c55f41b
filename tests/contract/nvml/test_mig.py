"""MIG: what may be made, what is refused and with which code; the same from the mock and from the real backend over a stub."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from driver.nvml.library import (
    COMPUTE_INSTANCE_PROFILE_COUNT,
    GPU_INSTANCE_PROFILE_COUNT,
    Code,
    ComputeInstanceInfo,
    ComputeInstanceProfileInfo,
    Device,
    GpuInstance,
    GpuInstanceInfo,
    MigMode,
    NvmlLibrary,
    Placement,
)
from tests.contract.nvml.conftest import Backend
from tests.contract.nvml.test_answers import code_of, value_or_code

Open = Callable[[str], Backend]

WITH_MIG = ["dgx-h100", "dgx-a100", "a30", "rtx-pro-6000", "hgx-b200"]
ONE_G, ONE_G_ME, ONE_G_DOUBLE, TWO_G, THREE_G, FOUR_G, SEVEN_G = 19, 20, 15, 14, 9, 5, 0


@pytest.fixture
def gpu(open_backend: Open) -> tuple[NvmlLibrary, Device]:
    """An H100 with MIG on and nothing made."""
    library = open_backend("dgx-h100").library
    device = library.device_handle_by_index(0)
    assert library.device_set_mig_mode(device, enabled=True) is Code.SUCCESS
    return library, device


def create(gpu: tuple[NvmlLibrary, Device], profile_id: int, start: int) -> GpuInstance:
    library, device = gpu
    sizes = {placement.start: placement for placement in library.device_gpu_instance_possible_placements(device, profile_id)}
    placement = sizes.get(start, Placement(start=start, size=1))
    return library.device_create_gpu_instance_with_placement(device, profile_id, placement)


@pytest.mark.parametrize("name", WITH_MIG)
def test_every_profile_is_as_the_table_says(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    library, table = backend.library, backend.machine.gpus[0].board.mig
    assert table is not None
    device = library.device_handle_by_index(0)
    by_number = {profile.number: profile.info for profile in table.profiles}
    for number in range(GPU_INSTANCE_PROFILE_COUNT):
        answer = value_or_code(partial(library.device_gpu_instance_profile_info, device, number))
        assert answer == by_number.get(number, "NOT_SUPPORTED")
    assert code_of(lambda: library.device_gpu_instance_profile_info(device, GPU_INSTANCE_PROFILE_COUNT)) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["dgx-h100", "rtx-pro-6000", "hgx-b200"])
def test_placements_are_as_the_table_says(open_backend: Open, name: str) -> None:
    backend = open_backend(name)
    library, table = backend.library, backend.machine.gpus[0].board.mig
    assert table is not None
    device = library.device_handle_by_index(0)
    for profile in table.profiles:
        assert library.device_gpu_instance_possible_placements(device, profile.info.id) == profile.placements
    assert code_of(lambda: library.device_gpu_instance_possible_placements(device, 99)) == "NOT_SUPPORTED"


def test_hopper_switches_the_mode_at_once(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    device = library.device_handle_by_index(0)
    assert library.device_mig_mode(device) == MigMode(is_enabled=False, is_enabled_after_reset=False)
    assert library.device_set_mig_mode(device, enabled=True) is Code.SUCCESS
    assert library.device_mig_mode(device) == MigMode(is_enabled=True, is_enabled_after_reset=True)
    assert library.device_mig_mode(library.device_handle_by_index(1)).is_enabled is False


def test_ampere_switches_the_mode_at_the_next_reset(open_backend: Open) -> None:
    """B45: the call succeeds, the activation says what is still to do."""
    library = open_backend("dgx-a100").library
    device = library.device_handle_by_index(0)
    assert library.device_set_mig_mode(device, enabled=True) is Code.RESET_REQUIRED
    assert library.device_mig_mode(device) == MigMode(is_enabled=False, is_enabled_after_reset=True)
    assert code_of(lambda: library.device_gpu_instance_possible_placements(device, ONE_G)) == "NOT_SUPPORTED"
    assert library.device_set_mig_mode(device, enabled=False) is Code.SUCCESS


def test_a_gpu_without_mig_supports_none_of_it(open_backend: Open) -> None:
    library = open_backend("dgx-1v").library
    device = library.device_handle_by_index(0)
    placement = Placement(start=0, size=1)
    for call in (
        lambda: library.device_mig_mode(device),
        lambda: library.device_set_mig_mode(device, enabled=True),
        lambda: library.device_gpu_instance_profile_info(device, 0),
        lambda: library.device_gpu_instance_possible_placements(device, ONE_G),
        lambda: library.device_create_gpu_instance_with_placement(device, ONE_G, placement),
        lambda: library.device_gpu_instances(device, ONE_G),
        lambda: library.device_gpu_instance_by_id(device, 0),
    ):
        assert code_of(call) == "NOT_SUPPORTED"


def test_nothing_is_made_while_the_mode_is_off(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    device = library.device_handle_by_index(0)
    assert code_of(lambda: create((library, device), ONE_G, 0)) == "NOT_SUPPORTED"


def test_an_instance_is_made_listed_and_removed(gpu: tuple[NvmlLibrary, Device]) -> None:
    library, device = gpu
    made = create(gpu, THREE_G, 4)
    info = library.gpu_instance_info(made)
    assert info == GpuInstanceInfo(id=1, profile_id=THREE_G, placement=Placement(start=4, size=4))
    assert [library.gpu_instance_info(one) for one in library.device_gpu_instances(device, THREE_G)] == [info]
    assert library.device_gpu_instances(device, ONE_G) == ()
    assert library.gpu_instance_info(library.device_gpu_instance_by_id(device, 1)) == info
    library.gpu_instance_destroy(made)
    assert library.device_gpu_instances(device, THREE_G) == ()
    assert code_of(lambda: library.device_gpu_instance_by_id(device, 1)) == "NOT_FOUND"
    assert code_of(lambda: library.gpu_instance_destroy(made)) == "NOT_FOUND"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((THREE_G, 0), (FOUR_G, 0), id="3g at 0 forbids 4g"),
        pytest.param((ONE_G, 3), (FOUR_G, 0), id="1g at 3 forbids 4g"),
        pytest.param((SEVEN_G, 0), (ONE_G, 6), id="7g forbids all"),
        pytest.param((ONE_G_DOUBLE, 6), (THREE_G, 4), id="1g with double memory at 6 forbids 3g at 4"),
        pytest.param((ONE_G_ME, 0), (ONE_G_ME, 1), id="media engines are there once"),
        pytest.param((ONE_G, 0), (ONE_G, 0), id="the same place"),
        pytest.param((FOUR_G, 0), (TWO_G, 2), id="inside another"),
    ],
)
def test_what_does_not_fit_has_insufficient_resources(
    gpu: tuple[NvmlLibrary, Device], first: tuple[int, int], second: tuple[int, int]
) -> None:
    create(gpu, *first)
    assert code_of(lambda: create(gpu, *second)) == "INSUFFICIENT_RESOURCES"


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param([(FOUR_G, 0), (THREE_G, 4)], id="4g and 3g"),
        pytest.param([(THREE_G, 0), (THREE_G, 4)], id="3g twice uses all memory"),
        pytest.param([(ONE_G, start) for start in range(7)], id="seven 1g"),
        pytest.param([(ONE_G_DOUBLE, start) for start in (0, 2, 4, 6)], id="four 1g with double memory"),
        pytest.param([(TWO_G, 0), (TWO_G, 2), (TWO_G, 4), (ONE_G_DOUBLE, 6)], id="slice 7 by 1g with double memory"),
        pytest.param([(ONE_G_ME, 6), (ONE_G, 0)], id="media engines beside a plain one"),
    ],
)
def test_what_fits_is_made(gpu: tuple[NvmlLibrary, Device], layout: list[tuple[int, int]]) -> None:
    library, _ = gpu
    placements = [library.gpu_instance_info(create(gpu, profile_id, start)).placement.start for profile_id, start in layout]
    assert placements == [start for _, start in layout]


def test_a_placement_that_the_profile_does_not_have_is_an_invalid_argument(gpu: tuple[NvmlLibrary, Device]) -> None:
    library, device = gpu
    for profile_id, start, size in ((THREE_G, 2, 4), (ONE_G, 7, 1), (ONE_G, 0, 2), (TWO_G, 1, 2)):
        placement = Placement(start=start, size=size)
        call = partial(library.device_create_gpu_instance_with_placement, device, profile_id, placement)
        assert code_of(call) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["dgx-h100", "hgx-b200", "rtx-pro-6000"])
def test_every_profile_has_a_compute_instance_with_all_its_multiprocessors(open_backend: Open, name: str) -> None:
    """B43: whatever is published can be prepared, by asking the GPU and not a table."""
    backend = open_backend(name)
    library, table = backend.library, backend.machine.gpus[0].board.mig
    assert table is not None
    device = library.device_handle_by_index(0)
    library.device_set_mig_mode(device, enabled=True)
    for profile in table.profiles:
        instance = create((library, device), profile.info.id, profile.placements[-1].start)
        answers = [
            value_or_code(partial(library.gpu_instance_compute_instance_profile_info, instance, number))
            for number in range(COMPUTE_INSTANCE_PROFILE_COUNT)
        ]
        infos = [answer for answer in answers if isinstance(answer, ComputeInstanceProfileInfo)]
        whole = [info.id for info in infos if info.multiprocessor_count == profile.info.multiprocessor_count]
        assert len(whole) == 1
        compute = library.gpu_instance_create_compute_instance(instance, whole[0])
        assert library.compute_instance_info(compute).placement == Placement(start=0, size=profile.info.slice_count)
        library.compute_instance_destroy(compute)
        library.gpu_instance_destroy(instance)


def test_compute_instances_share_a_gpu_instance_by_slices(gpu: tuple[NvmlLibrary, Device]) -> None:
    library, _ = gpu
    instance = create(gpu, THREE_G, 0)
    first = library.gpu_instance_create_compute_instance(instance, 0)
    second = library.gpu_instance_create_compute_instance(instance, 1)
    infos = [library.compute_instance_info(one) for one in (first, second)]
    assert [(info.id, info.placement) for info in infos] == [(0, Placement(start=0, size=1)), (1, Placement(start=1, size=2))]
    assert code_of(lambda: library.gpu_instance_create_compute_instance(instance, 0)) == "INSUFFICIENT_RESOURCES"
    assert code_of(lambda: library.gpu_instance_create_compute_instance(instance, 3)) == "NOT_SUPPORTED"
    assert code_of(lambda: library.gpu_instance_create_compute_instance(instance, 8)) == "NOT_SUPPORTED"
    assert len(library.gpu_instance_compute_instances(instance, 1)) == 1
    library.compute_instance_destroy(first)
    assert library.gpu_instance_compute_instances(instance, 0) == ()
    assert code_of(lambda: library.compute_instance_info(first)) == "NOT_FOUND"


def test_a_gpu_instance_with_a_compute_instance_is_in_use(gpu: tuple[NvmlLibrary, Device]) -> None:
    library, device = gpu
    instance = create(gpu, TWO_G, 0)
    compute = library.gpu_instance_create_compute_instance(instance, 1)
    assert code_of(lambda: library.gpu_instance_destroy(instance)) == "IN_USE"
    assert code_of(lambda: library.device_set_mig_mode(device, enabled=False)) == "IN_USE"
    library.compute_instance_destroy(compute)
    library.gpu_instance_destroy(instance)
    assert library.device_set_mig_mode(device, enabled=False) is Code.SUCCESS


def test_a_gpu_instance_without_a_compute_instance_is_no_mig_device(gpu: tuple[NvmlLibrary, Device]) -> None:
    """What a crash between the two steps leaves: it is found by its profile, not among the MIG devices."""
    library, device = gpu
    instance = create(gpu, TWO_G, 0)
    legacy = f"MIG-{library.device_uuid(device)}/{library.gpu_instance_info(instance).id}/0"
    assert code_of(lambda: library.device_handle_by_uuid(legacy)) == "NOT_FOUND"
    assert len(library.device_gpu_instances(device, TWO_G)) == 1


def test_a_mig_device_is_found_by_both_kinds_of_uuid(gpu: tuple[NvmlLibrary, Device]) -> None:
    """B35: both MIG styles."""
    library, device = gpu
    instance = create(gpu, TWO_G, 2)
    compute = library.gpu_instance_create_compute_instance(instance, 1)
    info: ComputeInstanceInfo = library.compute_instance_info(compute)
    uuid = library.device_uuid(info.device)
    assert uuid.startswith("MIG-")
    gi = library.gpu_instance_info(instance).id
    legacy = f"MIG-{library.device_uuid(device)}/{gi}/{info.id}"
    for name in (uuid, legacy):
        assert library.device_uuid(library.device_handle_by_uuid(name)) == uuid
    library.compute_instance_destroy(compute)
    assert code_of(lambda: library.device_handle_by_uuid(uuid)) == "NOT_FOUND"
