"""The large cluster of the memory benchmark is one that the controller can read, and its lines say what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.cli.simulation.fleets import DRIVER, read_machine_devices
from driver.controller.books.mirror import Cluster as Mirror
from driver.controller.intake import RESOURCES, Source
from driver.kube.changes import Change, ChangeKind
from hack.bench.controller_memory import build_lines
from hack.bench.listing_api import GPUS_A_POD, MACHINE, WAITING, Cluster, fence


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    devices = [msgspec.to_builtins(fence(device)) for device in read_machine_devices(MACHINE)]
    return Cluster(nodes=50, devices=devices)


def read(cluster: Cluster, source: Source, number: int) -> Any:
    resource = RESOURCES[source]
    return msgspec.json.decode(msgspec.json.encode(cluster.build(resource.plural, number)), type=resource.type_)


def test_the_mirror_sees_a_cluster_with_pods_that_run_and_pods_that_wait(cluster: Cluster) -> None:
    mirror = Mirror(DRIVER)
    notes: dict[Source, Callable[[Change[Any]], None]] = {
        Source.CLASSES: mirror.note_class,
        Source.NODES: mirror.note_node,
        Source.SLICES: mirror.note_slice,
        Source.CLAIMS: mirror.note_claim,
        Source.PODS: mirror.note_pod,
    }
    for source, note in notes.items():
        for number in range(cluster.count(RESOURCES[source].plural)):
            note(Change(kind=ChangeKind.ADDED, item=read(cluster, source, number)))
    assert (len(mirror.nodes), len(mirror.fleet.nodes), len(mirror.pods), len(mirror.claims)) == (50, 50, 100, 100)
    assert len(mirror.demands()) == WAITING
    taken = sum(mirror.fleet.taken(name).mask.bit_count() for name in mirror.fleet.nodes)
    assert taken == (100 - WAITING) * GPUS_A_POD


def test_every_node_has_devices_of_its_own(cluster: Cluster) -> None:
    slices: list[ResourceSlice] = [read(cluster, Source.SLICES, number) for number in range(2)]
    values = [
        {value.string for device in each.spec.devices for name, value in device.attributes.items() if name == "uuid"}
        for each in slices
    ]
    assert len(values[0] | values[1]) == 16


def test_kinds_that_the_cluster_has_none_of_are_empty_lists(cluster: Cluster) -> None:
    assert cluster.count("persistentvolumes") == 0


def test_the_lines_say_what_a_node_costs_and_whether_the_target_is_met() -> None:
    figures = [
        {"resident_mb": 50.0, "peak_mb": 60.0, "first_placed_s": 0.1},
        {"resident_mb": 550.0, "peak_mb": 560.0, "first_placed_s": 9.0},
    ]
    small, large = build_lines([100, 1100], figures)
    assert (small["met"], "kb_a_node" in small) == (True, False)
    assert (large["met"], large["kb_a_node"], large["devices"]) == (False, 512.0, 8800)
