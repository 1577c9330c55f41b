"""Which source wins, what is derived, and how every fault is told at once."""

from __future__ import annotations

import argparse
import contextlib
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.config.load import add_flags, encode_settings, load
from driver.config.settings import Settings, declared
from driver.errors import SettingsInvalid
from driver.host.roots import Roots


def _load(*argv: str, environ: dict[str, str] | None = None, required: tuple[str, ...] = ()) -> Settings:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return load(parser.parse_args(argv), environ or {}, required=required)


def _faults(*argv: str, environ: dict[str, str] | None = None, required: tuple[str, ...] = ()) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        _load(*argv, environ=environ, required=required)
    return str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gpu-dra.yaml"


def test_the_defaults_serve_an_ordinary_node() -> None:
    assert _load().said() == {
        "nvml": "real",
        "nvml_library": None,
        "dev_root": "/dev",
        "dev_root_on_host": "/dev",
        "sys_root": "/sys",
        "proc_root": "/proc",
        "driver_root": "/",
        "driver_root_on_host": "/",
        "mig": "auto",
        "consumable_shares": "disabled",
        "ignored_xids": "",
        "evict_for": "",
        "health_events": "on",
        "node_name": "",
        "driver_name": "gpu.nvidia.com",
        "allocation": "scheduler",
        "drain_time": "900",
        "controller_lease": "gpu-dra/gpu-dra-controller",
        "kubeconfig": None,
        "pod_uid": "",
        "kubelet_root": "/var/lib/kubelet",
        "registry_dir": "/var/lib/kubelet/plugins_registry",
        "plugin_dir": "/var/lib/kubelet/plugins/gpu.nvidia.com",
        "cdi_root": "/var/run/cdi",
        "mps_dir": "/run/gpu-dra/mps",
        "mock_state_dir": "/var/lib/kubelet/plugins/gpu.nvidia.com/mock",
        "namespace": "gpu-dra",
        "lease_name": "gpu-dra-controller",
        "pod_name": socket.gethostname().lower(),
        "lease_s": "15.0",
        "renew_s": "10.0",
        "retry_s": "2.0",
        "request_timeout_s": "5.0",
        "unbound_s": "60.0",
        "schedulers": "default-scheduler",
        "hold": "on",
        "metrics_address": "",
        "health_address": "",
        "log_format": "json",
        "log_level": "info",
    }


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(file: Path) -> None:
    file.write_text("nodeName: from-file\nallocation: controller\ncdiRoot: /file\n")
    environ = {"NODE_NAME": "from-environment", "GPU_DRA_CDI_ROOT": "/environment"}
    read = _load("--config", str(file), "--cdi-root", "/flag", environ=environ)
    assert (read.log_level, read.allocation, read.node_name, read.cdi_root) == (
        "info",
        "controller",
        "from-environment",
        Path("/flag"),
    )
    assert {name: read.origins[name] for name in ("log_level", "allocation", "node_name", "cdi_root")} == {
        "log_level": "default",
        "allocation": f"{file}:2 allocation",
        "node_name": "environment NODE_NAME",
        "cdi_root": "--cdi-root",
    }


def test_our_own_variable_beats_the_common_one() -> None:
    assert _load(environ={"NODE_NAME": "common", "GPU_DRA_NODE_NAME": "own"}).node_name == "own"


def test_an_empty_variable_counts_as_unset() -> None:
    assert _load(environ={"GPU_DRA_ALLOCATION": "", "NODE_NAME": ""}) == _load()


def test_the_config_file_may_be_named_by_the_environment(file: Path) -> None:
    file.write_text("nodeName: a\n")
    assert _load(environ={"GPU_DRA_CONFIG": str(file)}).node_name == "a"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_config_file_changes_nothing(file: Path, text: str) -> None:
    file.write_text(text)
    assert _load("--config", str(file)) == _load()


