"""One HTTP request to the API server: connections, TLS, the header that says who we are, and what may go wrong on the way.

Nothing is tried again here but two things that cannot have had an effect: an idempotent request whose connection the server
had closed while it idled, and a request answered 401 once the token was read again.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, LocationValueError, ProtocolError

from driver.errors import ApiUnreachable, Forbidden, SettingsInvalid
from driver.kube.credentials import Credentials, Tls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3 import BaseHTTPResponse

_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
_KEEPALIVE = (
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 40_000),
)
"""A server that vanished without a word (a node that lost power) is noticed within 40 s, also by a watch that only listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``read_timeout_s`` is the longest silence that is borne, not the length of the whole answer."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"
    read_timeout_s: float = 30.0

    def __str__(self) -> str:
        """The request as messages name it."""
        return f"{self.method} {self.path}" + (f"?{urlencode(self.query, safe='=,.')}" if self.query else "")


class Transport:
    """A pool of connections to one server; any thread may use it."""

    def __init__(self, credentials: Credentials, *, connect_timeout_s: float = 5.0) -> None:
        self._credentials = credentials
        self._server = credentials.endpoint.server
        self._connect_timeout_s = connect_timeout_s
        self._headers = {"Accept": "application/json", "User-Agent": "gpu-dra"}
        self._pool = _build_pool(credentials)

    def send(self, request: Request) -> BaseHTTPResponse:
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

    def _send_once_more_if_closed(self, request: Request) -> BaseHTTPResponse:
        try:
            return self._send(request)
        except ProtocolError as err:
            if request.method not in _IDEMPOTENT:
                raise _unreachable(request, err) from err
        with errors_mapped(request):
            return self._send(request)

    def _send(self, request: Request) -> BaseHTTPResponse:
        headers = dict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            authorization = self._credentials.authorization.read_header()
        except SettingsInvalid as err:
            raise Forbidden(str(request), 401, str(err)) from err
        if authorization:
            headers["Authorization"] = authorization
        url = self._server + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        timeout = urllib3.Timeout(connect=self._connect_timeout_s, read=request.read_timeout_s)
        try:
            return self._pool.urlopen(
                request.method,
                url,
                body=request.body,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except ProtocolError:
            raise
        except (HTTPError, OSError) as err:
            raise _unreachable(request, err) from err


@contextmanager
def errors_mapped(request: Request) -> Iterator[None]:
    """Turn what urllib3 raises, also while a body is read, into ``ApiUnreachable``."""
    try:
        yield
    except (HTTPError, OSError, ValueError) as err:
        raise _unreachable(request, err) from err


def _unreachable(request: Request, err: Exception) -> ApiUnreachable:
    return ApiUnreachable(str(request), 0, f"no answer from the API server: {err}"[:500])


def _build_pool(credentials: Credentials) -> urllib3.PoolManager:
    endpoint = credentials.endpoint
    context = _build_tls(endpoint.tls, credentials.source) if endpoint.server.startswith("https://") else None
    settings: dict[str, object] = {"maxsize": 8, "socket_options": _KEEPALIVE}
    if context is not None:
        settings["ssl_context"] = context
        if not endpoint.tls.is_verified:
            settings |= {"cert_reqs": "CERT_NONE", "assert_hostname": False}
            warnings.filterwarnings("ignore", category=urllib3.exceptions.InsecureRequestWarning)
        if endpoint.tls.server_name:
            settings["server_hostname"] = endpoint.tls.server_name
    try:
        if endpoint.proxy_url:
            return urllib3.ProxyManager(endpoint.proxy_url, num_pools=1, **settings)  # type: ignore[arg-type]
        return urllib3.PoolManager(num_pools=1, **settings)  # type: ignore[arg-type]
    except (LocationValueError, HTTPError, ValueError) as err:
        raise SettingsInvalid(
            f"{credentials.source}: proxy {endpoint.proxy_url!r}: {err}; only http and https proxies work"
        ) from err


def _build_tls(tls: Tls, source: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=tls.ca_pem or None)
    except (ssl.SSLError, ValueError) as err:
        raise SettingsInvalid(f"{source}: the certificate authority is not PEM that OpenSSL reads: {err}") from err
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # default since Python 3.13; many clusters' own CAs lack what it wants
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
