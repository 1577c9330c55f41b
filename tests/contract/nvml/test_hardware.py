"""The contract on a real GPU, where there is one: reads alone, nothing is changed.

Tests that print say what this GPU and driver have: ``pytest -m gpu -rP tests/contract/nvml/test_hardware.py`` shows it.
"""

# ruff: noqa: T201 - what a GPU has is printed for whoever runs this on one
from __future__ import annotations

import itertools
from functools import partial

import pytest

from driver.health.classify import list_findings
from driver.health.observations import Looked
from driver.node.clock import read_now
from driver.node.health.listener import LOOK_DEADLINE_S
from driver.node.health.watched import WANTED, create_event_set, register
from driver.nvml.enums import ClocksReason, EventType, RecoveryAction
from driver.nvml.figures import read_figures
from driver.nvml.library import GPU_INSTANCE_PROFILE_COUNT, Device, GpuInstanceProfileInfo, NvmlLibrary, RemappedRows
from driver.nvml.reader import read_machine
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.readings import PcieLevel
from tests.contract.nvml.test_answers import code_of, value_or_code
from tests.contract.nvml.test_condition import CONDITION, FIGURES
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


def test_every_gpu_is_found_by_uuid(hardware: NvmlLibrary) -> None:
    for gpu in read_machine(hardware, NoSysfs()).gpus:
        assert hardware.device_uuid(hardware.device_handle_by_uuid(gpu.uuid)) == gpu.uuid


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


ABSENT = {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"}


def list_gpus(library: NvmlLibrary) -> list[Device]:
    return [library.device_handle_by_index(index) for index in range(library.device_count())]


def test_a_gpu_tells_its_condition_or_that_it_has_none_such(hardware: NvmlLibrary) -> None:
    """Anything else than the value and the two words for its absence would be a surprise to ``driver.node``."""
    print("driver", hardware.system_driver_version())
    for index, device in enumerate(list_gpus(hardware)):
        told = {method: value_or_code(partial(getattr(hardware, method), device)) for method in CONDITION}
        for method, value in told.items():
            print(f"GPU {index} {method} = {value!r}")
            assert isinstance(value, int | RemappedRows) or value in ABSENT
        action, reasons = told["device_gpu_recovery_action"], told["device_clocks_event_reasons"]
        print(f"GPU {index} {RecoveryAction(action) if isinstance(action, int) else action!r}")
        print(f"GPU {index} {ClocksReason(reasons & sum(ClocksReason)) if isinstance(reasons, int) else reasons!r}")


def test_the_recovery_action_is_there_since_driver_565(hardware: NvmlLibrary) -> None:
    """As the mock has it; NOT_SUPPORTED here means that its cut-off, or its Ampere, is wrong for this GPU."""
    if int(hardware.system_driver_version().split(".")[0]) < 565:
        pytest.skip("an older driver")
    actions = [value_or_code(partial(hardware.device_gpu_recovery_action, device)) for device in list_gpus(hardware)]
    print(actions)
    assert set(actions) <= set(RecoveryAction)


def test_a_gpu_tells_its_figures_within_what_can_be(hardware: NvmlLibrary) -> None:
    for index, device in enumerate(list_gpus(hardware)):
        for method in FIGURES:
            value = value_or_code(partial(getattr(hardware, method), device))
            print(f"GPU {index} {method} = {value!r}")
            assert isinstance(value, int) or value in ABSENT
    uuids = [gpu.uuid for gpu in read_machine(hardware, NoSysfs()).gpus]
    for figures in read_figures(hardware, uuids, ReadingThreads(deadline_s=10.0)):
        print(figures)
        assert 0 <= (figures.utilization_percent or 0) <= 100
        assert 0 <= (figures.memory_used_bytes or 0) <= (figures.memory_total_bytes or 0)
        assert -20 < (figures.temperature_celsius or 0) < 120
        assert 0 <= (figures.power_mw or 0) < 2_000_000


def test_the_events_that_a_gpu_has_are_registered(hardware: NvmlLibrary) -> None:
    """All that health asks for at once: those that the GPU says it has must be taken."""
    for index, device in enumerate(list_gpus(hardware)):
        types = value_or_code(partial(hardware.device_supported_event_types, device))
        print(f"GPU {index} events {types!r}: {EventType(types & int(WANTED)) if isinstance(types, int) else None!r}")
        assert isinstance(types, int) or types in ABSENT
    watched = register(hardware, create_event_set(hardware), read_now, listens=True)
    print({each.device: each.has_events for each in watched.by_uuid.values()})
    assert watched.missing == 0
    if watched.event_set is not None:
        hardware.event_set_free(watched.event_set)


def test_a_look_at_each_gpu_comes_back_and_finds_what_it_finds(hardware: NvmlLibrary) -> None:
    """A healthy GPU has no findings; what a sick one has is printed, and is no fault of this test."""
    watched = register(hardware, create_event_set(hardware), read_now, listens=True)
    looks = ReadingThreads(LOOK_DEADLINE_S).ask(hardware, watched.build_jobs())
    for look in looks:
        assert isinstance(look, Looked)
        print(look.condition)
        known = [link for link, is_up in look.condition.links if is_up]
        print(list_findings(look.condition, known_links=known, hot=False, braked=False))
    if watched.event_set is not None:
        hardware.event_set_free(watched.event_set)
