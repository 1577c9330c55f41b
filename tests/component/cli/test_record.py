"""``gpu-dra record``: what it writes plays the same machine again."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import yaml

from driver.host.pci import SysfsPci
from driver.names import GpuUUID
from driver.nvml.mock import open_mock, read_machine_names
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading
from driver.topology.build import build_topology
from driver.topology.model import Gpu, Topology
from tests.component.cli.program import Program

_GPU_UUID = re.compile(r"GPU-[0-9a-f]{8}-")


def _read(spec: str, state_dir: Path) -> MachineReading:
    mock = open_mock(spec, state_dir)
    mock.library.init()
    try:
        return read_machine(mock.library, SysfsPci(mock.roots.sys))
    finally:
        mock.library.shutdown()


def _without_identifiers(topology: Topology) -> Topology:
    """The same topology, GPUs numbered instead of named by UUID, and no fabric's cluster but the all-zero one."""

    def strip(number: int) -> Gpu:
        gpu = topology.gpus[number]
        fabric = gpu.reading.fabric
        if fabric is not None and set(fabric.cluster_uuid) != set("0-"):
            fabric = dataclasses.replace(fabric, cluster_uuid="some cluster")
        return dataclasses.replace(gpu, reading=dataclasses.replace(gpu.reading, uuid=GpuUUID(f"GPU-{number}"), fabric=fabric))

    return dataclasses.replace(topology, gpus=tuple(strip(number) for number in range(len(topology.gpus))))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recorded.yaml"


@pytest.mark.parametrize("machine", read_machine_names())
def test_a_recorded_machine_has_the_same_topology(program: Program, tmp_path: Path, file: Path, machine: str) -> None:
    ended = program("record", "--nvml", f"mock:{machine}", "--no-anonymize")
    assert ended.code == 0
    file.write_text(ended.out)
    before, after = _read(machine, tmp_path / "a"), _read(str(file), tmp_path / "b")
    assert build_topology(after) == build_topology(before)


@pytest.mark.parametrize("machine", read_machine_names())
def test_an_anonymous_recording_differs_in_identifiers_alone(
    program: Program, tmp_path: Path, file: Path, machine: str
) -> None:
    file.write_text(program("record", "--nvml", f"mock:{machine}").out)
    before, after = build_topology(_read(machine, tmp_path / "a")), build_topology(_read(str(file), tmp_path / "b"))
    assert _without_identifiers(after) == _without_identifiers(before)
    assert not {gpu.reading.uuid for gpu in after.gpus} & {gpu.reading.uuid for gpu in before.gpus}


def test_no_identifier_is_written_unless_asked_for(program: Program) -> None:
    anonymous = program("record", "--nvml", "mock:gb200-tray")
    assert not _GPU_UUID.search(anonymous.out)
    assert "9c6f5af3-53bf-49b5-a436-b66766c413c3" not in anonymous.out
    assert "UUIDs replaced (--no-anonymize keeps them)" in anonymous.err
    plain = program("record", "--nvml", "mock:gb200-tray", "--no-anonymize")
    assert len(_GPU_UUID.findall(plain.out)) == 4
    assert "9c6f5af3-53bf-49b5-a436-b66766c413c3" in plain.out


def test_trays_of_one_rack_keep_one_cluster(program: Program) -> None:
    clusters = [
        yaml.safe_load(program("record", "--nvml", f"mock:gb200-tray@{node}").out)["fabric"]["cluster"] for node in ("a", "b")
    ]
    assert clusters[0] == clusters[1]


def test_a_board_that_the_catalogue_has_is_named_and_one_that_it_lacks_is_written_out(program: Program) -> None:
    assert "boards" not in yaml.safe_load(program("record", "--nvml", "mock:t4").out)
    own = yaml.safe_load(program("record", "--nvml", "mock:long-name").out)
    [name] = own["boards"]
    assert own["gpus"][0]["board"] == name
    assert len(own["boards"][name]["product"].encode()) == 80


def test_mig_instances_are_recorded(program: Program, tmp_path: Path, file: Path) -> None:
    start = tmp_path / "mig.yaml"
    start.write_text(
        'name: mig\ndriver: "550.163.01"\ncuda: "12.4"\n'
        'gpus: [{board: h100-pcie-80gb, pci: ["3b:00.0"], mig: {enabled: true, instances: [{profile: 9, start: 4}]}}]\n'
    )
    ended = program("record", "--nvml", f"mock:{start}")
    assert yaml.safe_load(ended.out)["gpus"][0]["mig"] == {"enabled": True, "instances": [{"profile": 9, "start": 4}]}
    file.write_text(ended.out)
    assert program("record", "--nvml", f"mock:{file}", "--name", yaml.safe_load(ended.out)["name"]).out == ended.out


@pytest.mark.parametrize(
    "faults",
    [
        "{kind: link-down, gpu: 0, links: [3]}",
        "{kind: link-down, gpu: 0, links: [3]}, {kind: link-down, gpu: 1, links: [3]}",
        "{kind: link-down, gpu: 0, links: [0, 5]}, {kind: link-down, gpu: 1, links: [2]}",
        "{kind: link-down, gpu: 1, peer: 0}",
        "{kind: link-down, gpu: 0}, {kind: link-down, gpu: 1, links: [1]}",
    ],
    ids=["one end", "both ends", "different ports", "all at one end", "all at one end, one at the other"],
)
def test_a_port_of_a_pair_that_is_down_is_down_in_the_recording(
    program: Program, tmp_path: Path, file: Path, faults: str
) -> None:
    degraded = tmp_path / "degraded.yaml"
    degraded.write_text(
        'name: degraded\ndriver: "550.163.01"\ncuda: "12.4"\n'
        'gpus: [{board: h100-pcie-80gb, pci: ["3b:00.0", "3c:00.0"]}]\n'
        f"nvlink: {{pairs: {{0-1: 6}}}}\nfaults: [{faults}]\n"
    )
    ended = program("record", "--nvml", f"mock:{degraded}", "--no-anonymize")
    file.write_text(ended.out)
    assert "note" not in ended.err
    before, after = _read(str(degraded), tmp_path / "a"), _read(str(file), tmp_path / "b")
    assert build_topology(after) == build_topology(before)
    matrices = [
        json.loads(program("inspect", "--nvml", f"mock:{each}", "-o", "json").out)["links"] for each in (degraded, file)
    ]
    assert matrices[0] == matrices[1]


def test_a_recording_of_a_recording_is_the_same(program: Program, file: Path) -> None:
    first = program("record", "--nvml", "mock:dgx-1v", "--name", "mine").out
    file.write_text(first)
    assert program("record", "--nvml", f"mock:{file}", "--name", "mine").out == first


def test_a_gpu_that_cannot_be_recorded_is_said(program: Program) -> None:
    assert "note: GPU 7 is left out" in program("record", "--nvml", "mock:dgx-h100-gpu7-lost").err


def test_a_gpu_whose_calls_fail_keeps_its_slot(program: Program, file: Path) -> None:
    file.write_text(program("record", "--nvml", "mock:dgx-h100-gpu7-failing").out)
    view = json.loads(program("inspect", "--nvml", f"mock:{file}", "-o", "json").out)
    assert [(each["index"], each["pciAddress"]) for each in view["failures"]] == [(7, "0000:df:00.0")]


def test_a_bad_name_is_a_wrong_setting(program: Program) -> None:
    ended = program("record", "--nvml", "mock:t4", "--name", "My Machine")
    assert (ended.code, ended.out) == (2, "")
    assert "--name: 'My Machine' is no machine's name" in ended.err
