"""A real HTTP server that behaves as a kube-apiserver does, as far as this program asks it anything.

It has resource versions, conflicts, preconditions, generated names, selectors, pages, watches with bookmarks and 410, refuses
what the API refuses, drops fields of gates that are off, counts requests by verb, and fails on demand. ``tests/contract/kube``
runs the same cases against it and against the real one.

    with FakeKubeApi() as api:
        client = KubeClient(api.credentials())
        api.create("nodes", {"metadata": {"name": "node-a"}})
        api.fail(Fault(verb="list", status=500, times=3))
"""

from __future__ import annotations

import contextlib
import copy
import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from driver.kube.credentials import Authorization, Credentials, Endpoint, FixedHeader, Tls
from tests.fakes.kube_apply import ApplyBook
from tests.fakes.kube_http import Handler
from tests.fakes.kube_objects import KubeObjects

Json = dict[str, Any]


@dataclass(kw_only=True)
class Fault:
    """What to do to the next ``times`` requests of ``verb`` and ``resource`` (``*``: any).

    ``status`` answers with a Status; ``delay`` waits and then serves; ``drop`` cuts the connection before an answer; ``raw``
    sends ``body`` as a page; ``stream`` sends ``body`` as the beginning of a watch and cuts it.
    """

    verb: str = "*"
    resource: str = "*"
    times: int = 1
    kind: Literal["status", "delay", "drop", "raw", "stream"] = "status"
    status: int = 500
    reason: str = "InternalError"
    message: str = "played by the fake"
    retry_after_s: int = 0
    delay_s: float = 0.0
    body: bytes = b""


class FakeKubeApi(KubeObjects):
    """The server. ``requests`` counts ``(verb, resource)``; ``history`` has them in order."""

    def __init__(self, *, gates_off: Iterable[str] = (), tls: ssl.SSLContext | None = None) -> None:
        super().__init__(gates_off=gates_off)
        self.version = {"major": "1", "minor": "37", "gitVersion": "v1.37.2"}
        self.tokens: set[str] = set()
        self.no_json: set[str] = set()
        """Claims that JSON cannot change: they came with white space in opaque parameters (``driver.kube.protobuf``)."""
        self.applied = ApplyBook()
        self.bookmarks = 0
        self.is_stopping = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self.history: list[tuple[str, str]] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._tls = tls
        self._port = 0
        self._server: _Server | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it listens; the same again after ``stop`` and ``start``."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def credentials(self, authorization: Authorization | None = None, tls: Tls | None = None) -> Credentials:
        """What a ``KubeClient`` needs."""
        endpoint = Endpoint(server=self.url, tls=tls or Tls())
        return Credentials(endpoint=endpoint, authorization=authorization or FixedHeader(), source="the fake API server")

    def write_kubeconfig(self, path: Path, *, token: str = "") -> Path:
        """A kubeconfig (JSON is YAML) for programs that run as processes."""
        user = {"token": token} if token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path.write_text(json.dumps(config))
        return path

    def start(self) -> None:
        """Listen (again)."""
        self.is_stopping = False
        self._server = _Server(("127.0.0.1", self._port), type("BoundHandler", (Handler,), {"api": self}))
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="fake-kube-api", daemon=True).start()

    def stop(self) -> None:
        """Go away as a killed server does: all connections break, nobody listens; the objects stay."""
        server, self._server = self._server, None
        if server is None:
            return
        self.is_stopping = True
        server.shutdown()
        server.server_close()
        server.close_connections()
        with self.store.changed:
            self.store.changed.notify_all()

    @property
    def open_connections(self) -> int:
        """How many clients' connections there are now."""
        return 0 if self._server is None else self._server.count_connections()

    def close_idle_connections(self) -> None:
        """Close every connection, as a server does with those that were idle for too long."""
        if self._server is not None:
            self._server.close_connections()

    def __enter__(self) -> FakeKubeApi:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def fail(self, fault: Fault) -> None:
        """Play a fault from the next matching request on."""
        with self._lock:
            self._faults.append(copy.copy(fault))

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            self._faults.clear()

    def note_request(self, verb: str, resource: str) -> Fault | None:
        """Count a request; the fault to play on it, if any."""
        with self._lock:
            self.requests[verb, resource] += 1
            self.history.append((verb, resource))
            for fault in self._faults:
                if fault.times > 0 and fault.verb in {"*", verb} and fault.resource in {"*", resource}:
                    fault.times -= 1
                    return fault
        return None

    def count(self, *verbs: str, resource: str = "") -> int:
        """Requests of these verbs (all if none is named), of one resource or of all."""
        with self._lock:
            return sum(
                number
                for (verb, plural), number in self.requests.items()
                if (not verbs or verb in verbs) and (not resource or plural == resource)
            )

    def writes(self) -> int:
        """Requests that change something."""
        return self.count("create", "update", "patch", "delete", "deletecollection")

    def forget_requests(self) -> None:
        """Start counting afresh."""
        with self._lock:
            self.requests.clear()
            self.history.clear()

    def send_bookmarks(self) -> None:
        """Every open watch gets a bookmark."""
        with self.store.changed:
            self.bookmarks += 1
            self.store.changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def count_connections(self) -> int:
        with self._guard:
            return len(self._connections)

    def close_connections(self) -> None:
        with self._guard:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""
