"""Exec plugins as small shell scripts: a token, its end, a certificate, and what goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.errors import SettingsInvalid
from driver.kube.exec_credentials import PluginToken, run_exec_plugin

API_VERSION = "client.authentication.k8s.io/v1"


def plugin(tmp_path: Path, status: object, *, exit_code: int = 0) -> dict[str, Any]:
    answer = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}
    (tmp_path / "answer").write_text(json.dumps(answer))
    script = f"echo run >> {tmp_path}/runs; cat {tmp_path}/answer; echo words >&2; exit {exit_code}"
    return {"apiVersion": API_VERSION, "command": "sh", "args": ["-c", script]}


def test_a_token(tmp_path: Path) -> None:
    found = run_exec_plugin(plugin(tmp_path, {"token": "abc"}), directory=tmp_path, where="users[dev].user")
    assert found.authorization.read_header() == "Bearer abc"
    assert found.authorization.read_header() == "Bearer abc"
    assert (tmp_path / "runs").read_text().count("run") == 1
    assert found.authorization.forget()
    assert found.authorization.read_header() == "Bearer abc"
    assert (tmp_path / "runs").read_text().count("run") == 2


def test_a_plugin_that_is_not_installed_is_named_with_its_hint(tmp_path: Path) -> None:
    config = {"apiVersion": API_VERSION, "command": "no-such-plugin", "installHint": "install kubelogin first"}
    with pytest.raises(SettingsInvalid, match=r"'no-such-plugin'.*; install kubelogin first"):
        run_exec_plugin(config, directory=tmp_path, where="u")


def test_a_plugin_without_arguments_and_environment(tmp_path: Path) -> None:
    """https://github.com/kubernetes-client/python/issues/637: ``env: null`` was refused."""
    config = plugin(tmp_path, {"token": "abc"}) | {"env": None, "interactiveMode": "IfAvailable", "provideClusterInfo": True}
    found = run_exec_plugin(config, directory=tmp_path, where="u")
    assert found.authorization.read_header() == "Bearer abc"


def test_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    found = run_exec_plugin(plugin(tmp_path, status), directory=tmp_path, where="u")
    assert (found.client_cert_pem, found.client_key_pem, found.authorization.read_header()) == ("CERT", "KEY", None)
    assert "KEY" not in repr(found)


def test_a_token_is_fetched_again_shortly_before_its_end() -> None:
    now_s, answers = [0.0], iter([{"token": "second"}])
    first = {"token": "first", "expirationTimestamp": "1970-01-01T00:10:00Z"}
    token = PluginToken(lambda: next(answers), first, where="u", clock=lambda: now_s[0])
    now_s[0] = 569
    assert token.read_header() == "Bearer first"
    now_s[0] = 570
    assert token.read_header() == "Bearer second"
    now_s[0] = 10**9
    assert token.read_header() == "Bearer second"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({}, "neither a token nor a client certificate", id="nothing"),
        pytest.param({"clientCertificateData": "C"}, "with its key", id="half a certificate"),
        pytest.param({"token": "a\nb"}, "no usable token", id="a token with a newline"),
        pytest.param({"token": 5}, "no usable token", id="a token that is a number"),
        pytest.param({"token": "a", "expirationTimestamp": "soon"}, "'soon' is not a time", id="no time"),
        pytest.param([], "status is not a mapping", id="no mapping"),
    ],
)
def test_what_a_plugin_gets_wrong_is_named(tmp_path: Path, status: object, words: str) -> None:
    with pytest.raises(SettingsInvalid, match=rf"users\[dev\].user.exec: .*{words}"):
        run_exec_plugin(plugin(tmp_path, status), directory=tmp_path, where="users[dev].user")


def test_a_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"running 'sh': exec: process returned 3. words"):
        run_exec_plugin(plugin(tmp_path, {}, exit_code=3), directory=tmp_path, where="u")


@pytest.mark.parametrize(
    "config",
    [{}, {"command": "sh"}, {"apiVersion": API_VERSION, "command": "no-such-program-here"}, "sh"],
    ids=["nothing", "no version", "no program", "no mapping"],
)
def test_a_plugin_that_cannot_be_run_is_named(tmp_path: Path, config: object) -> None:
    with pytest.raises(SettingsInvalid, match=r"u\.exec"):
        run_exec_plugin(config, directory=tmp_path, where="u")


def test_the_kubernetes_package_is_loaded_only_for_a_plugin(tmp_path: Path) -> None:
    """It costs 13 MB and most of a second."""
    (tmp_path / "config").write_text(
        '{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}], '
        '"clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}]}'
    )
    program = (
        "import sys; from driver.kube.client import KubeClient; from driver.kube.credentials import read_credentials; "
        "from driver.resourceslice import publish; KubeClient(read_credentials(sys.argv[1])); "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('kubernetes', 'requests', 'pydantic')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "config")], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