def test_a_plain_value_is_taken_as_it_is_written(file: Path) -> None:
    """YAML 1.1 would make 0123 an octal number and ``no`` a boolean."""
    file.write_text("nodeName: 0123\npodUid: no\n")
    assert (_load("--config", str(file)).node_name, _load("--config", str(file)).pod_uid) == ("0123", "no")


def test_folders_follow_the_kubelet_root_and_the_driver_name() -> None:
    read = _load("--kubelet-root", "/k", "--driver-name", "gpu.example.com", "--driver-root", "/run/nvidia/driver")
    assert (read.registry_dir, read.plugin_dir, read.mock_state_dir) == (
        Path("/k/plugins_registry"),
        Path("/k/plugins/gpu.example.com"),
        Path("/k/plugins/gpu.example.com/mock"),
    )
    assert read.roots == Roots(driver=Path("/run/nvidia/driver"), driver_on_host=Path("/run/nvidia/driver"))


def test_a_derived_folder_can_be_set() -> None:
    assert _load("--plugin-dir", "/p").mock_state_dir == Path("/p/mock")


def test_a_relative_path_on_the_command_line_is_meant_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _load("--cdi-root", "cdi").cdi_root == tmp_path / "cdi"


def test_kubeconfig_of_the_world_is_left_to_the_credentials() -> None:
    """In a pod the service account comes first, so ``$KUBECONFIG`` must not look like a setting."""
    assert _load(environ={"KUBECONFIG": "/a"}).kubeconfig is None
    assert _load(environ={"KUBECONFIG": "/a", "GPU_DRA_KUBECONFIG": "/b"}).kubeconfig == Path("/b")


def test_every_fault_of_every_source_is_told_at_once(file: Path) -> None:
    file.write_text("kubletRoot: /k\nallocation: both\n")
    environ = {"GPU_DRA_LOG_LEVL": "info", "GPU_DRA_LOG_FORMAT": "xml"}
    assert _faults("--config", str(file), "--nvml", "none", environ=environ, required=("node_name",)).splitlines() == [
        "6 settings are wrong:",
        f"  {file}:1 kubletRoot: is no setting; did you mean kubeletRoot?",
        "  environment GPU_DRA_LOG_LEVL: is no setting; did you mean GPU_DRA_LOG_LEVEL?",
        f"  {file}:2 allocation: 'both' is not a choice; say scheduler or controller",
        "  environment GPU_DRA_LOG_FORMAT: 'xml' is not a choice; say json or text",
        "  --nvml: 'none' is no NVML; say real, mock:dgx-h100, mock:dgx-h100@node-b or mock:/path/of/machine.yaml",
        "  --node-name: is needed (this node, as `kubectl get nodes` names it; in a pod from fieldRef spec.nodeName);"
        " give --node-name, $GPU_DRA_NODE_NAME or $NODE_NAME, or nodeName in the config file",
    ]


