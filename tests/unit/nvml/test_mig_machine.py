"""Changes to MIG: read back before they count, and the compute instance chosen by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.nvml.library import Code, ComputeInstanceProfileInfo, GpuInstanceProfileInfo, NvmlLibrary, Placement
from driver.nvml.mig_machine import GpuMig, MigMachine, choose_compute_profile
from driver.nvml.mock import read_machine_names, read_mock_machine
from driver.nvml.mock.faults import CallFails
from driver.nvml.mock.machine import reboot, write_faults
from tests.unit.nvml.changed import open_library
from tests.unit.topology.machines import mig_profiles

H200 = "dgx-h200"


@contextmanager
def opened_gpu(name: str, folder: Path) -> Iterator[GpuMig]:
    library = open_library(name, folder)

    @contextmanager
    def opened() -> Iterator[NvmlLibrary]:
        yield library

    with MigMachine(opened).open_gpu(library.device_uuid(library.device_handle_by_index(0))) as gpu:
        yield gpu


WITH_MIG = [name for name in read_machine_names() if read_mock_machine(name).gpus[0].board.mig is not None]


@pytest.mark.parametrize("name", sorted({read_mock_machine(name).gpus[0].board.product: name for name in WITH_MIG}.values()))
def test_every_placement_of_every_profile_can_be_made_and_removed(name: str, tmp_path: Path) -> None:
    """B43, #1480: every published MIG device can be prepared, and has the multiprocessors that it was offered with."""
    with opened_gpu(name, tmp_path) as gpu:
        gpu.library.device_set_mig_mode(gpu.device, enabled=True)
        if not gpu.read().is_enabled:
            reboot(tmp_path)  # Ampere's mode waits for it
        for profile in gpu.read().profiles:
            for placement in profile.placements:
                instance = gpu.create_gpu_instance(profile.info.id, placement)
                assert instance.compute == ()
                (compute,) = gpu.create_compute_instance(instance.id, profile.info).compute
                assert compute.multiprocessor_count == profile.info.multiprocessor_count
                gpu.destroy_compute_instances(instance.id)
                gpu.destroy_gpu_instance(instance.id)
                assert gpu.read().instances == ()


def test_destroying_what_is_gone_is_success(tmp_path: Path) -> None:
    with opened_gpu(H200, tmp_path) as gpu:
        gpu.switch_mode(enabled=True)
        gpu.destroy_compute_instances(5)
        gpu.destroy_gpu_instance(5)


def test_a_mode_that_waits_for_a_reset_is_an_error(tmp_path: Path) -> None:
    """B45, #883: the call succeeds, and the activation does not."""
    with opened_gpu("dgx-a100", tmp_path) as gpu, pytest.raises(NvmlError, match=r"activation.*RESET_REQUIRED"):
        gpu.switch_mode(enabled=True)


def test_a_reading_that_is_not_whole_is_an_error_here(tmp_path: Path) -> None:
    """An instance in the way must not be overlooked."""
    with opened_gpu(H200, tmp_path) as gpu:
        gpu.switch_mode(enabled=True)
        write_faults(tmp_path, [CallFails(call="nvmlDeviceGetGpuInstances", code="UNKNOWN")])
        with pytest.raises(NvmlError, match="while MIG instances were listed"):
            gpu.read()


def test_a_gpu_that_is_not_there_is_said(tmp_path: Path) -> None:
    library = open_library(H200, tmp_path)

    @contextmanager
    def opened() -> Iterator[NvmlLibrary]:
        yield library

    with pytest.raises(NvmlError) as caught, MigMachine(opened).open_gpu("GPU-none"):
        pass
    assert caught.value.code == Code.NOT_FOUND


def compute(number: int, slices: int, multiprocessors: int) -> ComputeInstanceProfileInfo:
    return ComputeInstanceProfileInfo(id=number, slice_count=slices, instance_count=1, multiprocessor_count=multiprocessors)


def gpu_profile(table: str, profile_id: int) -> GpuInstanceProfileInfo:
    return next(profile.info for profile in mig_profiles(table) if profile.info.id == profile_id)


CHOICES = {
    "7_SLICE before 7_SLICE_NVL": ("a100-40gb", 0, [compute(0, 1, 14), compute(4, 7, 98), compute(8, 7, 98)], 4),
    "B300's 1g of double memory has a profile of its own": ("b300", 15, [compute(0, 1, 18), compute(7, 1, 30)], 7),
    "the one of a slice": ("h100-80gb", 19, [compute(0, 1, 16)], 0),
    "by multiprocessors, whatever the slices are called": ("h100-80gb", 9, [compute(1, 2, 32), compute(5, 6, 60)], 5),
    "the right slices of two that are equal": ("h100-80gb", 9, [compute(1, 4, 60), compute(2, 3, 60)], 2),
    "the largest where none is exact": ("h100-80gb", 9, [compute(0, 1, 16), compute(1, 2, 32)], 1),
    "none that is larger": ("h100-80gb", 19, [compute(0, 1, 17), compute(1, 2, 32)], None),
    "none at all": ("h100-80gb", 19, [], None),
}


@pytest.mark.parametrize(("table", "profile_id", "there", "chosen"), CHOICES.values(), ids=CHOICES.keys())
def test_the_compute_instance_is_chosen_by_numbers(
    table: str, profile_id: int, there: list[ComputeInstanceProfileInfo], chosen: int | None
) -> None:
    """#1454, #1480: never by a name, of which two may be one."""
    found = choose_compute_profile(there, gpu_profile(table, profile_id))
    assert (None if found is None else found.id) == chosen


def test_an_instance_that_is_another_than_asked_for_is_an_error(tmp_path: Path) -> None:
    with opened_gpu(H200, tmp_path) as gpu:
        gpu.switch_mode(enabled=True)
        made = gpu.library.device_create_gpu_instance_with_placement(gpu.device, 19, Placement(start=0, size=1))

        class Elsewhere:
            """A driver that puts it where it likes."""

            def __getattr__(self, name: str) -> object:
                return getattr(gpu.library, name)

            def device_create_gpu_instance_with_placement(self, *_: object) -> object:
                return made

        wrong = GpuMig(Elsewhere(), gpu.device)  # type: ignore[arg-type]
        with pytest.raises(NvmlError, match="another instance came of it"):
            wrong.create_gpu_instance(9, Placement(start=4, size=4))
