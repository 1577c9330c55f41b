"""``grpc.health.v1.Health`` for the kubelet's probes, on a socket or an address of its own.

Two questions, two services: *readiness* is whether the kubelet can use the plugin now, *liveness* whether a restart would
help. A plugin that the kubelet never asked is alive and not ready; one whose calls no longer come through is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import grpc

from driver.errors import SettingsInvalid, SocketUnusable
from driver.pb.grpc_health.v1 import health_pb2, health_pb2_grpc
from driver.plugin import sockets
from driver.plugin.listener import UnixListener, make_server

LIVENESS = "liveness"
READINESS = "readiness"
WHOLE_SERVER = ""
"""A probe that names no service asks for readiness."""

_STOP_S = 1.0


class ProbeService(health_pb2_grpc.HealthServicer):
    """Asks the one question that belongs to the service's name; nothing is remembered between probes."""

    def __init__(self, questions: Mapping[str, Callable[[], bool]]) -> None:
        self._questions = questions

    def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """SERVING or NOT_SERVING; NOT_FOUND for a name that is none of ours."""
        question = self._questions.get(request.service)
        if question is None:
            names = ", ".join(sorted(repr(name) for name in self._questions))
            context.abort(grpc.StatusCode.NOT_FOUND, f"no such service; there are {names}")
        status = health_pb2.HealthCheckResponse.SERVING if question() else health_pb2.HealthCheckResponse.NOT_SERVING
        return health_pb2.HealthCheckResponse(status=status)


class ProbeServer:
    """The probe service at ``address``: ``unix:/absolute/path``, or ``host:port``."""

    def __init__(self, address: str, questions: Mapping[str, Callable[[], bool]]) -> None:
        self._address = address
        self._server = make_server("probes", max_workers=2, max_calls=8)
        health_pb2_grpc.add_HealthServicer_to_server(ProbeService(questions), self._server)
        path = parse_unix_path(address)
        self._listener = UnixListener(self._server, path) if path is not None else None
        self.port = 0

    def start(self) -> None:
        """Serve.

        Raises:
            SocketUnusable: the address cannot be had.
        """
        if self._listener is not None:
            self._listener.open()
            return
        try:
            self.port = self._server.add_insecure_port(self._address)
        except RuntimeError as err:
            raise SocketUnusable(f"serving probes at {self._address}: the address cannot be had; is it in use?") from err
        self._server.start()

    def stop(self) -> None:
        """Refuse what comes, end what runs."""
        if self._listener is not None:
            self._listener.remove_file()
        self._server.stop(_STOP_S).wait()


def parse_unix_path(address: str) -> Path | None:
    """The path of ``unix:/path``; None for a network address.

    Raises:
        SettingsInvalid: the path is relative, or longer than the kernel takes.
    """
    if not address.startswith("unix:"):
        return None
    path = Path(address.removeprefix("unix:"))
    size = len(str(path).encode("utf-8", "surrogateescape"))
    if not path.is_absolute() or size > sockets.MAX_PATH_BYTES:
        limit = sockets.MAX_PATH_BYTES
        raise SettingsInvalid(
            f"probe address {address!r:.200}: an absolute path of at most {limit} bytes is needed, has {size}"
        )
    return path
