"""Work that nobody waits for: CDI files after a start or a new driver, claims that the kubelet forgot."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from driver import log
from driver.errors import DriverError

_LOG = log.logger(__name__)

CLEANUP_S = (900.0, 1500.0)
"""Between two clean-ups: drawn from this range, so that those of many nodes drift apart. Two of them release a claim (R10)."""


class Upkeep:
    """One thread, asleep but for these. Repairs are asked for at each pass over the machine; they do not put a clean-up off."""

    def __init__(
        self, repair: Callable[[], object], clean_up: Callable[[], object], draw_wait_s: Callable[[], float] | None = None
    ) -> None:
        self._repair = repair
        self._clean_up = clean_up
        self._draw_wait_s = draw_wait_s or (lambda: random.uniform(*CLEANUP_S))  # noqa: S311  spreads load, keeps no secret
        self._wake = threading.Event()
        self._is_stopping = False
        self._is_repair_due = False
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def repair_soon(self) -> None:
        """Bring CDI files and records into step."""
        self._is_repair_due = True
        self._wake.set()

    def stop(self) -> None:
        """No further pass."""
        self._is_stopping = True
        self._wake.set()

    def _run(self) -> None:
        clean_up_at = time.monotonic() + self._draw_wait_s()
        while True:
            self._wake.wait(max(0.0, clean_up_at - time.monotonic()))
            self._wake.clear()
            if self._is_stopping:
                return
            if self._is_repair_due:
                self._is_repair_due = False
                _attempt(self._repair)
            if time.monotonic() >= clean_up_at:
                _attempt(self._clean_up)
                clean_up_at = time.monotonic() + self._draw_wait_s()


def _attempt(work: Callable[[], object]) -> None:
    try:
        work()
    except DriverError as err:
        log.event(_LOG, log.WARNING, "upkeep of claims was cut short; the next pass tries again", error=err)
    except Exception as err:  # noqa: BLE001  the outermost frame of this thread: it must be there for the next pass
        log.event(_LOG, log.ERROR, "upkeep of claims failed; the next pass tries again", error=err, exc=err)
