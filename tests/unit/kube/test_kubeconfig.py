"""Kubeconfigs as people have them: several files, files beside them or inside, and clear words for what is wrong."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.errors import SettingsInvalid
from driver.kube.credentials import Credentials, Tls, read_namespace
from driver.kube.kubeconfig import read_kubeconfig

Json = dict[str, Any]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(*, cluster: Json | None = None, user: Json | None = None, current: str = "dev", name: str = "dev") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": "https://api.example:6443/"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def read(tmp_path: Path, document: object, *, context: str = "", environ: dict[str, str] | None = None) -> Credentials:
    path = tmp_path / "config"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return read_kubeconfig([path], context=context, environ=environ or {})


def test_data_inside_the_file(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        config(
            cluster={"certificate-authority-data": encoded("CA"), "tls-server-name": "api.internal"},
            user={"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
        ),
    )
    assert found.endpoint.server == "https://api.example:6443"
    assert found.endpoint.tls == Tls(
        ca_pem="CA", client_cert_pem="CERT", client_key_pem="KEY", server_name="api.internal", is_verified=True
    )
    assert found.authorization.read_header() is None
    assert "context 'dev'" in found.source
    assert "KEY" not in repr(found)


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "cert", "key"):
        (tmp_path / "pki" / name).write_text(name.upper())
    cluster = {"certificate-authority": "pki/ca"}
    user = {"client-certificate": "pki/cert", "client-key": str(tmp_path / "pki" / "key")}
    found = read(tmp_path, config(cluster=cluster, user=user))
    assert found.endpoint.tls == Tls(ca_pem="CA", client_cert_pem="CERT", client_key_pem="KEY")


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({"token": "abc"}, "Bearer abc", id="token"),
        pytest.param({"token": "abc", "tokenFile": "tok"}, "Bearer from-file", id="a token file beats a token"),
        pytest.param({"username": "ada", "password": "pw"}, "Basic YWRhOnB3", id="password"),
        pytest.param({}, None, id="nothing"),
        pytest.param(None, None, id="a null user"),
    ],
)
def test_who_we_are(tmp_path: Path, user: Json | None, header: str | None) -> None:
    (tmp_path / "tok").write_text("from-file\n")
    assert read(tmp_path, config(user=user)).authorization.read_header() == header


def test_a_named_context_beats_the_current_one(tmp_path: Path) -> None:
    document = config()
    other = config(name="prod", cluster={"server": "https://prod:6443"})
    for key in ("clusters", "users", "contexts"):
        document[key] += other[key]
    assert read(tmp_path, document).endpoint.server == "https://api.example:6443"
    assert read(tmp_path, document, context="prod").endpoint.server == "https://prod:6443"


def test_of_two_files_the_first_to_define_a_name_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "sub" / "second"
    second.parent.mkdir()
    (second.parent / "ca").write_text("CA of the second")
    first.write_text(yaml.safe_dump({"current-context": "prod", "contexts": config(name="prod")["contexts"]}))
    document = config(name="prod", current="never", cluster={"certificate-authority": "ca"}, user={"token": "t"})
    second.write_text(yaml.safe_dump(document))
    found = read_kubeconfig([first, tmp_path / "absent", second], context="", environ={})
    assert (found.endpoint.tls.ca_pem, found.authorization.read_header()) == ("CA of the second", "Bearer t")


def test_folded_base64_is_read(tmp_path: Path) -> None:
    """As kubectl reads it. https://github.com/rancher/rancher writes such kubeconfigs."""
    data = encoded("CA" * 90)
    folded = "\n".join(data[at : at + 64] for at in range(0, len(data), 64)) + "\n"
    assert read(tmp_path, config(cluster={"certificate-authority-data": folded})).endpoint.tls.ca_pem == "CA" * 90


def test_what_is_null_is_not_there(tmp_path: Path) -> None:
    """https://github.com/kubernetes-client/python/issues/450: ``username: null`` was refused."""
    cluster = {"insecure-skip-tls-verify": None, "certificate-authority-data": None, "proxy-url": None}
    user = {"username": None, "password": None, "as": None, "exec": None, "token": "t"}
    found = read(tmp_path, config(cluster=cluster, user=user))
    assert (found.endpoint.tls, found.authorization.read_header()) == (Tls(), "Bearer t")


def test_an_insecure_cluster_is_not_verified(tmp_path: Path) -> None:
    assert not read(tmp_path, config(cluster={"insecure-skip-tls-verify": True})).endpoint.tls.is_verified


def test_the_proxy_of_the_cluster_is_used(tmp_path: Path) -> None:
    found = read(tmp_path, config(cluster={"proxy-url": "http://p:1"}), environ={"HTTPS_PROXY": "http://q:1"})
    assert found.endpoint.proxy_url == "http://p:1"


