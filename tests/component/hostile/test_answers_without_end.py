"""An API server whose answers never end: none of them may keep a thread, or the memory, for itself."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from driver.errors import ApiError, ApiUnreachable, Forbidden
from driver.kube import answers, client
from driver.kube.client import KubeClient
from driver.kube.credentials import Credentials, Endpoint, FixedHeader, Tls
from driver.kube.resources import RESOURCE_CLAIMS

Answer: TypeAlias = Callable[[socket.socket, str], None]


class Renewed(FixedHeader):
    """As a token file that was written anew."""

    def forget(self) -> bool:
        return True


class RawServer:
    """Reads a request, and leaves the rest to ``answer``."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.requests = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def client(self) -> KubeClient:
        host, port = self._listener.getsockname()
        endpoint = Endpoint(server=f"http://{host}:{port}", tls=Tls())
        return KubeClient(Credentials(endpoint=endpoint, authorization=Renewed(), source="a test"), timeout_s=5.0)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while head := connection.recv(65536):
                self.requests += 1
                self._answer(connection, head.split(b" ")[1].decode())


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], RawServer]]:
    made: list[RawServer] = []

    def start(answer: Answer) -> RawServer:
        made.append(RawServer(answer))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_an_answer_that_trickles_ends_in_an_error(
    serve: Callable[[Answer], RawServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim's lock is held while the claim is read: without an end its unprepare would never get it (B17)."""
    monkeypatch.setattr(answers, "MAX_ANSWER_S", 0.3)

    def trickle(connection: socket.socket, _: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    started = time.monotonic()
    with pytest.raises(ApiUnreachable, match="was not whole after"):
        serve(trickle).client().get(RESOURCE_CLAIMS, "a", namespace="b")
    assert time.monotonic() - started < 4.0


def test_a_refusal_that_never_ends_is_not_read_to_its_end(serve: Callable[[Answer], RawServer]) -> None:
    def refuse(connection: socket.socket, _: str) -> None:
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000000000000\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with pytest.raises(Forbidden):
        serve(refuse).client().get(RESOURCE_CLAIMS, "a", namespace="b")


def test_a_list_whose_pages_never_end_is_an_error(
    serve: Callable[[Answer], RawServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_PAGES", 5)
    numbers = itertools.count()

    def page(connection: socket.socket, _: str) -> None:
        body = b'{"metadata": {"continue": "%d"}, "items": []}' % next(numbers)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    server = serve(page)
    with pytest.raises(ApiError, match="the list has no end"):
        server.client().list_all(RESOURCE_CLAIMS)
    assert server.requests == 5
