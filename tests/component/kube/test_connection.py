"""HTTP as servers and proxies speak it, byte by byte: what is an answer, what is none, and which connection serves again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from driver.errors import ApiError, ApiUnreachable, SettingsInvalid
from driver.kube.client import KubeClient
from driver.kube.connection import AnswerBroken, Connection, ConnectionLost, Place
from driver.kube.credentials import Credentials, Endpoint, FixedHeader
from driver.kube.resources import NODES

HEAD = b"HTTP/1.1 200 OK\r\n"
NODE = b'{"metadata": {"name": "a"}}'


class Server:
    """Answers the requests of each connection with the given pieces, each sent by itself; then hangs up."""

    def __init__(self, *answers: Sequence[bytes]) -> None:
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heads: list[bytes] = []
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def connect(self, proxy: tuple[str, int] | None = None) -> Connection:
        return Connection(Place(host="127.0.0.1", port=self.port, proxy=proxy), connect_timeout_s=5.0)

    def client(self, proxy_url: str = "") -> KubeClient:
        endpoint = Endpoint(server=f"http://127.0.0.1:{self.port}/below", proxy_url=proxy_url)
        return KubeClient(Credentials(endpoint=endpoint, authorization=FixedHeader("Bearer t"), source="a test"), timeout_s=5.0)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):
            for pieces in self._answers:
                head = connection.recv(65536)
                if not head:
                    return
                self.heads.append(head)
                for piece in pieces:
                    connection.sendall(piece)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(*answers: Sequence[bytes]) -> Server:
        made.append(Server(*answers))
        return made[-1]

    yield start
    for each in made:
        each.close()


def read_all(connection: Connection, kept: list[Connection] | None = None) -> tuple[int, bytes]:
    """Status and body of the answer to a request; ``kept`` gets the connection if it may serve another."""
    answer = connection.exchange(("GET", "/", None, {}), timeout_s=5.0, give_back=([] if kept is None else kept).append)
    body = bytearray()
    while part := answer.read1(7):
        body += part
    answer.release_conn()
    return answer.status, bytes(body)


@pytest.mark.parametrize(
    ("pieces", "body", "is_kept"),
    [
        pytest.param([HEAD + b"Content-Length: 11\r\n\r\nhello world"], b"hello world", True, id="in one piece"),
        pytest.param([HEAD, b"content-LENGTH:", b" 11\r\n", b"\r\n", b"hello", b" world"], b"hello world", True, id="in many"),
        pytest.param([HEAD + b"Content-Length: 0\r\n\r\n"], b"", True, id="an empty body"),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], b"", True, id="no body"),
        pytest.param([HEAD + b"\r\nhello world"], b"hello world", False, id="until the connection ends"),
        pytest.param(
            [HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi"], b"hi", False, id="the server is about to hang up"
        ),
        pytest.param([b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"], b"hi", False, id="HTTP/1.0"),
        pytest.param(
            [b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nhi"],
            b"hi",
            True,
            id="an interim answer first",
        ),
        pytest.param(
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;name=value\r\n world\r\n0\r\n\r\n"],
            b"hello world",
            True,
            id="chunks",
        ),
        pytest.param(
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"000", b"5\r", b"\nhel", b"lo", b"\r", b"\n0\r\nA: b\r\n\r\n"],
            b"hello",
            True,
            id="chunks in pieces, headers after them",
        ),
    ],
)
def test_an_answer_is_read_to_its_end(
    serve: Callable[..., Server], pieces: Sequence[bytes], body: bytes, *, is_kept: bool
) -> None:
    kept: list[Connection] = []
    status, read = read_all(serve(pieces).connect(), kept)
    assert (status, read, len(kept)) == (204 if pieces[0].startswith(b"HTTP/1.1 204") else 200, body, int(is_kept))


@pytest.mark.parametrize(
    ("pieces", "error", "words"),
    [
        pytest.param([], ConnectionLost, "without response", id="nothing"),
        pytest.param([b"HTTP/1.1 20"], AnswerBroken, "no HTTP", id="half a head"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n\r\n"], AnswerBroken, "no HTTP", id="another protocol"),
        pytest.param([b"HTTP/1.1 abc\r\n\r\n"], AnswerBroken, "no HTTP", id="a status that is no number"),
        pytest.param([b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000], AnswerBroken, "no HTTP", id="a head without end"),
        pytest.param([HEAD + b"Content-Length: 9\r\n\r\nhi"], AnswerBroken, "7 bytes before", id="half a body"),
        pytest.param([HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhi"], AnswerBroken, "broke off", id="half a chunk"),
        pytest.param([HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nhi"], AnswerBroken, "broke off", id="no hex"),
        pytest.param(
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 70_000], AnswerBroken, "broke off", id="a size without end"
        ),
    ],
)
def test_what_is_no_whole_answer_is_an_error(
    serve: Callable[..., Server], pieces: Sequence[bytes], error: type[OSError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        read_all(serve(pieces).connect())
    assert type(caught.value) is error


def test_a_connection_on_which_something_came_unasked_is_not_used(serve: Callable[..., Server]) -> None:
    """What a server says after its answer would be taken for the next one."""
    server = serve([HEAD + b"Content-Length: 2\r\n\r\nhi"], [HEAD + b"Content-Length: 2\r\n\r\n"])
    kept: list[Connection] = []
    connection = server.connect()
    assert connection.is_usable()
    read_all(connection, kept)
    assert kept == [connection]
    connection.socket.sendall(b"GET")
    while connection.is_usable():
        continue


def test_what_a_request_looks_like(serve: Callable[..., Server]) -> None:
    """The path of the server's own URL stands before ours."""
    body = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(NODE), NODE)
    server = serve([body], [body])
    client = server.client()
    assert [client.get(NODES, "a").metadata.name for _ in range(2)] == ["a", "a"]
    assert server.connections == 1
    line, *headers = server.heads[0].removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert line == b"GET /below/api/v1/nodes/a HTTP/1.1"
    assert set(headers) == {
        b"Host: 127.0.0.1:%d" % server.port,
        b"User-Agent: gpu-dra",
        b"Accept: application/json",
        b"Accept-Encoding: identity",
        b"Authorization: Bearer t",
    }
    assert server.heads[1] == server.heads[0]
    client.close()