WRONG: dict[str, tuple[object, str]] = {
    "not YAML": ("a: [", "not YAML at line 2"),
    "a list": ("[]", "must be a mapping"),
    "nothing in it": ("", "must be a mapping"),
    "no current context": (config(current=""), "current-context is not set"),
    "a context that is not there": (config(current="prod"), "the chosen context is 'prod', and contexts has only: dev"),
    "a cluster that is not there": (config() | {"clusters": []}, r"contexts\[dev\].context.cluster is 'dev'"),
    "a user that is not there": (config() | {"users": None}, r"contexts\[dev\].context.user is 'dev'"),
    "contexts that are no list": (config() | {"contexts": {"a": 1}}, "contexts must be a list"),
    "an entry that is no mapping": (config() | {"users": ["x"]}, r"users\[0\] must be a mapping"),
    "a cluster that is no mapping": (config() | {"clusters": [{"name": "dev", "cluster": "x"}]}, r"clusters\[dev\].cluster"),
    "no server": (config(cluster={"server": ""}), r"clusters\[dev\].cluster.server must be an http"),
    "a server without a scheme": (config(cluster={"server": "api:6443"}), r"cluster.server must be an http.* 'api:6443'"),
    "text that is a number": (config(user={"token": 5}), r"users\[dev\].user.token must be text, is int"),
    "a flag that is text": (config(cluster={"insecure-skip-tls-verify": "yes"}), "must be true or false"),
    "CA and no verification": (
        config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": encoded("CA")}),
        "insecure-skip-tls-verify contradicts",
    ),
    "data that is not base64": (config(user={"client-key-data": "%%"}), r"users\[dev\].user.client-key-data is not base64"),
    "a certificate without a key": (config(user={"client-certificate-data": encoded("C")}), "client-key is missing"),
    "a key without a certificate": (config(user={"client-key-data": encoded("K")}), "client-certificate is missing"),
    "a file that is not there": (config(user={"client-key": "nope"}), r"users\[dev\].user.client-key from .*nope: No such"),
    "a token with a newline": (config(user={"token": "a\nb"}), "characters that no header may hold"),
    "acting as another user": (config(user={"token": "t", "as": "bob"}), r"users\[dev\].user.as is set, and acting as"),
    "acting with other groups": (config(user={"as-groups": ["g"]}), r"user.as-groups is set"),
    "an auth provider": (config(user={"auth-provider": {"name": "gcp"}}), "use an exec plugin"),
    "an exec that is no mapping": (config(user={"exec": "aws"}), "exec must be a mapping"),
}


@pytest.mark.parametrize(("document", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_fault_is_named_with_its_field(tmp_path: Path, document: object, words: str) -> None:
    with pytest.raises(SettingsInvalid, match=words) as caught:
        read(tmp_path, document)
    assert str(tmp_path) in str(caught.value)


def test_an_exec_plugin_without_the_package_that_runs_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image leaves it out: 130 MB for what no pod needs."""
    monkeypatch.delitem(sys.modules, "driver.kube.exec_credentials", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes.config.config_exception", None)
    with pytest.raises(SettingsInvalid, match=r"users\[dev\].user.exec needs .*'gpu-dra\[kubeconfig-plugins\]'"):
        read(tmp_path, config(user={"exec": {"command": "aws"}}))


def test_no_secret_is_in_a_message(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        read(tmp_path, config(user={"client-key-data": "c2VjcmV0!", "token": "s3cret"}))
    assert "c2VjcmV0" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"No such file or directory; name one with --kubeconfig or \$KUBECONFIG"):
        read_kubeconfig([tmp_path / "a"], context="", environ={})
    with pytest.raises(SettingsInvalid, match=r"none of .*a, .*b exists"):
        read_kubeconfig([tmp_path / "a", tmp_path / "b"], context="", environ={})


def test_a_document_of_a_billion_laughs_is_an_error_and_not_the_end_of_memory(tmp_path: Path) -> None:
    """Aliases are shared values in PyYAML: a document that would explode when written out is small when read."""
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    with pytest.raises(SettingsInvalid, match="current-context is not set"):
        read(tmp_path, "\n".join(lines))


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    """As kubectl has it: the context's, else ``default``."""
    path = tmp_path / "config"
    document = config()
    path.write_text(yaml.safe_dump(document))
    assert read_namespace(str(path)) == "default"
    document["contexts"][0]["context"]["namespace"] = "team"
    path.write_text(yaml.safe_dump(document))
    assert read_namespace(str(path)) == "team"
    with pytest.raises(SettingsInvalid, match="the chosen context is 'nowhere'"):
        read_namespace(str(path), "nowhere")
