"""Pages over HTTP: ``/metrics`` of both halves, the controller's ``/healthz`` (would a restart help) and ``/readyz``.

Each answer is a line a person can read. A stand-by is ready: it does what it is there for. Requests are short and cheap; no
more than a handful are worked on at a time, the others wait their turn, and slow ones are cut off, so that nobody can take the
process's threads.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from driver import log
from driver.errors import SettingsInvalid, SocketUnusable

_LOG = log.logger(__name__)

MAX_REQUESTS = 8
"""At a time."""
REQUEST_S = 5.0
TURN_S = 2.0
"""How long a request waits for the first of those that are worked on to end: a hundred scrapers at once are all served, and a
probe among them."""
MAX_WAITING = 128
"""Connections that the kernel keeps for us meanwhile."""
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer."""

    status: int
    body: bytes
    content_type: str = TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether something is as it should be, and how it is, in plain words."""

    is_ok: bool
    text: str

    def page(self) -> Page:
        """200 or 503, with the words."""
        return Page(status=200 if self.is_ok else 503, body=f"{self.text}\n".encode())


Answer = Callable[[str], Page]
"""Makes a page; is given the request's ``Accept`` header."""


def build_pages(healthz: Callable[[], Health], readyz: Callable[[], Health], metrics: Answer) -> Mapping[str, Answer]:
    """What is served, by path."""
    return {"/healthz": lambda _: healthz().page(), "/readyz": lambda _: readyz().page(), "/metrics": metrics}


def parse_address(text: str) -> tuple[str, int]:
    """``host:port``, ``:port`` or ``[::1]:port``.

    Raises:
        SettingsInvalid: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsInvalid(f"address for pages {text!r:.200}: HOST:PORT or :PORT is needed")
    return host.removeprefix("[").removesuffix("]"), int(port)


class PageServer:
    """Serves ``pages`` at ``address``. ``port`` is where, also for port 0."""

    def __init__(self, address: str, pages: Mapping[str, Answer]) -> None:
        self._address = address
        self._where = parse_address(address)
        self._pages = pages
        self._server: _Server | None = None
        self.port = 0

    def start(self) -> None:
        """Serve, in threads of its own.

        Raises:
            SocketUnusable: the address cannot be had.
        """
        try:
            self._server = _Server(self._where, self._pages)
        except OSError as err:
            raise SocketUnusable(
                f"serving pages over HTTP at {self._address}: {err.strerror or err}; "
                "is the address in use? Is it this machine's?"
            ) from err
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="pages", daemon=True).start()

    def stop(self) -> None:
        """Refuse what comes; what runs is short."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


_EVERYWHERE = ("", "::")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = MAX_WAITING

    def __init__(self, where: tuple[str, int], pages: Mapping[str, Answer]) -> None:
        host, port = where
        if host in _EVERYWHERE and not socket.has_dualstack_ipv6():  # a kernel without IPv6 has no sockets of it at all
            host = "0.0.0.0"
        self.address_family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
        self.pages = pages
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """An address without a host means every one of the machine's, of both families."""
        if self.address_family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for it, once one is free."""
        if self._slots.acquire(timeout=TURN_S):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve, and give the thread's place back."""
        # The socket's own limit is for each read: a client that sends a byte now and then would never meet it.
        limit = threading.Timer(REQUEST_S, _hang_up, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  the library's signature
        """A client that hangs up is no news; anything else is, and costs this request alone."""
        err = sys.exception()
        level = log.DEBUG if isinstance(err, OSError) else log.ERROR
        log.event(_LOG, level, "a page's request failed", client=client_address[0], error=err)


def _hang_up(request: socket.socket) -> None:
    """Nothing more is read: a page that is being made is still sent."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RD)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_S
    server_version = "gpu-dra"
    sys_version = ""

    def do_GET(self) -> None:
        """The page of this path."""
        path = self.path.partition("?")[0]
        answer = self.server.pages.get(path)
        if answer is None:
            there = " ".join(sorted(self.server.pages))
            self._send(Page(status=404, body=f"no such page; there are {there}\n".encode()))
            return
        self._send(answer(self.headers.get("Accept", "")))

    do_HEAD = do_GET  # noqa: N815  the library's name

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: not worth a line."""
