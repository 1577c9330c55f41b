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
        ("GPU_DRA_CONFIG", "/", "/: cannot be read (Is a directory)"),
        ("GPU_DRA_DEBUG", "1", "environment GPU_DRA_DEBUG: is no setting; `gpu-dra kubelet-plugin --help` lists them all"),
        ("GPU_DRA_MIG", "ON", "environment GPU_DRA_MIG: 'ON' is not a choice; say auto or static or dynamic or off"),
        ("GPU_DRA_HOLD", "1", "environment GPU_DRA_HOLD: '1' is not a choice; say on or off"),
        ("GPU_DRA_LEASE_S", "15s", "environment GPU_DRA_LEASE_S: '15s' is no time; say seconds, such as 60 or 1.5"),
        ("GPU_DRA_DRAIN_TIME", "1d", "environment GPU_DRA_DRAIN_TIME: '1d' is no time; say 900, 900s, 15m or 1h"),
        ("GPU_DRA_EVICT_FOR", "all", "environment GPU_DRA_EVICT_FOR: 'all' is nothing that pods are evicted for"),
        ("GPU_DRA_SCHEDULERS", "A", "environment GPU_DRA_SCHEDULERS: 'A' is no list of names; say one or more"),
        ("CONSUMABLE_SHARES", "3", "environment CONSUMABLE_SHARES: '3' is no way to divide GPUs; say disabled, memory"),
        ("POD_NAMESPACE", "Kube_System", "environment POD_NAMESPACE: 'Kube_System' is no namespace; give the name that"),
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
        ("nodeName: a\n  nvml: real\n", " is not YAML (line 2, column 7: mapping values are not allowed here); write one key"),
        ("nodeName: a\n---\nnvml: real\n", " is not YAML (line 2, column 1: but found another document); write one key"),
        ("node-name: a\n", ":1 node-name: is no setting; did you mean nodeName?"),
        ("NODENAME: a\n", ":1 NODENAME: is no setting; did you mean nodeName?"),
        ("kubeletRoot: ~/kubelet\n", ":1 kubeletRoot: '~/kubelet' is not absolute; give a path that starts with /"),
        ("ignoredXids: [48, 63]\n", ":1 ignoredXids: is a list or mapping; give one plain value (XID,...)"),
        ("hold: true\n", ":1 hold: 'true' is not a choice; say on or off"),
        ("leaseS: 15s\nrenewS: -1\n", ":2 renewS: '-1' is no time"),
        ("nvml: !!python/name:os.system x\n", ":1 nvml: 'x' is no NVML"),
        ("config: other.yaml\n", ":1 config: is no setting"),
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
        pytest.param(
            _T4 + "faults: [{kind: gpu-lost, gpu: 9}]\n", "$.faults[0].gpu: there is no GPU 9", id="a fault of nobody"
        ),
        pytest.param(
            _T4 + "faults: [{kind: call-fails, call: nvmlFoo, code: UNKNOWN}]\n",
            "call 'nvmlFoo' is none that this program makes",
            id="a call that there is not",
        ),
        pytest.param(
            _T4.replace('"12.4"', "12.4"), "got `float` - at `$.cuda`; write it in quotes, such as", id="a version as a number"
        ),
        pytest.param(_T4.replace("gpus: [", "gpus: []\n#"), "`array` of length >= 1 - at `$.gpus`", id="no GPU"),
        pytest.param(
            _T4 + "virtualization: kvm\n", "at `$.virtualization`; one of none, passthrough, vgpu", id="another hypervisor"
        ),
        pytest.param(_T4 + "levels: {FOO: [0-1]}\n", "one of NODE, PHB, PIX, PXB, SYS", id="another level"),
        pytest.param(_T4.replace("}]", ", numa: [0, 1]}]"), ".numa: 2 entries, but pci has 1", id="a list of another length"),
        pytest.param(
            _T4.replace("}]", ", mig: {enabled: true, instances: []}}]"),
            "$.gpus[0].mig: Tesla T4 has no MIG",
            id="MIG without MIG",
        ),
        pytest.param(_T4 + "---\nname: n\n", "more than one document", id="two documents"),
        pytest.param(_T4.replace("name: m", "name: My Node"), "at `$.name`; such as lab-node", id="a name with a space"),
        pytest.param(_T4 + "boards: {lab: {product: X}}\n", "missing required field `brand`", id="half a board"),
        pytest.param("name:\tm\n\tdriver: x\n", "line 2, column 1: found a tab character", id="a tab"),
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


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/none"])
def test_a_folder_that_a_mock_cannot_have(program: Program, tmp_path: Path, folder: str) -> None:
    """No fault of the command line's form, so exit code 1; and no traceback."""
    (tmp_path / "file").touch()
    ended = program("kubelet-plugin", "--node-name", "a", "--nvml", "mock:t4", "--mock-state-dir", str(tmp_path / folder))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"gpu-dra: error: making the mock machine's folder {tmp_path / folder}: ")
    assert ended.err.endswith("it must be a folder that can be written (--mock-state-dir, by default below the plugin's)\n")
