"""A driver that does not answer for long: nothing new is given to its node, and nothing is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.node.machine import Pass
from driver.node.publication import AWAY_S
from driver.resourceslice.health_taints import TaintRules
from tests.unit.node.publication_ports import FENCED, Around
from tests.unit.node.readings import machine


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


SILENT = Pass(reading=None, error=NvmlError("nvmlInit", 18, "LIB_RM_VERSION_MISMATCH"))


def read_keys(around: Around) -> set[tuple[str, ...]]:
    """The keys of the taints that the devices have."""
    return {tuple(taint.key for taint in device.taints) for content in around.contents[-1] for device in content.devices}


def test_a_driver_that_stays_away_gets_nothing_new_until_it_answers(around: Around) -> None:
    """Else pods wait in ContainerCreating for a driver that was exchanged below the plugin, and other nodes stand idle.

    https://github.com/NVIDIA/k8s-device-plugin/issues/221
    """
    around.see(machine(0, 1))
    around.publication.note_pass(SILENT)
    around.clock_s += AWAY_S - 1
    around.publication.note_pass(SILENT)
    assert len(around.contents) == 1
    around.clock_s += 1
    for _ in range(3):
        around.publication.note_pass(SILENT)
    assert len(around.contents) == 2
    assert read_keys(around) == {("gpu.nvidia.com/driver-away",)}
    around.see(machine(0, 1))
    assert read_keys(around) == {()}
    around.publication.note_pass(SILENT)
    assert len(around.contents) == 3


def test_a_driver_that_is_away_is_marked_behind_the_fence_and_in_news_of_health(around: Around) -> None:
    around.fence = FENCED
    around.see(machine(0))
    around.publication.note_pass(SILENT)
    around.clock_s += AWAY_S
    assert around.publication.note_health()
    assert read_keys(around) == {("gpu.nvidia.com/allocator", "gpu.nvidia.com/driver-away")}


def test_a_server_without_taints_keeps_the_devices_of_a_driver_that_is_away(around: Around) -> None:
    """B31."""
    around.rules = TaintRules(keeps_taints=False)
    around.see(machine(0))
    around.publication.note_pass(SILENT)
    around.clock_s += AWAY_S
    around.publication.note_pass(SILENT)
    assert read_keys(around) == {()}
