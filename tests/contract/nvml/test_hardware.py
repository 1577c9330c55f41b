"""The contract on a real GPU, where there is one: reads alone, nothing is changed."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from driver.nvml.enums import EventType
from driver.nvml.library import GPU_INSTANCE_PROFILE_COUNT, GpuInstanceProfileInfo, NvmlLibrary
from driver.nvml.reader import read_machine
from driver.nvml.readings import PcieLevel
from tests.contract.nvml.test_answers import code_of, value_or_code
from tests.contract.nvml.test_real import NoSysfs

pytestmark = pytest.mark.gpu


def test_every_gpu_is_read(hardware: NvmlLibrary) -> None:
    reading = read_machine(hardware, NoSysfs())
    assert reading.failures == ()
    assert len(reading.gpus) == hardware.device_count() > 0
    for gpu in reading.gpus:
        assert gpu.brand is not None
        assert gpu.architecture is not None
        assert gpu.cuda_compute_capability is not None


def test_every_gpu_is_found_by_uuid_and_by_address(hardware: NvmlLibrary) -> None:
    for gpu in read_machine(hardware, NoSysfs()).gpus:
        assert hardware.device_uuid(hardware.device_handle_by_uuid(gpu.uuid)) == gpu.uuid
        assert hardware.device_uuid(hardware.device_handle_by_pci_bus_id(str(gpu.pci))) == gpu.uuid


def test_levels_are_known_and_the_same_from_both_ends(hardware: NvmlLibrary) -> None:
    devices = [hardware.device_handle_by_index(index) for index in range(hardware.device_count())]
    for first, second in itertools.combinations(devices, 2):
        level = hardware.device_topology_common_ancestor(first, second)
        assert level == hardware.device_topology_common_ancestor(second, first)
        assert PcieLevel(level) is not PcieLevel.UNKNOWN


def test_wrong_uuids_and_indices_are_refused(hardware: NvmlLibrary) -> None:
    assert code_of(lambda: hardware.device_handle_by_uuid("GPU-00000000-0000-0000-0000-000000000000")) == "NOT_FOUND"
    assert code_of(lambda: hardware.device_handle_by_index(hardware.device_count())) == "INVALID_ARGUMENT"


def test_mig_profiles_fit_their_placements(hardware: NvmlLibrary) -> None:
    for index in range(hardware.device_count()):
        device = hardware.device_handle_by_index(index)
        for number in range(GPU_INSTANCE_PROFILE_COUNT):
            info = value_or_code(partial(hardware.device_gpu_instance_profile_info, device, number))
            if not isinstance(info, GpuInstanceProfileInfo):
                assert info in {"NOT_SUPPORTED", "INVALID_ARGUMENT"}
                continue
            placements = value_or_code(partial(hardware.device_gpu_instance_possible_placements, device, info.id))
            assert placements == "NOT_SUPPORTED" or isinstance(placements, tuple)


def test_a_wait_for_events_ends_without_one(hardware: NvmlLibrary) -> None:
    event_set = hardware.event_set_create()
    device = hardware.device_handle_by_index(0)
    if hardware.device_supported_event_types(device) & EventType.XID_CRITICAL:
        hardware.device_register_events(device, EventType.XID_CRITICAL, event_set)
        assert hardware.event_set_wait(event_set, 100) is None
    hardware.event_set_free(event_set)
