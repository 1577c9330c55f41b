"""A thread that does what a change of health asks for: whoever listens or reads waits for no API server, and for no disk."""

from __future__ import annotations

import threading
from collections.abc import Callable

from driver import log

_LOG = log.logger(__name__)

REST_S = 2.0
"""After each: a GPU whose troubles come and go costs one write in this time at most."""
AGAIN_S = 5.0


class HealthRelay:
    """Asleep but for changes."""

    def __init__(
        self, publish: Callable[[], bool], *, name: str = "health-relay", rest_s: float = REST_S, again_s: float = AGAIN_S
    ) -> None:
        """``publish`` is what is to be done; it answers whether it is, False asks for another call."""
        self._publish = publish
        self._rest_s = rest_s
        self._again_s = again_s
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def wake(self) -> None:
        """Something changed. Returns at once."""
        self._wake.set()

    def stop(self) -> None:
        """Publish no more."""
        self._stopping.set()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if self._stopping.is_set():
                return
            self._wake.clear()
            if not self._attempt():
                self._wake.set()
                self._stopping.wait(self._again_s)
            self._stopping.wait(self._rest_s)

    def _attempt(self) -> bool:
        try:
            return self._publish()
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread: the next change must be published
            log.event(_LOG, log.ERROR, "a change of the GPUs' health could not be carried on; trying again", error=err, exc=err)
            return False