def test_a_proxy_is_asked_for_a_tunnel_and_is_told_no_more_than_where_to(serve: Callable[..., Server]) -> None:
    server = serve()
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    proxy = serve([established], [HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(NODE), NODE)])
    client = server.client(f"http://user:pass%20word@127.0.0.1:{proxy.port}")
    assert client.get(NODES, "a").metadata.name == "a"
    line, *headers = proxy.heads[0].removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert line.startswith(b"CONNECT 127.0.0.1:%d HTTP/1." % server.port)
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=" in headers
    assert not any(each.startswith(b"Authorization") for each in headers)
    assert proxy.heads[1].startswith(b"GET /below/api/v1/nodes/a HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
    assert server.connections == 0
    client.close()


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        pytest.param([], ApiUnreachable, id="it hangs up"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n\r\n"], ApiUnreachable, id="it is none"),
        pytest.param([b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"], ApiUnreachable, id="it refuses"),
    ],
)
def test_what_a_proxy_does_wrong_is_an_error_of_our_tree(
    serve: Callable[..., Server], pieces: Sequence[bytes], error: type[ApiError]
) -> None:
    proxy = serve(pieces)
    client = serve().client(f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(error) as caught:
        client.get(NODES, "a")
    assert type(caught.value) is error
    client.close()


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://", "http://a:b"])
def test_a_proxy_of_another_kind_is_a_setting_that_is_wrong(serve: Callable[..., Server], url: str) -> None:
    with pytest.raises(SettingsInvalid, match="proxy"):
        serve().client(url)
