"""What people read when the API server does not answer: each failure is made for real, at a socket, and told in plain words.

A row is a way to fail, and the whole text but for the server's URL: what went wrong; what to do.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.errors import ApiError, ApiUnreachable
from driver.kube.client import KubeClient
from driver.kube.connection import NotConnected, Place
from driver.kube.credentials import Credentials, Endpoint, FixedHeader, Tls
from driver.kube.failures import describe_failure
from driver.kube.resources import NODES, RESOURCE_SLICES

PKI = Path(__file__).parents[2] / "fakes" / "tls"
CA = (PKI / "ca.crt").read_text()
LIBRARY_WORDS = re.compile(r"HTTPSConnectionPool|Max retries|NewConnection|Errno|_ssl\.c|Traceback|object at 0x|Exception")

ADDRESS = "is the address right (`server` of the kubeconfig, KUBERNETES_SERVICE_HOST in a pod)?"
IS_API = f"is an API server there, and {ADDRESS}"
BUSY = "the server may be starting, ending or overloaded: its log says"
NOT_TLS = f"what it speaks is not TLS; is it http:// and not https://? {IS_API}"
OF_CA = (
    "is it the server that the CA is of (certificate-authority of the kubeconfig, ca.crt of the service account)? "
    "Behind a proxy that opens TLS, give the proxy's CA"
)
CLIENT = "look at the client certificate of the kubeconfig's user"


def ask(server: str, *, tls: Tls | None = None, proxy: str = "") -> str:
    """The text after the server's URL of what a GET of a node fails with."""
    endpoint = Endpoint(server=server, tls=tls or Tls(ca_pem=CA), proxy_url=proxy)
    credentials = Credentials(endpoint=endpoint, authorization=FixedHeader("Bearer t"), source="a test")
    client = KubeClient(credentials, timeout_s=0.3, connect_timeout_s=0.3)
    with contextlib.closing(client), pytest.raises(ApiUnreachable) as caught:
        client.get(NODES, "a")
    text = str(caught.value)
    assert not LIBRARY_WORDS.search(text), text
    asked, _, rest = text.partition(": no answer from the API server at ")
    assert asked == "GET /api/v1/nodes/a"
    assert rest.startswith(server)
    return rest.removeprefix(server).removeprefix(": ")


@contextlib.contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port at which every connection is given to ``talk``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        talk(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)  # else accept keeps it


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def says(*pieces: bytes) -> Callable[[socket.socket], None]:
    """After the request."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)

    return talk


def resets(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stays_silent(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(65536):
            continue


def speaks_tls(name: str, *, wants_client: bool = False, ca: str = "ca.crt") -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / f"{name}.crt", PKI / f"{name}.key")
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(PKI / ca)

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as secured:
            try:
                secured.do_handshake()
                secured.recv(65536)
            except ssl.SSLError:
                while socket.socket.recv(secured, 65536):  # else what the server says of it may be lost
                    continue

    return talk


@pytest.mark.parametrize(
    ("talk", "text"),
    [
        pytest.param(says(), f"it closed the connection without an answer; {BUSY}; or {IS_API}", id="closed without a word"),
        pytest.param(resets, f"connection reset by the other side; {BUSY}; or {IS_API}", id="reset"),
        pytest.param(stays_silent, f"timed out, nothing came for 0.3 s; {BUSY}", id="silent"),
        pytest.param(
            says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
            f"what came is no HTTP: SSH-2.0-OpenSSH_9.6; {IS_API}",
            id="another protocol",
        ),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"),
            f"the connection ended 7 bytes before the answer did; {IS_API}",
            id="half an answer",
        ),
    ],
)
def test_a_server_that_does_not_answer_is_told_as_it_is(talk: Callable[[socket.socket], None], text: str) -> None:
    with listening(talk) as port:
        assert ask(f"http://127.0.0.1:{port}") == text


EXPIRED, FUTURE, CERT = ((PKI / f"{name}.crt").read_text() for name in ("expired", "future", "client"))
KEY = (PKI / "client.key").read_text()


@pytest.mark.parametrize(
    ("talk", "tls", "text"),
    [
        pytest.param(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Tls(ca_pem=CA), NOT_TLS, id="plain HTTP"),
        pytest.param(
            says(), Tls(ca_pem=CA), f"it closed the connection in the middle of TLS; {IS_API}", id="closed in the handshake"
        ),
        pytest.param(
            stays_silent,
            Tls(ca_pem=CA),
            f"timed out, no connection within 0.3 s; is that machine up, does a firewall drop it, and {ADDRESS}",
            id="silent in the handshake",
        ),
        pytest.param(
            speaks_tls("server"),
            Tls(ca_pem=FUTURE),
            f"its certificate is not signed by a CA that is trusted here (unable to get local issuer certificate); {OF_CA}",
            id="wrong CA",
        ),
        pytest.param(
            speaks_tls("expired"),
            Tls(ca_pem=CA),
            f"its certificate is not signed by a CA that is trusted here (self-signed certificate); {OF_CA}",
            id="self-signed",
        ),
        pytest.param(
            speaks_tls("expired"),
            Tls(ca_pem=EXPIRED),
            "its certificate has expired (certificate has expired); "
            "renew it there (`kubeadm certs renew apiserver`), or is the clock here wrong?",
            id="expired",
        ),
        pytest.param(
            speaks_tls("future"),
            Tls(ca_pem=FUTURE),
            "its certificate is not valid yet (certificate is not yet valid); is the clock right, here and there?",
            id="not valid yet",
        ),
        pytest.param(
            speaks_tls("named"),
            Tls(ca_pem=CA),
            "its certificate is for another name (IP address mismatch, certificate is not valid for '127.0.0.1'); "
            f"{ADDRESS} If it is, set tls-server-name in the kubeconfig",
            id="another address",
        ),
        pytest.param(
            speaks_tls("named"),
            Tls(ca_pem=CA, server_name="other.internal"),
            "its certificate is for another name (Hostname mismatch, certificate is not valid for 'other.internal'); "
            f"{ADDRESS} If it is, set tls-server-name in the kubeconfig",
            id="another name",
        ),
        pytest.param(
            speaks_tls("server", wants_client=True),
            Tls(ca_pem=CA),
            f"it wants a client certificate, and there is none; {CLIENT}",
            id="no client certificate",
        ),
        pytest.param(
            speaks_tls("server", wants_client=True, ca="future.crt"),
            Tls(ca_pem=CA, client_cert_pem=CERT, client_key_pem=KEY),
            f"our client certificate is not signed by a CA that it trusts; {CLIENT}",
            id="a client certificate of another CA",
        ),
    ],
)
def test_what_is_wrong_with_tls_is_told_apart(talk: Callable[[socket.socket], None], tls: Tls, text: str) -> None:
    with listening(talk) as port:
        assert ask(f"https://127.0.0.1:{port}", tls=tls) == text


def test_a_port_at_which_nothing_listens() -> None:
    text = ask(f"http://127.0.0.1:{closed_port()}")
    assert text == f"connection refused: nothing listens there; is the server up, and {ADDRESS}"


def test_a_name_that_dns_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether this machine can reach a DNS server decides which of the two is said."""
    text = ask("http://api.invalid:6443")
    assert text in {
        f"there is no host of the name 'api.invalid'; {ADDRESS} Does DNS know it here?",
        "the name 'api.invalid' cannot be looked up now; does DNS answer here (/etc/resolv.conf)?",
    }


