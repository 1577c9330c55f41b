"""Credentials of a pod, tokens that are replaced while we run, and which proxy a server is reached through."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.errors import SettingsInvalid
from driver.kube.credentials import (
    FixedHeader,
    TokenFile,
    choose_proxy,
    encode_basic,
    is_header_text,
    read_credentials,
    read_in_cluster,
    read_text,
)

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def account_dir(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("the CA")
    return tmp_path


def test_a_pod_talks_to_the_service_with_its_own_token(account_dir: Path) -> None:
    found = read_in_cluster(POD, account_dir)
    assert (found.endpoint.server, found.endpoint.tls.ca_pem, found.endpoint.tls.is_verified) == (
        "https://10.96.0.1:443",
        "the CA",
        True,
    )
    assert found.authorization.read_header() == "Bearer first"
    assert str(account_dir) in found.source


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("fd00::1", "https://[fd00::1]:443", id="an IPv6 address gets its brackets"),
        pytest.param("[fd00::1]", "https://[fd00::1]:443", id="and no second pair"),
        pytest.param("kubernetes.default", "https://kubernetes.default:443", id="a name stays a name"),
    ],
)
def test_the_service_host_becomes_a_url(account_dir: Path, host: str, server: str) -> None:
    assert read_in_cluster(POD | {"KUBERNETES_SERVICE_HOST": host}, account_dir).endpoint.server == server


@pytest.mark.parametrize(
    ("environ", "missing", "words"),
    [
        pytest.param({}, "", "KUBERNETES_SERVICE_HOST is ''", id="not in a pod"),
        pytest.param(POD | {"KUBERNETES_SERVICE_PORT": "x"}, "", "KUBERNETES_SERVICE_PORT is 'x'", id="a port that is none"),
        pytest.param(POD, "ca.crt", "ca.crt: No such file", id="no CA"),
        pytest.param(POD, "token", "token: No such file", id="no token"),
    ],
)
def test_what_a_pod_lacks_is_named(account_dir: Path, environ: dict[str, str], missing: str, words: str) -> None:
    if missing:
        (account_dir / missing).unlink()
    with pytest.raises(SettingsInvalid, match=words.replace("(", r"\(")):
        read_in_cluster(environ, account_dir)


def test_a_token_is_read_again_after_a_minute_and_not_before(account_dir: Path) -> None:
    clock = Clock()
    token = TokenFile(account_dir / "token", clock=clock)
    assert token.read_header() == "Bearer first"
    (account_dir / "token").write_text("second")
    clock.now_s += 59
    assert token.read_header() == "Bearer first"
    clock.now_s += 1
    assert token.read_header() == "Bearer second"


def test_a_refused_token_is_read_again_at_once(account_dir: Path) -> None:
    token = TokenFile(account_dir / "token", clock=Clock())
    token.read_header()
    (account_dir / "token").write_text("second")
    assert token.forget()
    assert token.read_header() == "Bearer second"


@pytest.mark.parametrize("content", [None, "", "two\nlines", "ümlaut"], ids=["gone", "empty", "newline", "not ASCII"])
def test_a_token_file_in_the_middle_of_its_replacement_leaves_the_old_token(account_dir: Path, content: str | None) -> None:
    token = TokenFile(account_dir / "token", clock=Clock())
    token.read_header()
    path = account_dir / "token"
    path.unlink() if content is None else path.write_text(content)
    token.forget()
    assert token.read_header() == "Bearer first"


def test_a_first_token_that_no_header_can_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a\r\nX-Evil: 1")
    with pytest.raises(SettingsInvalid, match="characters that no header may hold"):
        TokenFile(tmp_path / "token").read_header()


def test_a_fixed_header_has_no_successor() -> None:
    header = FixedHeader("Bearer x")
    assert (header.read_header(), header.forget(), repr(header)) == ("Bearer x", False, "FixedHeader()")


def test_a_password_is_sent_as_basic() -> None:
    assert encode_basic("ada", "s3cret") == "Basic YWRhOnMzY3JldA=="


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        pytest.param({}, "", id="no proxy"),
        pytest.param({"HTTPS_PROXY": "http://p:3128"}, "http://p:3128", id="upper case"),
        pytest.param({"https_proxy": "http://p:3128"}, "http://p:3128", id="lower case"),
        pytest.param({"HTTP_PROXY": "http://p:3128"}, "", id="another scheme's"),
        pytest.param({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.96.0.1"}, "", id="the address is exempt"),
        pytest.param({"HTTPS_PROXY": "http://p", "NO_PROXY": "localhost, 10.96.0.0/12"}, "", id="its range is exempt"),
        pytest.param({"HTTPS_PROXY": "http://p", "no_proxy": "*"}, "", id="everything is exempt"),
        pytest.param({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.97.0.0/16,.svc"}, "http://p", id="others are exempt"),
    ],
)
def test_the_usual_variables_choose_the_proxy(environ: dict[str, str], proxy: str) -> None:
    assert choose_proxy("https://10.96.0.1:443", "", environ) == proxy


@pytest.mark.parametrize("entry", ["example.com", ".example.com", "*.example.com", "api.example.com"])
def test_no_proxy_knows_parent_domains(entry: str) -> None:
    environ = {"HTTPS_PROXY": "http://p", "NO_PROXY": entry}
    assert choose_proxy("https://api.example.com:6443", "", environ) == ""
    assert choose_proxy("https://badexample.org", "", environ) == "http://p"


@pytest.mark.parametrize(
    "server", ["https://127.0.0.1:39415", "https://localhost:6443", "https://[::1]:6443", "https://127.8.0.1"]
)
def test_a_server_on_this_machine_needs_no_proxy(server: str) -> None:
    """kind, minikube and k3d serve there, and kubectl reaches them whatever the proxy.

    https://github.com/kubernetes-client/python/issues/2460
    """
    assert choose_proxy(server, "", {"HTTPS_PROXY": "http://p"}) == ""


@pytest.mark.parametrize(
    ("entry", "server", "is_named"),
    [
        ("10.96.0.1:443", "https://10.96.0.1", True),
        ("10.96.0.1:6443", "https://10.96.0.1", False),
        ("[fd00:10:96::1]", "https://[fd00:10:96::1]:443", True),
        ("[fd00:10:96::1]:443", "https://[fd00:10:96::1]", True),
        ("fd00:10:96::/112", "https://[fd00:10:96::1]:443", True),
        ("fd00:10:97::/112", "https://[fd00:10:96::1]:443", False),
        ("api.example.com:6443", "https://api.example.com:6443", True),
        ("api.example.com:443", "https://api.example.com:6443", False),
        (":443", "https://api.example.com", False),
        ("96.0.1", "https://10.96.0.1", False),
        ("::/0/0", "https://10.96.0.1", False),
    ],
)
def test_no_proxy_is_read_as_kubectl_reads_it(entry: str, server: str, is_named: bool) -> None:
    """https://github.com/kubernetes-client/python/issues/1578, with ports and brackets as Go's programs take them."""
    assert (choose_proxy(server, "", {"HTTPS_PROXY": "http://p", "NO_PROXY": entry}) == "") == is_named


def test_a_proxy_in_the_kubeconfig_beats_the_variables() -> None:
    assert choose_proxy("https://a", "http://own", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}) == "http://own"


def test_without_a_path_and_outside_of_a_pod_the_users_kubeconfig_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=str(tmp_path / ".kube" / "config")):
        read_credentials(environ={"HOME": str(tmp_path)})


def test_a_file_that_is_too_long_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsInvalid, match="more than 10 bytes"):
        read_text(tmp_path / "big", what="a thing", max_bytes=10)
    with pytest.raises(SettingsInvalid, match="not UTF-8"):
        read_text(tmp_path / "bytes", what="a thing")


@pytest.mark.parametrize(("text", "is_fine"), [("abc.def-_", True), ("", False), ("a b", True), ("a\tb", False), ("é", False)])
def test_what_a_header_may_hold(text: str, is_fine: bool) -> None:
    assert is_header_text(text) is is_fine
