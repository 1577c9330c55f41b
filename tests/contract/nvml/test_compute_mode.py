"""Compute modes: what one process may keep from all others on a GPU, from the mock and from the real backend alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver.errors import NvmlError
from driver.nvml.enums import ComputeMode
from driver.nvml.library import GPU_INSTANCE_PROFILE_COUNT, NvmlLibrary
from tests.contract.nvml.conftest import Backend

Open = Callable[[str], Backend]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(NvmlError) as caught:
        call()
    return caught.value.name


def test_a_gpu_has_the_default_mode_until_another_is_set(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    first, second = library.device_handle_by_index(0), library.device_handle_by_index(1)
    assert library.device_compute_mode(first) == ComputeMode.DEFAULT
    library.device_set_compute_mode(first, ComputeMode.EXCLUSIVE_PROCESS)
    library.device_set_compute_mode(first, ComputeMode.EXCLUSIVE_PROCESS)
    assert [library.device_compute_mode(each) for each in (first, second)] == [
        ComputeMode.EXCLUSIVE_PROCESS,
        ComputeMode.DEFAULT,
    ]
    library.device_set_compute_mode(first, ComputeMode.DEFAULT)
    assert library.device_compute_mode(first) == ComputeMode.DEFAULT


@pytest.mark.parametrize("mode", [1, 4], ids=["taken away", "unknown"])
def test_a_mode_that_is_none_is_refused(open_backend: Open, mode: int) -> None:
    library = open_backend("t4").library
    device = library.device_handle_by_index(0)
    assert refusal(lambda: library.device_set_compute_mode(device, mode)) == "INVALID_ARGUMENT"
    assert library.device_compute_mode(device) == ComputeMode.DEFAULT


def test_a_gpu_in_mig_mode_and_its_devices_take_no_other_mode(open_backend: Open) -> None:
    library = open_backend("dgx-h100").library
    gpu = library.device_handle_by_index(0)
    library.device_set_mig_mode(gpu, enabled=True)
    assert refusal(lambda: library.device_set_compute_mode(gpu, ComputeMode.EXCLUSIVE_PROCESS)) == "NOT_SUPPORTED"
    profile = next(info for number in range(GPU_INSTANCE_PROFILE_COUNT) if (info := _profile(library, gpu, number)))
    placement = library.device_gpu_instance_possible_placements(gpu, profile)[0]
    instance = library.device_create_gpu_instance_with_placement(gpu, profile, placement)
    compute = library.gpu_instance_create_compute_instance(instance, 0)
    mig = library.compute_instance_info(compute).device
    assert refusal(lambda: library.device_set_compute_mode(mig, ComputeMode.DEFAULT)) == "NOT_SUPPORTED"
    library.compute_instance_destroy(compute)
    library.gpu_instance_destroy(instance)
    library.device_set_mig_mode(gpu, enabled=False)


def _profile(library: NvmlLibrary, gpu: object, number: int) -> int | None:
    try:
        return library.device_gpu_instance_profile_info(gpu, number).id  # type: ignore[arg-type]  # a handle
    except NvmlError:
        return None
