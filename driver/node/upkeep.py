"""Work that nobody waits for: CDI files after a start or a new driver, claims that the kubelet forgot."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from driver import log
from driver.claims.cleanup import Cleanup
from driver.claims.prepare import ClaimPreparer
from driver.errors import DriverError

_LOG = log.logger(__name__)

CLEANUP_S = (900.0, 1500.0)
"""Between two passes: drawn from this range, so that the passes of many nodes drift apart. Two passes release a claim (R10)."""


class Upkeep:
    """One thread, asleep but for these."""

    def __init__(self, preparer: ClaimPreparer, cleanup: Cleanup, draw_wait_s: Callable[[], float] | None = None) -> None:
        self._preparer = preparer
        self._cleanup = cleanup
        self._draw_wait_s = draw_wait_s or (lambda: random.uniform(*CLEANUP_S))  # noqa: S311  spreads load, keeps no secret
        self._wake = threading.Event()
        self._is_stopping = False
        self._is_due = False
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def repair_soon(self) -> None:
        """Bring CDI files and records into step."""
        self._is_due = True
        self._wake.set()

    def stop(self) -> None:
        """No further pass."""
        self._is_stopping = True
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopping:
            was_woken = self._wake.wait(self._draw_wait_s())
            self._wake.clear()
            if self._is_stopping:
                return
            try:
                if self._is_due:
                    self._is_due = False
                    self._preparer.repair_at_start()
                elif not was_woken:
                    self._cleanup.run_pass()
            except DriverError as err:
                log.event(_LOG, log.WARNING, "upkeep of claims was cut short; the next pass tries again", error=err)