def test_a_fault_that_a_better_source_hides_is_told_all_the_same() -> None:
    assert "environment GPU_DRA_ALLOCATION" in _faults("--allocation", "scheduler", environ={"GPU_DRA_ALLOCATION": "x"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("nodeName: [a]\n", ":1 nodeName: is a list or mapping; give one plain value (NAME)", id="a list"),
        pytest.param("nodeName: {a: b}\n", ":1 nodeName: is a list or mapping", id="a mapping"),
        pytest.param("\nnodeName:\n", ":2 nodeName: has no value; give one (NAME), or remove the line", id="no value"),
        pytest.param("nodeName: ~\n", "has no value", id="a null"),
        pytest.param("nodeName: a\nnodeName: b\n", ":2 nodeName: is there twice, first in line 1; keep one", id="a key twice"),
        pytest.param("node_name: a\n", "is no setting; did you mean nodeName?", id="a key of another spelling"),
        pytest.param("node-name: a\n", "is no setting; did you mean nodeName?", id="a flag as a key"),
        pytest.param("zzzzzzzzz: a\n", "`gpu-dra kubelet-plugin --help` lists them all", id="a key like no other"),
        pytest.param("- a\n", "is not a mapping; write one key: value a line", id="a list at the top"),
        pytest.param("hello", "is not a mapping", id="a text at the top"),
        pytest.param("a: b: c\n", "is not YAML", id="no YAML"),
        pytest.param("a: b\n---\nc: d\n", "is not YAML", id="two documents"),
        pytest.param("? [a]\n: b\n", "has a key that is no word", id="a list as a key"),
        pytest.param("x: " + "[" * 3000, "is nested too deep", id="deep nesting"),
        pytest.param("x: " + "a" * 70000, "is larger than 64 KiB", id="a huge file"),
        pytest.param("cdiRoot: cdi\n", ":1 cdiRoot: 'cdi' is not absolute", id="a relative path"),
        pytest.param("nodeName: !!python/object:os.system a\nx: 1\n", "x: is no setting", id="a tag that is code is only text"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    message = _faults("--config", str(file))
    assert says in message
    assert str(file) in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "cannot be read (No such file or directory)", id="not there"),
        pytest.param(b"\xff\xfe", "cannot be read (it is not UTF-8 text)", id="not text"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fault(file: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        file.write_bytes(content)
    assert says in _faults("--config", str(file))


def test_a_folder_as_config_file_is_a_fault(tmp_path: Path) -> None:
    assert "cannot be read (Is a directory)" in _faults("--config", str(tmp_path))


@pytest.mark.parametrize(
    "variable",
    [
        "GPU_DRA_SERVICE_HOST",
        "GPU_DRA_SERVICE_PORT_HTTPS",
        "GPU_DRA_PORT",
        "GPU_DRA_PORT_443_TCP_ADDR",
        "GPU_DRA_WEBHOOK_SERVICE_HOST",
        "GPU_DRA_WEBHOOK_PORT_443_TCP",
        "GPU_DRA_DEVICE_0000_4E_00_0",
    ],
)
def test_variables_that_kubernetes_or_a_claim_sets_are_left_alone(variable: str) -> None:
    assert _load(environ={variable: "tcp://10.0.0.1:443"}) == _load()


def test_printed_settings_are_a_config_file_that_gives_the_same_settings(file: Path) -> None:
    first = _load("--node-name", "node-a", "--driver-root", "/it's here", environ={"GPU_DRA_HEALTH_ADDRESS": ":8080"})
    text = encode_settings(first)
    file.write_text(text)
    assert _load("--config", str(file)) == first
    assert "nodeName: 'node-a'  # --node-name\n" in text
    assert "healthAddress: '[::]:8080'  # environment GPU_DRA_HEALTH_ADDRESS\n" in text
    assert "# kubeconfig:  # default\n" in text


def test_names_of_a_setting_follow_from_one_declaration() -> None:
    [each] = [each for each in declared() if each.name == "kubelet_root"]
    assert (each.flag, each.variables, each.key) == ("--kubelet-root", ("GPU_DRA_KUBELET_ROOT",), "kubeletRoot")


def test_no_two_settings_share_a_name() -> None:
    for names in (
        [each.flag for each in declared()],
        [variable for each in declared() for variable in each.variables],
        [each.key for each in declared()],
    ):
        assert len(names) == len(set(names))


def test_every_setting_has_a_help_with_its_default_and_variables() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    text = " ".join(parser.format_help().split())
    for each in declared():
        assert each.flag in text
        assert f"[{', '.join('$' + variable for variable in each.variables)}]" in text


def test_only_chosen_flags_are_given_to_a_parser() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, only=("nvml",))
    assert "--nvml" in parser.format_help()
    assert "--cdi-root" not in parser.format_help()


@settings(max_examples=50)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_config_file_is_settings_or_a_list_of_faults(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(SettingsInvalid):
        _load("--config", str(file))
