"""The pages over real connections."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from driver.errors import SettingsInvalid, SocketUnusable
from driver.metrics.pages import MAX_REQUESTS, Health, Page, PageServer, build_pages, parse_address


class Words:
    """What the process would say."""

    def __init__(self) -> None:
        self.health = Health(is_ok=True, text="deciding")
        self.ready = Health(is_ok=False, text="claims are not listed: 403 no")
        self.gate: threading.Event | None = None
        self.entered = threading.Semaphore(0)

    def metrics(self, accept: str) -> Page:
        self.entered.release()
        if self.gate is not None:
            self.gate.wait(60)
        return Page(status=200, body=f"accept {accept}".encode(), content_type="text/plain; version=1")


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def server(words: Words) -> Iterator[PageServer]:
    made = PageServer("127.0.0.1:0", build_pages(lambda: words.health, lambda: words.ready, words.metrics))
    made.start()
    yield made
    made.stop()


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_health_and_readiness_are_asked_anew_each_time(server: PageServer, words: Words) -> None:
    assert ask(server, "/healthz") == (200, "deciding\n")
    assert ask(server, "/readyz") == (503, "claims are not listed: 403 no\n")
    words.ready = Health(is_ok=True, text="leading")
    words.health = Health(is_ok=False, text="the decision thread is silent for 61 s")
    assert ask(server, "/readyz") == (200, "leading\n")
    assert ask(server, "/healthz") == (503, "the decision thread is silent for 61 s\n")


def test_metrics_are_given_what_the_scraper_accepts(server: PageServer) -> None:
    assert ask(server, "/metrics?name=x", Accept="text/plain") == (200, "accept text/plain")


def test_a_head_has_no_body(server: PageServer) -> None:
    assert ask(server, "/healthz", "HEAD") == (200, "")


def test_an_unknown_page_says_which_there_are(server: PageServer) -> None:
    assert ask(server, "/debug") == (404, "no such page; there are /healthz /metrics /readyz\n")


def test_other_methods_are_refused(server: PageServer) -> None:
    assert ask(server, "/healthz", "DELETE")[0] == 501


def test_more_than_a_few_that_do_not_end_are_cut_off_and_later_ones_served(server: PageServer, words: Words) -> None:
    words.gate = threading.Event()
    callers = [threading.Thread(target=ask, args=(server, "/metrics")) for _ in range(MAX_REQUESTS)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert words.entered.acquire(timeout=30)
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(server, "/healthz")
    words.gate.set()
    for caller in callers:
        caller.join(30)
    while True:  # the last thread may be on its way to give its place back
        try:
            assert ask(server, "/healthz")[0] == 200
            break
        except (http.client.HTTPException, OSError):
            continue


def test_a_hundred_at_once_are_all_served_by_a_handful_of_threads(server: PageServer) -> None:
    """A scraper that comes back after an outage, its twin, a person, and the probes: none is sent away."""
    before, most, answers = threading.active_count(), 0, []

    def run() -> None:
        answers.append(ask(server, "/metrics", Accept="text/plain"))

    callers = [threading.Thread(target=run) for _ in range(100)]
    for caller in callers:
        caller.start()
    while any(caller.is_alive() for caller in callers):
        most = max(most, threading.active_count() - sum(caller.is_alive() for caller in callers))
        time.sleep(0.001)
    assert answers == [(200, "accept text/plain")] * 100
    assert most - before <= 2 * MAX_REQUESTS + 100 // 10, "a thread for each, and one that cuts it off"


def test_garbage_and_hang_ups_harm_nobody(server: PageServer) -> None:
    for data in (
        b"\x00\xff\x16\x03\x01" * 10,
        b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(data)
    assert ask(server, "/healthz")[0] == 200


def test_clients_that_send_a_byte_now_and_then_take_no_place_for_long(server: PageServer) -> None:
    """Each byte would begin the time of a read anew: the controller's health is asked at this server."""
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(MAX_REQUESTS)]
    end_s, status = time.monotonic() + 60, 0
    try:
        while status != 200:
            assert time.monotonic() < end_s
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"G")
            time.sleep(0.5)
            with contextlib.suppress(http.client.HTTPException, OSError):
                status = ask(server, "/healthz")[0]
    finally:
        for connection in slow:
            connection.close()


def test_a_page_that_cannot_be_made_is_said(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    def fail(accept: str) -> Page:
        raise ValueError(accept)

    made = PageServer("127.0.0.1:0", {"/metrics": fail})
    made.start()
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(made, "/metrics", Accept="not this")
    made.stop()
    assert "a page's request failed" in capsys.readouterr().err + caplog.text


def test_an_address_in_use_is_said(server: PageServer) -> None:
    with pytest.raises(SocketUnusable, match=f"127.0.0.1:{server.port}.*in use"):
        PageServer(f"127.0.0.1:{server.port}", {}).start()


def test_no_host_means_all_addresses() -> None:
    server = PageServer(":0", {"/healthz": lambda _: Page(status=200, body=b"ok")})
    server.start()
    try:
        assert ask(server, "/healthz") == (200, "ok")
    finally:
        server.stop()


@pytest.mark.parametrize("address", [":0", "[::]:0"])
def test_a_kernel_without_ipv6_serves_all_the_same(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://github.com/kiwigrid/k8s-sidecar/issues/605: a pod that never got ready."""

    class Socket(socket.socket):
        def __init__(self, family: int = -1, *more: int, **named: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            super().__init__(family, *more, **named)

    monkeypatch.setattr(socket, "socket", Socket)
    server = PageServer(address, {"/healthz": lambda _: Page(status=200, body=b"ok")})
    server.start()
    try:
        assert ask(server, "/healthz") == (200, "ok")
    finally:
        server.stop()


def test_it_can_be_stopped_before_it_is_started() -> None:
    PageServer(":0", {}).stop()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param(":8080", ("", 8080), id="port alone"),
        pytest.param("0.0.0.0:1", ("0.0.0.0", 1), id="IPv4"),
        pytest.param("[::1]:0", ("::1", 0), id="IPv6"),
        pytest.param("localhost:65535", ("localhost", 65535), id="name"),
    ],
)
def test_addresses(text: str, where: tuple[str, int]) -> None:
    assert parse_address(text) == where


@pytest.mark.parametrize("text", ["", "8080", "host:", ":-1", ":65536", ":http", "host:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsInvalid, match="HOST:PORT"):
        parse_address(text)
