"""Machine files: what is wrong is said with its path; whatever is in a file, it is a machine or a ``MachineInvalid``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.errors import MachineInvalid
from driver.nvml.library import Placement
from driver.nvml.mock import read_mock_machine
from driver.nvml.mock.catalogue import decode_machine
from driver.nvml.mock.document import MachineDocument
from driver.nvml.mock.model import Machine
from driver.nvml.readings import PcieLevel

GOOD: dict[str, Any] = {
    "name": "mine",
    "driver": "580.159.04",
    "cuda": "13.0",
    "gpus": [{"board": "h100-pcie-80gb", "pci": ["17:00.0", "18:00.0", "a1:00.0"], "numa": [0, 0, 1]}],
}


class PlainDumper(yaml.SafeDumper):
    """Writes a value that is there twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(document: Any) -> bytes:
    return yaml.dump(document, Dumper=PlainDumper).encode("utf-8", "replace")


def decode(document: Any) -> Machine:
    return decode_machine(dump(document), source="mine.yaml", seed="")


def with_changes(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def with_gpus(**changes: Any) -> dict[str, Any]:
    return with_changes(gpus=[{**GOOD["gpus"][0], **changes}])


def test_a_short_file_is_a_machine() -> None:
    machine = decode(GOOD)
    assert [str(gpu.pci) for gpu in machine.gpus] == ["0000:17:00.0", "0000:18:00.0", "0000:a1:00.0"]
    assert machine.levels == {(0, 1): PcieLevel.NODE, (0, 2): PcieLevel.SYS, (1, 2): PcieLevel.SYS}
    assert [gpu.ports for gpu in machine.gpus] == [(None,) * 18] * 3


def test_switches_below_a_root_make_the_levels() -> None:
    switches = ["a/a", "a/a", "a/b", "b", None]
    gpus = {"board": "t4", "pci": [f"{bus:02x}:00.0" for bus in range(5)], "root": "pci0000:00", "switch": switches}
    levels = decode(with_changes(gpus=[gpus])).levels
    assert levels[0, 1] is PcieLevel.PIX
    assert levels[0, 2] is PcieLevel.PXB
    assert levels[0, 3] is PcieLevel.PHB
    assert levels[0, 4] is PcieLevel.PHB


def test_ports_are_numbered_by_peer() -> None:
    machine = decode(with_changes(nvlink={"pairs": {"0-2": 2, "1-0": 1}}))
    assert [port.peer for port in machine.gpus[0].ports if port is not None] == [1, 2, 2]
    assert [port.peer for port in machine.gpus[2].ports if port is not None] == [0, 0]


def test_boards_of_ones_own_are_used() -> None:
    board = {"product": "X", "brand": "Nvidia", "architecture": "Hopper", "compute": "9.0", "device-id": 1, "memory-mib": 5}
    machine = decode(with_changes(boards={"x": board}, gpus=[{"board": "x", "pci": ["01:00.0"]}]))
    assert machine.gpus[0].board.memory_bytes == 5 * 1024 * 1024


def test_what_an_administrator_made_is_read() -> None:
    machine = decode(with_gpus(mig={"enabled": True, "instances": [{"profile": 9, "start": 4}]}))
    assert machine.gpus[0].mig_is_enabled
    assert machine.gpus[0].mig_instances == ((9, 4),)
    table = machine.gpus[0].board.mig
    assert table is not None
    profile = table.by_id(9)
    assert profile is not None
    assert profile.placements == (Placement(start=0, size=4), Placement(start=4, size=4))


WRONG = [
    pytest.param(with_changes(names="x"), "Object contains unknown field `names`", id="unknown key"),
    pytest.param(with_changes(name="Mine"), "$.name", id="name with a capital"),
    pytest.param(with_changes(driver="latest"), "$.driver", id="driver version"),
    pytest.param(with_changes(gpus=[]), "$.gpus", id="no GPU"),
    pytest.param({key: value for key, value in GOOD.items() if key != "cuda"}, "missing required field `cuda`", id="no cuda"),
    pytest.param(with_gpus(board="h100"), "$.gpus[0].board: no board 'h100'; known: a100-pcie-40gb", id="unknown board"),
    pytest.param(with_gpus(pci=["17:00"]), "$.gpus[0].pci[0]", id="address"),
    pytest.param(with_gpus(numa=[0, 1]), "numa: 2 entries, but pci has 3", id="too few NUMA nodes"),
    pytest.param(with_gpus(minors=[0, 1, 2, 3]), "minors: 4 entries, but pci has 3", id="too many minors"),
    pytest.param(with_gpus(minors=[0, 1, 1]), "GPU 1 and GPU 2 have the same minor, 1", id="minor twice"),
    pytest.param(with_gpus(pci=["17:00.0", "0000:17:00.0", "18:00.0"]), "the same pci, 0000:17:00.0", id="address twice"),
    pytest.param(with_gpus(uuids=["GPU-1", None, None]), "$.gpus[0].uuids[0]", id="UUID"),
    pytest.param(with_gpus(root="0000:00"), "$.gpus[0].root", id="root"),
    pytest.param(with_gpus(root="../../etc"), "$.gpus[0].root", id="root that is a path"),
    pytest.param(with_gpus(mig={"enabled": False, "instances": [{"profile": 9, "start": 0}]}), "$.gpus[0].mig", id="MIG off"),
    pytest.param(with_changes(gpus=[{"board": "t4", "pci": ["01:00.0"], "mig": {"enabled": True}}]), "has no MIG", id="no MIG"),
    pytest.param(with_changes(nvlink={}), "exactly one of switches, pairs and matrix", id="no form of links"),
    pytest.param(with_changes(nvlink={"pairs": {}, "switches": ["01:00.0"]}), "exactly one of", id="two forms of links"),
    pytest.param(with_changes(nvlink={"pairs": {"0-3": 1}}), "$.nvlink.pairs: 0-3 is no pair", id="pair past the last"),
    pytest.param(with_changes(nvlink={"pairs": {"1-1": 1}}), "$.nvlink.pairs: 1-1 is no pair", id="pair with itself"),
    pytest.param(with_changes(nvlink={"pairs": {"0-1": 1, "1-0": 1}}), "is there twice", id="pair twice"),
    pytest.param(with_changes(nvlink={"pairs": {"0-1": 19}}), "GPU 0 has 19 links, but its board has 18", id="ports"),
    pytest.param(with_changes(nvlink={"matrix": [[0, 1], [1, 0]]}), "3 rows of 3", id="small matrix"),
    pytest.param(with_changes(nvlink={"matrix": [[0, 1, 0], [2, 0, 0], [0, 0, 0]]}), "$.nvlink.matrix[1][0]", id="one-sided"),
    pytest.param(with_changes(nvlink={"matrix": [[1, 0, 0], [0, 0, 0], [0, 0, 0]]}), "$.nvlink.matrix[0][0]", id="own link"),
    pytest.param(with_changes(levels={"PIX": ["0-1", "1-0"]}), "$.levels.PIX: the pair 1-0 is there twice", id="level twice"),
    pytest.param(with_changes(levels={"NEAR": ["0-1"]}), "NEAR", id="no such level"),
    pytest.param(with_changes(fabric={"cluster": "x", "clique": 0}), "$.fabric.cluster", id="cluster"),
    pytest.param(with_changes(faults=[{"kind": "gpu-lost", "gpu": 3}]), "$.faults[0].gpu: there is no GPU 3", id="fault's GPU"),
    pytest.param(with_changes(faults=[{"kind": "flood"}]), "Invalid value 'flood' - at `$.faults[0].kind`", id="kind of fault"),
    pytest.param(
        with_changes(faults=[{"kind": "call-fails", "call": "nvmlX", "code": "UNKNOWN"}]), "call 'nvmlX' is none", id="call"
    ),
    pytest.param(
        with_changes(faults=[{"kind": "call-fails", "call": "nvmlInit", "code": "BAD"}]), "code 'BAD' is none", id="code"
    ),
    pytest.param(
        with_changes(
            boards={
                "x": {
                    "product": "X", "brand": "Nvidia", "architecture": "Hopper", "compute": "9.0",
                    "device-id": 1, "memory-mib": 5, "mig": "y",
                }
            },
            gpus=[{"board": "x", "pci": ["01:00.0"]}],
        ),
        "board x: mig: no table 'y'",
        id="MIG table",
    ),
    pytest.param([1, 2], "Expected `object`, got `array`", id="a list"),
    pytest.param("text", "Expected `object`, got `str`", id="a text"),
    pytest.param(None, "Expected `object`, got `null`", id="nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), WRONG)
def test_what_is_wrong_is_said_with_its_path(document: Any, message: str) -> None:
    with pytest.raises(MachineInvalid) as caught:
        decode(document)
    assert str(caught.value).startswith("mine.yaml: ")
    assert message in str(caught.value)


def test_more_than_64_gpus_are_refused() -> None:
    groups = [{"board": "t4", "pci": [f"{group:04x}:{bus:02x}:00.0" for bus in range(40)]} for group in range(2)]
    with pytest.raises(MachineInvalid, match="80 GPUs, but a machine has at most 64"):
        decode(with_changes(gpus=groups))


MIG = {"memory-slices": 8, "compute-slices": 7}
ROW = {"number": 0, "id": 19, "slices": 1, "count": 7, "starts": [0], "size": 1, "sm": 1, "memory-mib": 1}


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ([ROW, ROW], "two profiles have the same number"),
        ([ROW, {**ROW, "number": 1}], "two profiles have the same id"),
        ([{**ROW, "starts": [7], "size": 2}], "go past the 8 memory slices"),
        ([{**ROW, "starts": [1, 1]}], "starts: one is there twice"),
        ([{**ROW, "slices": 8}], "more than the GPU's 7"),
    ],
)
def test_a_mig_table_must_fit_its_gpu(profiles: list[Any], message: str) -> None:
    board = {
        "product": "X",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "compute": "9.0",
        "device-id": 1,
        "memory-mib": 5,
        "mig": "m",
    }
    document = with_changes(
        boards={"x": board}, gpus=[{"board": "x", "pci": ["01:00.0"]}], **{"mig-tables": {"m": {**MIG, "profiles": profiles}}}
    )
    with pytest.raises(MachineInvalid, match=message):
        decode(document)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dgx-h1000", "no such machine; did you mean dgx-h100? named ones: a100-pcie-bridged"),
        ("", "no such machine"),
        ("dgx-h100@", "a seed after @"),
        ("dgx-h100@a b", "a seed after @"),
        ("/nowhere/machine.yaml", "cannot be read: No such file or directory"),
        ("/tmp/", "cannot be read: Is a directory"),
        ("../../boards.yaml", "cannot be read"),
    ],
)
def test_a_spec_that_names_no_machine_is_refused(spec: str, message: str) -> None:
    with pytest.raises(MachineInvalid) as caught:
        read_mock_machine(spec)
    assert message in str(caught.value)


