"""Every machine that the mock knows, from NVML's answers to the slices: all legal, and the known ones with their known sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.api.resource_v1 import Attribute, Device
from driver.host.device_nodes import read_device_node
from driver.host.driver_files import find_driver_files
from driver.host.epoch import read_epoch
from driver.host.pci import SysfsPci
from driver.nvml.mock import MockMachine, open_mock, read_machine_names, reboot, reload_driver
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices, build_slice_contents
from driver.topology.build import build_topology
from driver.topology.model import Topology
from tests.fakes.slice_rules import pool_faults

NODE_UID = "1f0c22d4-a9b8-4c6e-9d1a-2b3c4d5e6f70"


def opened(name: str, state_dir: Path) -> tuple[MockMachine, MachineReading]:
    machine = open_mock(name, state_dir)
    machine.library.init()
    return machine, read_machine(machine.library, SysfsPci(machine.roots.sys))


def devices_of(topology: Topology, allocator: Allocator = Allocator.SCHEDULER) -> tuple[Device, ...]:
    return build_devices(topology, node_uid=NODE_UID, allocator=allocator).devices


@pytest.mark.parametrize("name", read_machine_names())
def test_a_named_machine_is_published_legally_and_has_its_files(name: str, tmp_path: Path) -> None:
    machine, reading = opened(name, tmp_path)
    topology = build_topology(reading)
    for allocator in Allocator:
        devices = devices_of(topology, allocator)
        assert pool_faults(build_slice_contents(devices)) == []
        assert len(devices) == sum(not gpu.is_mig_enabled for gpu in reading.gpus)
    assert find_driver_files(machine.roots, reading.driver_version).skipped == ()
    assert [read_device_node(machine.roots, f"nvidia{gpu.minor}").type for gpu in reading.gpus] == ["c"] * len(reading.gpus)


def sets_by_attribute(devices: tuple[Device, ...], attribute: str) -> Iterator[list[int]]:
    """Positions by address of the devices that share a value, lowest first."""
    names = sorted(device.name for device in devices)
    shared: dict[Attribute, list[int]] = {}
    for device in sorted(devices, key=lambda device: device.name):
        shared.setdefault(device.attributes[attribute], []).append(names.index(device.name))
    return iter(sorted(shared.values()))


HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
BRIDGES = [[0, 2], [1, 3], [4, 5], [6, 7]]
KNOWN: dict[str, dict[str, list[list[int]]]] = {
    "dgx-1p": {"nvlinkIsland": HALVES, "nvlinkQuad": HALVES, "nvlinkPair": [[0, 2], [1, 3], [4, 6], [5, 7]]},
    "dgx-1v": {"nvlinkIsland": HALVES, "nvlinkQuad": HALVES, "nvlinkPair": [[0, 3], [1, 2], [4, 7], [5, 6]]},
    "dgx-2": {
        "nvlinkIsland": [list(range(16))],
        "nvlinkQuad": [list(range(first, first + 4)) for first in range(0, 16, 4)],
        "nvlinkPair": [[first, first + 1] for first in range(0, 16, 2)],
    },
    "dgx-h100": {"nvlinkIsland": [list(range(8))], "nvlinkQuad": HALVES},
    "hgx-a100-4": {"nvlinkIsland": [[0, 1, 2, 3]], "nvlinkQuad": [[0, 1, 2, 3]]},
    "hgx-a100-4x2": {"nvlinkIsland": HALVES, "nvlinkDomain": HALVES},
    "a100-pcie-bridged": {"nvlinkIsland": BRIDGES, "nvlinkPair": BRIDGES},
    "a100-pcie-half-bridged": {"nvlinkIsland": [[0, 1], [2], [3]], "nvlinkPair": [[0, 1], [2], [3]]},
    "hgx-b200-gpu2-unlinked": {"nvlinkIsland": [[0, 1, 3, 4, 5, 6, 7], [2]]},
    "gb200-tray": {"nvlinkIsland": [[0, 1, 2, 3]], "nvlinkDomain": [[0, 1, 2, 3]]},
    "l40s": {"nvlinkIsland": [[position] for position in range(8)]},
}


@pytest.mark.parametrize(("name", "expected"), KNOWN.items(), ids=KNOWN.keys())
def test_a_known_machine_offers_its_known_sets(name: str, expected: dict[str, list[list[int]]], tmp_path: Path) -> None:
    devices = devices_of(build_topology(opened(name, tmp_path)[1]))
    assert {attribute: list(sets_by_attribute(devices, attribute)) for attribute in expected} == expected


def test_only_a_multi_node_fabric_names_its_domain_by_cluster_and_clique(tmp_path: Path) -> None:
    """An H100 board says COMPLETED with a cluster of zeros; that is no domain that nodes share."""
    domains = {}
    for name in ("gb200-tray", "dgx-h100"):
        devices = devices_of(build_topology(opened(name, tmp_path / name)[1]))
        domains[name] = {device.attributes["nvlinkDomain"].string or "" for device in devices}
    (fabric,), (local,) = domains["gb200-tray"], domains["dgx-h100"]
    assert fabric.count("-") == 4
    assert fabric.rpartition(".")[2].isdigit()
    assert local.startswith("1f0c22d4a9b8-domain-")


def test_one_gpu_that_fails_takes_no_other_along(tmp_path: Path) -> None:
    reading = opened("dgx-h100-gpu7-failing", tmp_path)[1]
    assert (len(reading.failures), len(devices_of(build_topology(reading)))) == (1, 7)


def test_unknown_memory_is_absent_and_the_device_is_published(tmp_path: Path) -> None:
    (device,) = devices_of(build_topology(opened("gb10", tmp_path)[1]))
    assert device.capacity == {}


def test_a_mocks_reboot_and_driver_reload_are_new_epochs(tmp_path: Path) -> None:
    machine, reading = opened("t4", tmp_path)
    epochs = [read_epoch(machine.roots, reading.driver_version)]
    for happen in (reload_driver, reboot, reload_driver):
        happen(tmp_path)
        epochs.append(read_epoch(machine.roots, reading.driver_version))
    assert len(set(epochs)) == 4
    assert [epoch.boot_id == epochs[0].boot_id for epoch in epochs] == [True, True, False, False]