def test_a_host_that_is_no_name() -> None:
    text = ask(f"http://{'a' * 64}.b:6443")
    assert text == f"'{'a' * 64}.b' is no name of a host; {ADDRESS}"


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        pytest.param(says(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), "407 Proxy Authentication", id="refuses"),
        pytest.param(says(b"SSH-2.0\r\n\r\n"), "SSH-2.0", id="is none"),
        pytest.param(says(), "closed the connection", id="hangs up"),
    ],
)
def test_a_proxy_in_the_way_is_named(talk: Callable[[socket.socket], None], words: str) -> None:
    with listening(talk) as port:
        text = ask("http://10.0.0.1:6443", proxy=f"http://127.0.0.1:{port}")
        assert text.startswith(f" through the proxy 127.0.0.1:{port}: the proxy: ")
    assert words in text
    assert text.endswith("look at HTTPS_PROXY and NO_PROXY, or proxy-url of the kubeconfig")


def test_a_proxy_that_is_not_there_is_not_taken_for_the_server() -> None:
    port = closed_port()
    text = ask("http://10.0.0.1:6443", proxy=f"http://127.0.0.1:{port}")
    assert text.startswith(f" through the proxy 127.0.0.1:{port}: the proxy: connection refused: nothing listens there; ")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EHOSTUNREACH, "no route to host; is that machine up"),
        (errno.ENETUNREACH, "no route to that network"),
        (errno.EMFILE, "as many files and connections open as it may"),
        (errno.EPERM, "does not let the connection out"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_only_a_broken_network_shows(number: int, words: str) -> None:
    err = NotConnected("x", 5.0)
    err.__cause__ = OSError(number, "Input/output error")
    assert words in describe_failure(err, Place(host="fd00::1", port=6443), silence_s=30.0)


@pytest.mark.parametrize("path", ["404 page not found\n", '{"kind":"Status","reason":"NotFound","message":"x","code":404}'])
def test_a_server_without_dra_is_told_with_what_it_should_be(path: str) -> None:
    answer = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(path)}\r\n\r\n{path}".encode()
    with listening(says(answer)) as port:
        server = f"http://127.0.0.1:{port}"
        client = KubeClient(Credentials(endpoint=Endpoint(server=server), authorization=FixedHeader(), source="a test"))
        with pytest.raises(ApiError) as caught:
            client.list_all(RESOURCE_SLICES)
        client.close()
    assert str(caught.value).endswith(
        f"{server} does not serve resource.k8s.io/v1: "
        "DRA is in Kubernetes 1.34 and later: is it such a cluster? (kubectl version)"
    )