def test_a_file_may_have_a_seed(tmp_path: Path) -> None:
    path = tmp_path / "mine@home" / "m.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(GOOD), encoding="utf-8")
    assert read_mock_machine(str(path)).seed == ""
    assert read_mock_machine(f"{path}@node-1").seed == "node-1"


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=12),
    st.sampled_from(["t4", "h100-pcie-80gb", "pci0000:00", "0-1", "17:00.0", "a/b", "gpu-lost", "9.0", "NODE"]),
)  # fmt: skip
KEYS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            *MachineDocument.__struct_encode_fields__,
            "board",
            "pci",
            "numa",
            "root",
            "switch",
            "minors",
            "pairs",
            "matrix",
            "kind",
            "gpu",
        ]
    ),
)
TREES = st.recursive(
    SCALARS, lambda deeper: st.lists(deeper, max_size=4) | st.dictionaries(KEYS, deeper, max_size=4), max_leaves=25
)


def check(data: bytes) -> None:
    try:
        machine = decode_machine(data, source="fuzz", seed="")
    except MachineInvalid as err:
        assert str(err).startswith("fuzz: ")  # noqa: PT017 - either end is right
    else:
        assert machine.gpus


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(list(MachineDocument.__struct_encode_fields__)), TREES, max_size=5))
def test_any_change_of_a_good_file_is_a_machine_or_invalid(changes: dict[str, Any]) -> None:
    check(dump({**GOOD, **changes}))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_change_of_a_good_group_is_a_machine_or_invalid(changes: dict[str, Any]) -> None:
    check(dump(with_gpus(**changes)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_machine_or_invalid(data: bytes) -> None:
    check(data)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]:,-&*!|>'\"%@`#? \n\tab01~", max_size=60))
def test_any_yaml_like_text_is_a_machine_or_invalid(text: str) -> None:
    check(text.encode())
