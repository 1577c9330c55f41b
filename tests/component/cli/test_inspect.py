"""``gpu-dra inspect`` on whole mock machines.

``WRITE_GOLDEN=1 pytest tests/component/cli`` writes the golden files anew; review them like code.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.nvml.mock import read_machine_names
from tests.component.cli.program import Program

GOLDEN = Path(__file__).parent / "golden"
MACHINES = ("dgx-1v", "dgx-h100", "gb200-tray", "a100-pcie-half-bridged")


def _compare(path: Path, text: str) -> None:
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("form", "suffix"), [("table", "txt"), ("json", "json"), ("yaml", "yaml")])
def test_inspect_shows_a_machine_as_the_golden_file_does(program: Program, machine: str, form: str, suffix: str) -> None:
    mode = ("--mig", "off") if form == "yaml" else ()  # else two hundred devices
    ended = program("inspect", "--nvml", f"mock:{machine}", "--node-name", "node-a", *mode, "-o", form)
    assert (ended.code, ended.err) == (0, "")
    _compare(GOLDEN / f"inspect-{machine}.{suffix}", ended.out)


@pytest.mark.parametrize("machine", read_machine_names())
def test_every_named_machine_fits_the_page(program: Program, machine: str) -> None:
    ended = program("inspect", "--nvml", f"mock:{machine}")
    assert ended.code == 0
    for line in ended.out.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


@pytest.mark.parametrize("machine", read_machine_names())
def test_slices_of_every_named_machine_are_the_same_in_yaml_and_json(program: Program, machine: str) -> None:
    documents = list(yaml.safe_load_all(program("inspect", "--nvml", f"mock:{machine}", "-o", "yaml").out))
    listed = json.loads(program("inspect", "--nvml", f"mock:{machine}", "-o", "slices").out)
    assert listed == {"apiVersion": "v1", "kind": "List", "items": documents}
    for document in documents:
        _check_slice(document, len(documents))


def _check_slice(document: dict[str, Any], count: int) -> None:
    """The rules of the API that need no server: ``tests/contract`` has the whole set."""
    assert (document["apiVersion"], document["kind"]) == ("resource.k8s.io/v1", "ResourceSlice")
    spec = document["spec"]
    assert spec["driver"] == "gpu.nvidia.com"
    assert spec["pool"] == {"name": spec["nodeName"], "generation": 1, "resourceSliceCount": count}
    for device in spec.get("devices", []):
        assert len(device["attributes"]) + len(device.get("capacity", {})) <= 32


def test_controller_allocation_fences_every_device(program: Program) -> None:
    [document] = yaml.safe_load_all(
        program("inspect", "--nvml", "mock:t4", "--allocation", "controller", "--node-name", "n", "-o", "yaml").out
    )
    for device in document["spec"]["devices"]:
        assert device["attributes"]["allocator"] == {"string": "controller"}
        assert device["taints"] == [{"key": "gpu.nvidia.com/allocator", "value": "controller", "effect": "NoSchedule"}]


def test_driver_and_node_are_those_of_the_settings(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "from-environment")
    ended = program("inspect", "--nvml", "mock:t4", "--driver-name", "gpu.example.com", "-o", "slices")
    spec = json.loads(ended.out)["items"][0]["spec"]
    assert (spec["driver"], spec["nodeName"], spec["pool"]["name"]) == (
        "gpu.example.com",
        "from-environment",
        "from-environment",
    )


def test_another_seed_is_another_machine_of_the_same_kind(program: Program) -> None:
    def uuids(spec: str) -> list[str]:
        return [gpu["uuid"] for gpu in json.loads(program("inspect", "--nvml", spec, "-o", "json").out)["gpus"]]

    assert uuids("mock:t4@node-a") == uuids("mock:t4@node-a")
    assert not set(uuids("mock:t4@node-a")) & set(uuids("mock:t4@node-b"))


def test_inspect_leaves_nothing_behind(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program("inspect", "--nvml", "mock:dgx-h100")
    program("inspect", "--nvml", "mock:no-such-machine")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_gpu_is_named_and_the_others_are_shown(program: Program) -> None:
    ended = program("inspect", "--nvml", "mock:dgx-h100-gpu7-failing", "-o", "json")
    view = json.loads(ended.out)
    assert ended.code == 0
    assert [gpu["index"] for gpu in view["gpus"]] == list(range(7))
    [failure] = view["failures"]
    assert (failure["index"], failure["pciAddress"]) == (7, "0000:df:00.0")
    assert "nvmlDeviceGetName" in failure["reason"]


def test_a_machine_that_is_not_ready_is_exit_code_1_with_a_way_on(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "away.yaml"
    file.write_text(
        'name: away\ndriver: "550.163.01"\ncuda: "12.4"\ngpus: [{board: t4, pci: ["3b:00.0"]}]\nfaults: [{kind: not-ready}]\n'
    )
    ended = program("inspect", "--nvml", f"mock:{file}")
    assert (ended.code, ended.out) == (1, "")
    assert "DRIVER_NOT_LOADED" in ended.err
    assert "is the NVIDIA driver loaded?" in ended.err


def test_a_library_that_is_not_there_is_said_with_the_settings_that_name_it(program: Program, tmp_path: Path) -> None:
    ended = program("inspect", "--driver-root", str(tmp_path))
    assert (ended.code, ended.out) == (1, "")
    assert "LIBRARY_NOT_FOUND" in ended.err
    assert "below --driver-root, or is --nvml-library" in ended.err


def test_mig_devices_that_claims_make_are_in_the_slices_with_their_counters(program: Program) -> None:
    slices = json.loads(program("inspect", "--nvml", "mock:hgx-h100-4", "-o", "slices").out)["items"]
    assert [len(each["spec"].get("sharedCounters", [])) for each in slices] == [4, 0, 0]
    devices = [device for each in slices for device in each["spec"].get("devices", [])]
    assert len(devices) == 4 * 26
    assert "made by claims on GPU {0 1 2 3}" in program("inspect", "--nvml", "mock:hgx-h100-4").out
    assert "made by claims" not in program("inspect", "--nvml", "mock:hgx-h100-4", "--mig", "static").out


def test_mig_devices_that_are_there_are_listed(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "static.yaml"
    file.write_text(
        'name: static\ndriver: "550.163.01"\ncuda: "12.4"\ngpus: [{board: a100-sxm4-40gb, pci: ["3b:00.0"], '
        "mig: {enabled: true, instances: [{profile: 9, start: 4}, {profile: 19, start: 0}]}}]\n"
    )
    names = ["gpu-0000-3b-00-0-mig-1g-5gb-p19-0", "gpu-0000-3b-00-0-mig-3g-20gb-p9-4"]
    view = json.loads(program("inspect", "--nvml", f"mock:{file}", "-o", "json").out)
    assert [each["device"] for each in view["migDevices"]] == names
    assert view["gpus"][0]["migOffer"] == "static"
    table = program("inspect", "--nvml", f"mock:{file}").out
    assert all(name in table for name in names)
    assert "uuid" in program("inspect", "--nvml", f"mock:{file}", "-o", "yaml").out
