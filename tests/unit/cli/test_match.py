"""``gpu-dra match``: where the devices come from, what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.cli.main import main

_MACHINE = ["--nvml", "mock:dgx-h100", "--node-name", "node-1"]
_H100 = 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")'
_SLICE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "slice-1"},
    "spec": {
        "driver": "nic.example.com",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": "nic-0", "attributes": {"speed": {"int": 400}}, "capacity": {"queues": {"value": "64"}}},
            {"name": "nic-1", "attributes": {"speed": {"int": 100}, "rdma": {"bool": True}}},
        ],
    },
}


def _run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(["match", *argv])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, said = capsys.readouterr()
    return int(code or 0), out, said


def _answers(argv: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    _, out, said = _run([*argv, "-o", "json"], capsys)
    assert out, said
    found = json.loads(out)
    return {device["device"]: device["result"] for device in found["devices"]}


@pytest.fixture
def slices(tmp_path: Path) -> Path:
    file = tmp_path / "slices.yaml"
    file.write_text(yaml.safe_dump(_SLICE))
    return file


def test_a_mock_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run([_H100, *_MACHINE], capsys)
    assert code == 0
    assert "8 of 8 devices match" in out


def test_mig_devices_are_tried_where_mig_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    selector = 'device.attributes["gpu.nvidia.com"].type == "mig" && device.attributes["gpu.nvidia.com"].profile == "3g.40gb"'
    assert "16 of 208 devices match" in _run([selector, *_MACHINE, "--mig", "dynamic"], capsys)[1]
    assert "0 of 8 devices match" in _run([selector, *_MACHINE], capsys)[1]


def test_the_term_that_says_no(slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = 'device.driver == "nic.example.com" && device.attributes["nic.example.com"].speed > 200'
    code, out, _ = _run([source, "--slices", str(slices)], capsys)
    assert code == 0
    assert "1 of 2 devices match" in out
    assert "speed > 200" in out


def test_a_selector_that_fails_on_a_device_is_code_1(slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(['device.attributes["nic.example.com"].rdma', "--slices", str(slices)], capsys)
    assert code == 1
    assert "kube-scheduler gives up the pod" in out
    assert "no such key" in out


def test_a_name_that_is_nearly_right_gets_a_hint(slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(['device.attributes["nic.example.com"].Speed == 1', "--slices", str(slices), "-o", "json"], capsys)
    assert json.loads(out)["devices"][0]["terms"][0]["hint"] == "did you mean speed?"


@pytest.mark.parametrize("selector", ["device.nothing == 1", "(", "1", "", "nothing && device.driver == 1"])
def test_what_does_not_compile_is_code_2(selector: str, slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, said = _run([selector, "--slices", str(slices)], capsys)
    assert (code, out) == (2, "")
    assert "does not compile" in said


def test_what_the_api_server_refuses_is_code_2(slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = _run(["true" + " && true" * 1_300, "--slices", str(slices)], capsys)
    assert code == 2
    assert "refuses" in said


@pytest.mark.parametrize(
    "argv", [[], ["true", "--cases", "x"], ["true", "--slices", "/nowhere/at/all"], ["true", "--nvml", "mock:nothing"]]
)
def test_a_wrong_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, said = _run(argv, capsys)
    assert (code, out) == (2, "")
    assert said


def _list(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(_SLICE),
        json.dumps(_list(_SLICE)),
        yaml.safe_dump(_list(_SLICE)),
        yaml.safe_dump_all([_SLICE]),
        "---\n" + yaml.safe_dump(_SLICE) + "---\n",
    ],
    ids=["json", "json list", "yaml list", "documents", "empty document"],
)
def test_the_forms_of_a_slices_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slices"
    file.write_text(text)
    found = _answers(['device.attributes["nic.example.com"].speed > 200', "--slices", str(file)], capsys)
    assert found == {"nic-0": True, "nic-1": False}


def _slice_with(device: dict[str, Any]) -> str:
    return json.dumps({"kind": "ResourceSlice", "spec": {"driver": "a", "pool": {"name": "b"}, "devices": [device]}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "a",
        "kind: Pod",
        json.dumps({"kind": "ResourceSlice"}),
        _slice_with({}),
        _slice_with({"name": "c", "attributes": 1}),
    ],
)
def test_a_broken_slices_file_is_code_2(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slices"
    file.write_text(text)
    code, out, said = _run(["true", "--slices", str(file)], capsys)
    assert (code, out) == (2, "")
    assert str(file) in said


def test_a_slices_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slices"
    file.write_bytes(b"\xff\xfe\xff")
    code, _, said = _run(["true", "--slices", str(file)], capsys)
    assert code == 2
    assert "UTF-8" in said


def test_the_cases_of_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).parents[2] / "golden" / "cel" / "selectors.jsonl"
    code, out, _ = _run(["--cases", str(golden), "-o", "json"], capsys)
    assert code == 0
    cases = [json.loads(line) for line in golden.read_text().splitlines()]
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == [case["id"] for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        assert set(answer) == {"id", "result", "message"}
        expected = case["expected"]
        if "compile_err" in expected:
            assert answer["result"] == "compile_error", case["expr"]
        elif "eval_err" in expected:
            assert answer["result"] == "evaluation_error", case["expr"]
        else:
            assert answer["result"] is expected["match"], case["expr"]


@pytest.mark.parametrize("line", ["{", "[]", "1", '{"expr": 1}', "{}", '{"expr": "true", "device": 1}'])
def test_a_line_that_is_no_case_is_code_2(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases"
    file.write_text(line + "\n")
    code, _, said = _run(["--cases", str(file)], capsys)
    assert code == 2
    assert "line 1" in said


def test_a_case_without_an_id_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases"
    file.write_text('\n{"expr": "true"}\n{"expr": "x", "id": "b"}\n')
    _, out, _ = _run(["--cases", str(file)], capsys)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [2, "b"]


def test_the_features_are_switched(slices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["device.allowMultipleAllocations", "--slices", str(slices)]
    assert _run(argv, capsys)[0] == 0
    assert _run([*argv, "--no-consumable-capacity"], capsys)[0] == 2
    argv = ['device.attributes["nic.example.com"].speed.includes(400)', "--slices", str(slices)]
    assert _run(argv, capsys)[0] == 2
    assert _answers([*argv, "--list-attributes"], capsys) == {"nic-0": True, "nic-1": False}


@pytest.mark.parametrize("argv", [["true", "--slices", "FILE"], ["--cases", "FILE"]], ids=["devices", "cases"])
def test_json_hands_on_no_escapes(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slice, or a case, may hold whatever somebody wrote; what a terminal would obey is told, and not obeyed."""
    strange = "nic\x9b31m\u202e0"
    spec = {**_SLICE["spec"], "devices": [{"name": strange}]}
    text = json.dumps({"id": strange, "expr": "true"}) if "--cases" in argv else json.dumps({**_SLICE, "spec": spec})
    file = tmp_path / "strange"
    file.write_text(text)
    _, out, _ = _run([str(file) if each == "FILE" else each for each in argv] + ["-o", "json"], capsys)
    assert out.replace("\n", "").isprintable()
    told = json.loads(out)
    assert strange == (told["id"] if "--cases" in argv else told["devices"][0]["device"])
