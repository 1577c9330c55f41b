"""What a pass says of MIG."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.nvml.library import Code, Placement
from driver.nvml.mock.faults import CallFails, GpuLost
from driver.nvml.mock.machine import write_faults
from driver.nvml.reader import read_machine
from driver.nvml.readings import ComputeInstanceReading, GpuInstanceReading, MigReading
from tests.unit.nvml.changed import Sysfs, open_library, read_changed, refuse


def mig_of(name: str, folder: Path) -> MigReading | None:
    return read_machine(open_library(name, folder), Sysfs()).gpus[0].mig


def test_a_gpu_without_mig_says_nothing(tmp_path: Path) -> None:
    assert mig_of("t4", tmp_path) is None


def test_hopper_tells_placements_with_the_mode_off(tmp_path: Path) -> None:
    found = mig_of("dgx-h100", tmp_path)
    assert found is not None
    assert (found.is_enabled, found.is_enabled_after_reset, found.instances, found.fault) == (False, False, (), "")
    assert {profile.info.id: len(profile.placements) for profile in found.profiles} == {
        19: 7,
        20: 7,
        15: 4,
        14: 3,
        9: 2,
        5: 1,
        0: 1,
    }


def test_ampere_tells_profiles_and_no_placements_with_the_mode_off(tmp_path: Path) -> None:
    found = mig_of("dgx-a100", tmp_path)
    assert found is not None
    assert len(found.profiles) == 7
    assert all(profile.placements == () for profile in found.profiles)


def test_instances_are_found_by_profile_half_made_ones_too(tmp_path: Path) -> None:
    library = open_library("dgx-h100", tmp_path)
    device = library.device_handle_by_index(0)
    library.device_set_mig_mode(device, enabled=True)
    library.device_create_gpu_instance_with_placement(device, 9, Placement(start=4, size=4))
    whole = library.device_create_gpu_instance_with_placement(device, 14, Placement(start=0, size=2))
    compute = library.gpu_instance_create_compute_instance(whole, 1)
    found = read_machine(library, Sysfs()).gpus[0].mig
    assert found is not None
    assert found.is_enabled
    assert found.instances == (
        GpuInstanceReading(
            id=3,
            profile_id=14,
            placement=Placement(start=0, size=2),
            compute=(
                ComputeInstanceReading(
                    id=0,
                    profile_id=1,
                    placement=Placement(start=0, size=2),
                    multiprocessor_count=32,
                    uuid=library.device_uuid(library.compute_instance_info(compute).device),
                ),
            ),
        ),
        GpuInstanceReading(id=1, profile_id=9, placement=Placement(start=4, size=4)),
    )


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.NO_PERMISSION])
@pytest.mark.parametrize(
    "method", ["device_gpu_instance_profile_info", "device_gpu_instance_possible_placements", "device_gpu_instances"]
)
def test_a_call_that_fails_is_not_taken_for_nothing_there(tmp_path: Path, method: str, code: Code) -> None:
    """What is absent then says nothing, and another pass is made soon."""
    library = open_library("dgx-h100", tmp_path)
    library.device_set_mig_mode(library.device_handle_by_index(0), enabled=True)
    reading = read_changed("dgx-h100", tmp_path, **{method: refuse(code)})
    assert reading.failures == ()
    found = reading.gpus[0].mig
    assert found is not None
    assert code.name in found.fault


@pytest.mark.parametrize("code", [Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT])
def test_a_profile_that_the_gpu_does_not_have_is_no_fault(tmp_path: Path, code: Code) -> None:
    found = read_changed("dgx-h100", tmp_path, device_gpu_instance_profile_info=refuse(code)).gpus[0].mig
    assert found is not None
    assert (found.profiles, found.fault) == ((), "")


def test_a_mode_that_is_not_told_is_no_gpu_without_mig(tmp_path: Path) -> None:
    """Such a GPU would be given out whole while it is in MIG mode."""
    found = read_changed("dgx-h100", tmp_path, device_mig_mode=refuse(Code.UNKNOWN)).gpus[0].mig
    assert found is not None
    assert (found.is_enabled, found.is_mode_known) == (False, False)
    assert "UNKNOWN" in found.fault


@pytest.mark.parametrize("code", [Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND])
def test_a_gpu_that_has_no_mode_cannot_do_mig(tmp_path: Path, code: Code) -> None:
    assert read_changed("dgx-h100", tmp_path, device_mig_mode=refuse(code)).gpus[0].mig is None


def test_a_gpu_that_is_lost_meanwhile_fails_alone(tmp_path: Path) -> None:
    reading = read_changed("dgx-h100", tmp_path, device_gpu_instance_profile_info=refuse(Code.GPU_IS_LOST))
    assert {failure.is_lost for failure in reading.failures} == {True}


def test_a_library_that_goes_down_meanwhile_says_nothing_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(NvmlError):
        read_changed("dgx-h100", tmp_path, device_gpu_instance_profile_info=refuse(Code.DRIVER_NOT_LOADED))


def test_a_lost_gpu_beside_it_changes_nothing(tmp_path: Path) -> None:
    library = open_library("dgx-h100", tmp_path)
    write_faults(tmp_path, [GpuLost(gpu=1), CallFails(call="nvmlDeviceGetBrand", code="UNKNOWN")])
    reading = read_machine(library, Sysfs())
    assert [gpu.mig is not None for gpu in reading.gpus] == [True] * 7
