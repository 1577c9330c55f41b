"""Run ``gpu-dra`` so that it can be killed around any of its writes to claims: a process that dies in a decision, on demand.

Writes are requests whose line has ``/resourceclaims/``. ``E2E_CRASH`` names a file that holds ``before N`` or ``after N``.
Before the N-th write since the file came the process kills itself with nothing of the request sent; after it, with the answer
not read, so that the API server has done what was asked. It first writes the request's line into ``<file>.done``. The driver
has no part in it.
"""

from __future__ import annotations

import http.client
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from driver.cli.main import main

_WRITES = (b"PUT ", b"PATCH ", b"POST ", b"DELETE ")
_ANSWERED_S = 0.3
"""Long enough for the API server to have stored the write."""


class WriteCrash:
    """Counts writes of all threads while it is armed."""

    def __init__(self, control: Path) -> None:
        self._control = control
        self._count = 0
        self._armed_with = ("", 0)
        self._lock = threading.Lock()
        self._armed: dict[int, str] = {}
        """By connection, the line of the write after which to die."""

    def note_sent(self, connection: Any, data: object) -> None:
        """The beginning of a request is about to be sent."""
        if not isinstance(data, bytes) or not data.startswith(_WRITES):
            return
        line = data.split(b"\r\n", 1)[0]
        if b"/resourceclaims/" not in line:
            return
        with self._lock:
            when, number = armed = self._read()
            self._count = self._count + 1 if armed == self._armed_with else 1
            self._armed_with = armed
            if self._count != number:
                return
            text = line.decode()
            if when == "before":
                self._die(text)
            self._armed[id(connection)] = text

    def note_asked(self, connection: Any) -> None:
        """A request was sent whole, and its answer is about to be read."""
        text = self._armed.pop(id(connection), None)
        if text is not None:
            time.sleep(_ANSWERED_S)
            self._die(text)

    def _read(self) -> tuple[str, int]:
        try:
            when, number = self._control.read_text().split()
            return when, int(number)
        except (FileNotFoundError, ValueError):
            return "", 0

    def _die(self, text: str) -> NoReturn:
        Path(f"{self._control}.done").write_text(text)
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit(1)


def install(crash: WriteCrash) -> None:
    """See every request of Python's HTTP client, which is below every library."""
    send, getresponse = http.client.HTTPConnection.send, http.client.HTTPConnection.getresponse

    def watched_send(self: http.client.HTTPConnection, data: Any) -> None:
        crash.note_sent(self, data)
        send(self, data)

    def watched_getresponse(self: http.client.HTTPConnection) -> http.client.HTTPResponse:
        crash.note_asked(self)
        return getresponse(self)

    http.client.HTTPConnection.send = watched_send  # type: ignore[method-assign]
    http.client.HTTPConnection.getresponse = watched_getresponse  # type: ignore[method-assign]


if __name__ == "__main__":
    install(WriteCrash(Path(os.environ["E2E_CRASH"])))
    sys.exit(main())
