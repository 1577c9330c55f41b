"""Wrong inputs of every surface: exit code 2, nothing on stdout, and a text with where, what, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.cli.program import Program

_T4 = 'name: m\ndriver: "550.163.01"\ncuda: "12.4"\ngpus: [{board: t4, pci: ["3b:00.0"]}]\n'


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["--nvml", "mok:t4"], "--nvml: 'mok:t4' is no NVML; say real, mock:dgx-h100", id="nvml kind"),
        pytest.param(["--nvml", ""], "--nvml: '' is no NVML", id="nvml empty"),
        pytest.param(["--node-name", "Node_A"], "--node-name: 'Node_A' is no node name", id="node name"),
        pytest.param(["--node-name", ""], "--node-name: '' is no node name", id="node name empty"),
        pytest.param(["--driver-name", "GPU"], "--driver-name: 'GPU' is no driver name", id="driver name"),
        pytest.param(
            ["--allocation", "both"], "--allocation: 'both' is not a choice; say scheduler or controller", id="allocation"
        ),
        pytest.param(["--sys-root", "/a\nb"], "--sys-root: '/a\\nb' holds a NUL or a line break", id="a path of two lines"),
        pytest.param(["--config", "/no/such/file"], "/no/such/file: cannot be read (No such file or directory)", id="config"),
        pytest.param(["-o", "csv"], "invalid choice: 'csv'", id="form"),
        pytest.param(["--nvlm", "real"], "did you mean --nvml?", id="a misspelt flag"),
    ],
)
def test_flags(program: Program, argv: list[str], says: str) -> None:
    ended = program("inspect", *argv)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("GPU_DRA_NVML", "nvml", "environment GPU_DRA_NVML: 'nvml' is no NVML"),
        ("GPU_DRA_ALLOCATION", "none", "environment GPU_DRA_ALLOCATION: 'none' is not a choice"),
        ("NODE_NAME", "A B", "environment NODE_NAME: 'A B' is no node name"),
        ("GPU_DRA_NODE_NAME", "..", "environment GPU_DRA_NODE_NAME: '..' is no node name"),
        ("POD_UID", "../x", "environment POD_UID: '../x' is no pod uid; take it from the downward API"),
        ("GPU_DRA_KUBELET_ROOT", "kubelet", "environment GPU_DRA_KUBELET_ROOT: 'kubelet' is not absolute"),
        ("GPU_DRA_HEALTH_ADDRESS", "80", "environment GPU_DRA_HEALTH_ADDRESS: '80' is no address; say HOST:PORT"),
        ("GPU_DRA_LOG_LEVEL", "loud", "environment GPU_DRA_LOG_LEVEL: 'loud' is not a choice; say debug or info"),
        ("GPU_DRA_KUBLET_ROOT", "/k", "environment GPU_DRA_KUBLET_ROOT: is no setting; did you mean GPU_DRA_KUBELET_ROOT?"),
        ("GPU_DRA_CONFIG", "/no/such", "/no/such: cannot be read"),
    ],
)
def test_environment(program: Program, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str) -> None:
    monkeypatch.setenv(variable, value)
    ended = program("inspect", "--nvml", "mock:t4")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nvml: nvml\n", ":1 nvml: 'nvml' is no NVML"),
        ("nodename: a\n", ":1 nodename: is no setting; did you mean nodeName?"),
        ("nodeName: [a]\n", ":1 nodeName: is a list or mapping; give one plain value"),
        ("nodeName:\n", ":1 nodeName: has no value"),
        ("nodeName: a\nnodeName: a\n", ":2 nodeName: is there twice"),
        ("cdiRoot: cdi\n", ":1 cdiRoot: 'cdi' is not absolute"),
        ("- nodeName: a\n", "is not a mapping; write one key: value a line"),
        ("nodeName: 'a\n", "is not YAML"),
        ("metrics: on\n", ":1 metrics: is no setting"),
        ("podUid: a b\n", ":1 podUid: 'a b' is no pod uid"),
    ],
)
def test_config_files(program: Program, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "gpu-dra.yaml"
    file.write_text(text)
    ended = program("inspect", "--nvml", "mock:t4", "--config", str(file))
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert str(file) in ended.err


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        pytest.param("dgx-h1000", "no such machine; did you mean dgx-h100? named ones: ", id="no such name"),
        pytest.param("DGX-H100", "no such machine; did you mean dgx-h100?", id="upper case"),
        pytest.param("/etc/hostname", "Expected `object`", id="a file that is no machine"),
        pytest.param("/no/such.yaml", "/no/such.yaml: cannot be read: No such file or directory", id="no such file"),
        pytest.param("/", "cannot be read", id="a folder"),
        pytest.param("t4@a b", "a seed after @ is", id="a bad seed"),
        pytest.param("t4@", "a seed after @ is", id="an empty seed"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "record"])
def test_machine_names(program: Program, command: str, machine: str, says: str) -> None:
    ended = program(command, "--nvml", f"mock:{machine}")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert machine.partition("@")[0] in ended.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "m.yaml", id="empty"),
        pytest.param("name: [", "no readable YAML", id="no YAML"),
        pytest.param(_T4 + "color: red\n", "color", id="an unknown key"),
        pytest.param(_T4.replace("board: t4", "board: t5"), "no board 't5'; known:", id="no such board"),
        pytest.param(_T4.replace("3b:00.0", "3b:00"), "$.gpus[0].pci[0]", id="a bad address"),
        pytest.param(_T4.replace('"3b:00.0"', '"3b:00.0", "3b:00.0"'), "have the same pci", id="an address twice"),
        pytest.param(_T4 + "nvlink: {pairs: {0-1: 2}}\n", "$.nvlink.pairs", id="a link to nowhere"),
        pytest.param(_T4.replace("550.163.01", "newest"), "$.driver", id="a bad version"),
        pytest.param(_T4 + "faults: [{kind: fire}]\n", "$.faults[0]", id="an unknown fault"),
        pytest.param(_T4 + "a: &a b\nc: *a\n", "anchors and aliases are not read", id="an alias"),
    ],
)
def test_machine_files(program: Program, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    ended = program("inspect", "--nvml", f"mock:{file}")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "m.yaml" in ended.err
