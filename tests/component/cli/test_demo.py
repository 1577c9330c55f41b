"""``gpu-dra demo``: the whole way, on several machines, ends by itself and leaves nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.cli.demo.kubelet import DemoFailed
from driver.cli.demo.story import tell
from driver.cli.demo.world import World
from tests.component.cli.program import Program

STEPS = ["machine", "register", "publish", "claim", "allocate", "prepare", "container", "refuse", "restart", "unprepare"]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demo makes its own; a short path, since those of sockets have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gd-") as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path)


def _facts(program: Program, machine: str) -> dict[str, Any]:
    ended = program("demo", "--machine", machine, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert (told["format"], told["machine"]) == ("gpu-dra.io/demo/v1", machine)
    assert [step["name"] for step in told["steps"]] == STEPS
    assert [step["step"] for step in told["steps"]] == list(range(1, 11))
    return {step["name"]: step for step in told["steps"]}


@pytest.mark.parametrize(
    ("machine", "count"),
    [("dgx-h100", 4), ("dgx-1v", 4), ("a100-pcie-half-bridged", 2), ("gb10", 1), ("dgx-h100-gpu7-failing", 4)],
)
def test_a_claim_comes_from_the_machine_to_the_containers_devices(
    program: Program, folder: Path, machine: str, count: int
) -> None:
    facts = _facts(program, machine)
    devices = facts["allocate"]["devices"]
    assert len(devices) == count
    assert set(devices) <= set(facts["publish"]["devices"])
    for device in devices:
        assert any(each.endswith(f"-{device}") for each in facts["prepare"]["cdiDevices"])
    nodes = facts["container"]["deviceNodes"]
    assert len([each for each in nodes if each.removeprefix("/dev/nvidia").isdigit()]) == count
    assert "/dev/nvidiactl" in nodes
    env = facts["container"]["env"]
    assert len([each for each in env if each.startswith("GPU_DRA_DEVICE_")]) == count
    assert list(folder.iterdir()) == []


def test_a_claim_for_a_held_device_is_refused_alone(program: Program) -> None:
    refused = _facts(program, "dgx-h100")["refuse"]
    assert "is held by claim default/training" in refused["second-holder"]["error"]
    assert refused["inference"] == {"error": ""}


def test_a_bridged_pair_that_is_no_neighbour_is_given(program: Program) -> None:
    """The bridges of this machine join GPU 0 with 2, and 1 with 3."""
    facts = _facts(program, "a100-pcie-bridged")
    order = sorted(facts["publish"]["devices"])
    assert [order.index(device) for device in facts["allocate"]["devices"]] == [0, 2]


def test_the_story_for_people_has_every_step_and_what_to_try_next(program: Program) -> None:
    ended = program("demo")
    assert (ended.code, ended.err) == (0, "")
    for number in range(1, 11):
        assert f"\n{number:>2}  " in "\n" + ended.out
    for needed in (
        "on a cluster kube-scheduler does it itself",
        "/dev/nvidia3",
        "Try next:",
        "gpu-dra inspect --nvml mock:dgx-h100",
    ):
        assert needed in " ".join(ended.out.split()), needed
    for line in ended.out.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


def test_a_machine_without_a_device_ends_with_a_way_on(folder: Path) -> None:
    file = folder / "away.yaml"
    file.write_text(
        'name: away\ndriver: "550.163.01"\ncuda: "12.4"\ngpus: [{board: t4, pci: ["3b:00.0"]}]\n'
        "faults: [{kind: call-fails, call: nvmlDeviceGetName, code: UNKNOWN}]\n"
    )
    with World(str(file), folder / "w", patience_s=2.0) as world, pytest.raises(DemoFailed, match="no device was published"):
        list(tell(world, str(file)))


@pytest.mark.parametrize("machine", ["no-such-machine", "/no/such.yaml"])
def test_a_machine_that_is_not_there_is_code_2(program: Program, folder: Path, machine: str) -> None:
    ended = program("demo", "--machine", machine)
    assert (ended.code, ended.out) == (2, "")
    assert machine in ended.err
    assert list(folder.iterdir()) == []
