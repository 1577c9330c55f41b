"""HTTP/1.1 on one connection to the API server, by the standard library: straight, or through an HTTP proxy's tunnel.

A claim is read at each prepare, so what a request costs counts: the standard library takes half of what urllib3 does, and its
modules are in memory anyway.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 40_000),
)
"""A server that vanished without a word (a node that lost power) is noticed within 40 s, also by a watch that only listens."""


class AnswerBroken(OSError):
    """The connection ended in the middle of an answer, or what came is no HTTP."""


class NotConnected(OSError):
    """There is no connection, and nothing was sent; the cause says why. ``waited_s``: how long a step of it may take."""

    def __init__(self, text: str, waited_s: float) -> None:
        super().__init__(text)
        self.waited_s = waited_s


class ConnectionLost(OSError):
    """The connection broke before a byte of the answer came: the server may have closed it while it idled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to connect. ``tls`` is None for plain HTTP; ``tls_name`` is whom the certificate must name."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    tls_name: str = ""
    proxy: tuple[str, int] | None = None
    """Host and port of an HTTP proxy that is asked for a tunnel."""
    proxy_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The server as messages name it."""
        return f"{'http' if self.tls is None else 'https'}://{_join(self.host, self.port)}"

    @property
    def proxy_name(self) -> str:
        """The proxy as messages name it; empty where there is none."""
        return _join(*self.proxy) if self.proxy else ""


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Connection:
    """One request at a time, over one socket."""

    def __init__(self, place: Place, *, connect_timeout_s: float) -> None:
        """Connect.

        Raises:
            NotConnected: nothing was sent.
        """
        self._http = _Http(place, connect_timeout_s)
        try:
            self._http.connect()
        except (OSError, UnicodeError, http.client.HTTPException) as err:  # the last is a proxy's answer that is none
            self._http.close()
            raise NotConnected(str(err) or type(err).__name__, connect_timeout_s) from err
        except BaseException:
            self._http.close()
            raise
        self.place = place
        self.socket: socket.socket = self._http.sock
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def is_usable(self) -> bool:
        """False once the server has closed the idle connection, or has said something that nobody asked for."""
        return not self._poll.poll(0)

    def exchange(
        self,
        request: tuple[str, str, bytes | None, Mapping[str, str]],
        *,
        timeout_s: float,
        give_back: Callable[[Connection], None],
    ) -> Answer:
        """Send a request (method, path with query, body, headers), and read the head of its answer.

        ``timeout_s`` is the longest silence that is borne, from here to the end of the answer.

        Raises:
            OSError: ``ConnectionLost`` where nothing came at all, ``AnswerBroken``, ``TimeoutError``.
        """
        self.socket.settimeout(timeout_s)
        method, path, body, headers = request
        try:
            self._http.request(method, path, body=body, headers=dict(headers))
            return Answer(self, self._http.getresponse(), give_back)
        except (TimeoutError, ssl.SSLError):
            raise
        except OSError as err:  # http.client.RemoteDisconnected is one
            raise ConnectionLost(str(err)) from err
        except http.client.HTTPException as err:
            raise AnswerBroken(f"what came is no HTTP: {str(err).strip()[:80] or type(err).__name__}") from err

    def shutdown(self) -> None:
        """Wake whoever reads; by any thread."""
        socket.socket.shutdown(self.socket, socket.SHUT_RD)  # SSLSocket's own would take TLS away below the reader

    def close(self) -> None:
        """Give the connection up."""
        self._http.close()
        self.socket.close()

    def __del__(self) -> None:
        """A client that is dropped takes its idle connections along."""
        if hasattr(self, "socket"):  # else there never was a connection
            self.close()


class Answer:
    """The server's answer to one request: its head, and its body still to be read.

    Whoever reads it calls ``release_conn`` after the end, or ``close``.
    """

    def __init__(
        self, connection: Connection, response: http.client.HTTPResponse, give_back: Callable[[Connection], None]
    ) -> None:
        self._connection = connection
        self._response = response
        self._give_back = give_back
        self.status = response.status
        self.headers = response.headers
        self.place = connection.place

    def read1(self, most: int) -> bytes:
        """Some of the body as it comes; nothing at its end.

        Raises:
            OSError: ``AnswerBroken`` where the connection ends before the body does, ``TimeoutError``.
        """
        try:
            data = self._response.read1(most)
        except (http.client.HTTPException, ValueError) as err:  # a chunk's size that is no number is a ValueError
            raise AnswerBroken(f"the answer broke off: {err or type(err).__name__}") from err
        if not data and self._response.length:
            raise AnswerBroken(f"the connection ended {self._response.length} bytes before the answer did")
        return data

    def release_conn(self) -> None:
        """The body was read to its end: the connection may serve another request."""
        is_kept = not self._response.will_close
        self._response.close()
        if is_kept:
            self._give_back(self._connection)
        else:
            self._connection.close()

    def shutdown(self) -> None:
        """Wake whoever reads the body; by any thread."""
        self._connection.shutdown()

    def close(self) -> None:
        """Give up the connection, wherever the body is."""
        self._response.close()
        self._connection.close()


class _Http(http.client.HTTPConnection):
    """``http.client``'s own for TLS knows one name alone for where it connects to and for whom the certificate is."""

    auto_open = 0  # what was closed is not opened again behind our back

    def __init__(self, place: Place, connect_timeout_s: float) -> None:
        super().__init__(*(place.proxy or (place.host, place.port)), timeout=connect_timeout_s)
        if place.proxy:
            self.set_tunnel(place.host, place.port, dict(place.proxy_headers))
        self._place = place

    def connect(self) -> None:
        super().connect()
        for option in KEEPALIVE:
            self.sock.setsockopt(*option)
        if self._place.tls is not None:
            self.sock = self._place.tls.wrap_socket(self.sock, server_hostname=self._place.tls_name)
