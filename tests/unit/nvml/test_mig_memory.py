"""What a pass that could not read MIG is completed with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.nvml.mig_memory import MigMemory
from driver.nvml.readings import MachineReading, MigReading
from tests.unit.topology.machines import gpu, hopper, machine, mig, mig_instance

H = "h100-80gb"
FAULT = "NVML nvmlDeviceGetGpuInstances: UNKNOWN (999)"
BEFORE = mig(H, mig_instance(H, 9, 4))
SILENT = MigReading(is_enabled=False, is_enabled_after_reset=False, is_mode_known=False, fault=FAULT)


def read(memory: MigMemory, reading: MigReading | None) -> MigReading | None:
    (found,) = memory.complete(machine([gpu(0) if reading is None else hopper(0, reading)])).gpus
    return found.mig


@pytest.mark.parametrize(
    "now",
    [replace(BEFORE, instances=(), fault=FAULT), replace(BEFORE, profiles=(), instances=(), fault=FAULT), SILENT],
    ids=["instances", "profiles", "mode"],
)
def test_what_could_not_be_read_is_as_it_was(now: MigReading) -> None:
    """Over several passes, and the fault is still told."""
    memory = MigMemory()
    assert read(memory, BEFORE) == BEFORE
    assert read(memory, now) == replace(BEFORE, fault=FAULT)
    assert read(memory, now) == replace(BEFORE, fault=FAULT)


def test_what_is_read_again_counts() -> None:
    memory = MigMemory()
    read(memory, BEFORE)
    read(memory, SILENT)
    empty = mig(H, is_enabled=True)
    assert read(memory, empty) == empty
    assert read(memory, SILENT) == replace(empty, fault=FAULT)


def test_half_a_reading_is_not_remembered() -> None:
    memory = MigMemory()
    half = replace(BEFORE, instances=(), fault=FAULT)
    assert read(memory, half) == half
    assert read(memory, SILENT) == SILENT


def test_a_mode_that_changed_is_not_overruled() -> None:
    memory = MigMemory()
    read(memory, BEFORE)
    off = replace(mig(H, is_enabled=False), fault=FAULT)
    assert read(memory, off) == off


def test_a_mode_that_waits_for_a_reset_is_seen() -> None:
    memory = MigMemory()
    read(memory, BEFORE)
    pending = replace(BEFORE, is_enabled_after_reset=False, instances=(), fault=FAULT)
    assert read(memory, pending) == replace(BEFORE, is_enabled_after_reset=False, fault=FAULT)


def test_another_driver_is_another_matter() -> None:
    memory = MigMemory()
    read(memory, BEFORE)
    other = replace(machine([hopper(0, SILENT)]), driver_version="999.1")
    assert memory.complete(other) == other


def test_a_gpu_without_mig_is_let_be_and_others_have_their_own_memory() -> None:
    memory = MigMemory()
    assert read(memory, None) is None
    read(memory, BEFORE)
    found = memory.complete(machine([hopper(0, SILENT), hopper(1, SILENT)]))
    assert [each.mig for each in found.gpus] == [replace(BEFORE, fault=FAULT), SILENT]


def test_a_machine_without_faults_is_the_same_object() -> None:
    reading: MachineReading = machine([hopper(0, BEFORE)])
    assert MigMemory().complete(reading) is reading
