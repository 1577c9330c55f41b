"""One HTTP request to the API server: connections, TLS, the header that says who we are, and what may go wrong on the way.

Nothing is tried again here but two things that cannot have had an effect: an idempotent request whose connection the server
had closed while it idled, and a request answered 401 once the token was read again.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

from driver.errors import ApiUnreachable, Forbidden, SettingsInvalid
from driver.kube.connection import Answer, Connection, ConnectionLost, Place
from driver.kube.credentials import Credentials, Tls, encode_basic
from driver.kube.failures import describe_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``read_timeout_s`` is the longest silence that is borne, not the length of the whole answer."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    read_timeout_s: float = 30.0
    is_sent_once: bool = False
    """Not sent again on a new connection, so that it takes no longer than its two time-outs."""

    def __str__(self) -> str:
        """The request as messages name it."""
        return f"{self.method} {self.path}" + (f"?{urlencode(self.query, safe='=,.')}" if self.query else "")


class Transport:
    """A pool of connections to one server; any thread may use it. So many ``connections`` are kept while nobody uses them."""

    def __init__(self, credentials: Credentials, *, connect_timeout_s: float = 5.0, connections: int = 8) -> None:
        self._credentials = credentials
        self._headers = {"User-Agent": "gpu-dra"}
        endpoint = credentials.endpoint
        context = build_tls(endpoint.tls, credentials.source) if endpoint.server.startswith("https://") else None
        self._place = _build_place(credentials, context)
        self._pool = _Pool(self._place, connections, connect_timeout_s)
        self._prefix = urlsplit(endpoint.server).path

    def send(self, request: Request) -> Answer:
        """The server's answer, whatever its status, with its body still to be read.

        Raises ``ApiUnreachable`` where there is no answer, and ``Forbidden`` where there is nothing to say who we are.
        """
        response = self._send_once_more_if_closed(request)
        if response.status == 401 and self._credentials.authorization.forget():
            response.close()  # not read to its end, which may never come
            response = self._send_once_more_if_closed(request)
        return response

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _send_once_more_if_closed(self, request: Request) -> Answer:
        headers = self._build_headers(request)
        with errors_mapped(request, self._place):
            try:
                return self._send(request, headers)
            except ConnectionLost:
                if request.method not in _IDEMPOTENT or request.is_sent_once:
                    raise
            return self._send(request, headers)

    def _send(self, request: Request, headers: Mapping[str, str]) -> Answer:
        path = self._prefix + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        connection = self._pool.take()
        try:
            return connection.exchange(
                (request.method, path, request.body, headers),
                timeout_s=request.read_timeout_s,
                give_back=self._pool.give_back,
            )
        except BaseException:
            connection.close()
            raise

    def _build_headers(self, request: Request) -> Mapping[str, str]:
        headers = {**self._headers, "Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            authorization = self._credentials.authorization.read_header()
        except SettingsInvalid as err:
            raise Forbidden(str(request), 401, str(err)) from err
        if authorization:
            headers["Authorization"] = authorization
        return headers


class _Pool:
    """Connections to one server. The one that was used last serves next, so that those too many fall idle."""

    def __init__(self, place: Place, connections: int, connect_timeout_s: float) -> None:
        self._place = place
        self._connect_timeout_s = connect_timeout_s
        self._idle_max = connections
        self._guard = threading.Lock()
        self._idle: list[Connection] = []

    def take(self) -> Connection:
        """One that waits, else a new one. Raises ``NotConnected``."""
        while True:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return Connection(self._place, connect_timeout_s=self._connect_timeout_s)
            if connection.is_usable():
                return connection
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """It may serve another request."""
        with self._guard:
            if len(self._idle) < self._idle_max:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close the idle connections."""
        with self._guard:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()


def _build_place(credentials: Credentials, context: ssl.SSLContext | None) -> Place:
    endpoint = credentials.endpoint
    parts = urlsplit(endpoint.server)
    host = parts.hostname or ""
    place = Place(
        host=host,
        port=parts.port or (443 if context is not None else 80),
        tls=context,
        tls_name=endpoint.tls.server_name or host,
    )
    return place if not endpoint.proxy_url else _through_proxy(place, endpoint.proxy_url, credentials.source)


def _through_proxy(place: Place, url: str, source: str) -> Place:
    """Raises ``SettingsInvalid`` for a proxy that is none of HTTP."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError as err:
        raise SettingsInvalid(f"{source}: proxy {url!r}: {err}") from err
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsInvalid(f"{source}: proxy {url!r}: give it as http://HOST:PORT; no other kind of proxy works")
    headers = {}
    if parts.username is not None:
        headers["Proxy-Authorization"] = encode_basic(unquote(parts.username), unquote(parts.password or ""))
    return replace(place, proxy=(parts.hostname, port), proxy_headers=headers)


@contextmanager
def errors_mapped(request: Request, place: Place) -> Iterator[None]:
    """Turn what goes wrong on the way, also while a body is read, into ``ApiUnreachable``."""
    try:
        yield
    except (OSError, ValueError) as err:
        raise ApiUnreachable(str(request), 0, describe_failure(err, place, silence_s=request.read_timeout_s)) from err


def build_tls(tls: Tls, source: str) -> ssl.SSLContext:
    """What connections are secured with. Raises ``SettingsInvalid`` for what OpenSSL does not read."""
    try:
        context = ssl.create_default_context(cadata=tls.ca_pem or None)
    except (ssl.SSLError, ValueError) as err:
        raise SettingsInvalid(f"{source}: the certificate authority is not PEM that OpenSSL reads: {err}") from err
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # default since Python 3.13; many clusters' own CAs lack what it wants
    context.set_alpn_protocols(["http/1.1"])
    if not tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.client_cert_pem:
        try:
            _load_client_cert(context, tls)
        except (ssl.SSLError, ValueError) as err:
            raise SettingsInvalid(f"{source}: the client certificate and key do not fit, or are not PEM: {err}") from err
    return context


def _load_client_cert(context: ssl.SSLContext, tls: Tls) -> None:
    """OpenSSL reads a client certificate from a file only: one that is gone again before anybody else could open it."""
    descriptor, name = tempfile.mkstemp(prefix="gpu-dra-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(tls.client_cert_pem.rstrip("\n") + "\n" + tls.client_key_pem)
        context.load_cert_chain(name, password=_no_password)
    finally:
        Path(name).unlink()


def _no_password() -> str:
    raise ValueError("the key is encrypted, and there is nobody to ask for its password")
