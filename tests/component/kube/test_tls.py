"""TLS: whom the client believes, how it shows who it is, and that a watch over TLS is woken like any other."""

from __future__ import annotations

import ssl
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.errors import ApiUnreachable, SettingsInvalid
from driver.kube.client import KubeClient
from driver.kube.credentials import Tls
from driver.kube.resources import NODES, RESOURCE_SLICES, Selection
from driver.kube.watch import Watcher
from tests.fakes.kube_api import FakeKubeApi

PKI = Path(__file__).parents[2] / "fakes" / "tls"
CA = (PKI / "ca.crt").read_text()
CERT, KEY = (PKI / "client.crt").read_text(), (PKI / "client.key").read_text()


@contextmanager
def served(name: str = "server", *, asks_for_client: bool = False) -> Iterator[FakeKubeApi]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / f"{name}.crt", PKI / f"{name}.key")
    if asks_for_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(PKI / "ca.crt")
    with FakeKubeApi(tls=context) as api:
        api.create("nodes", {"metadata": {"name": "node-a"}})
        yield api


def ask(api: FakeKubeApi, tls: Tls) -> str:
    client = KubeClient(api.credentials(tls=tls), timeout_s=5.0)
    try:
        return client.get(NODES, "node-a").metadata.name
    finally:
        client.close()


def test_a_server_of_the_clusters_ca_is_believed() -> None:
    with served() as api:
        assert ask(api, Tls(ca_pem=CA)) == "node-a"


def test_a_server_of_an_unknown_ca_is_not() -> None:
    with served() as api, pytest.raises(ApiUnreachable, match="not signed by a CA that is trusted here"):
        ask(api, Tls())


def test_a_server_of_another_name_is_not_but_for_the_name_that_is_set() -> None:
    with served("named") as api:
        with pytest.raises(ApiUnreachable, match=r"certificate is not valid for '127\.0\.0\.1'"):
            ask(api, Tls(ca_pem=CA))
        assert ask(api, Tls(ca_pem=CA, server_name="api.internal")) == "node-a"


def test_verification_can_be_switched_off_without_a_warning_at_each_request() -> None:
    with served("named") as api:
        assert ask(api, Tls(is_verified=False)) == "node-a"


def test_a_client_certificate_is_shown() -> None:
    with served(asks_for_client=True) as api:
        assert ask(api, Tls(ca_pem=CA, client_cert_pem=CERT, client_key_pem=KEY)) == "node-a"
        with pytest.raises(ApiUnreachable):
            ask(api, Tls(ca_pem=CA))


def test_the_key_is_in_no_file_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, certfile: str, *args: object, **kwargs: object) -> None:
        seen.append(stat.S_IMODE(Path(certfile).stat().st_mode))
        load(self, certfile, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    with served() as api:
        seen.clear()
        ask(api, Tls(ca_pem=CA, client_cert_pem=CERT, client_key_pem=KEY))
    assert (seen, list(tmp_path.iterdir())) == ([0o600], [])


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        pytest.param(Tls(ca_pem="rubbish"), "certificate authority is not PEM", id="CA"),
        pytest.param(Tls(client_cert_pem=CERT, client_key_pem="rubbish"), "do not fit, or are not PEM", id="key"),
        pytest.param(
            Tls(client_cert_pem=CERT, client_key_pem=(PKI / "server.key").read_text()), "do not fit", id="another's key"
        ),
    ],
)
def test_what_openssl_does_not_read_is_a_setting_that_is_wrong(tls: Tls, words: str) -> None:
    with served() as api, pytest.raises(SettingsInvalid, match=words):
        ask(api, tls)


def test_a_watch_over_tls_is_woken_by_stop() -> None:
    with served() as api:
        watcher = Watcher(KubeClient(api.credentials(tls=Tls(ca_pem=CA))), RESOURCE_SLICES, Selection())
        thread = threading.Thread(target=lambda: list(watcher.changes()), daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while api.count("watch") == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        watcher.stop()
        thread.join(20)
        assert not thread.is_alive()
