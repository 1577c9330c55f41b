"""The machine, read again when there is reason to.

NVML is opened for each pass and closed after it: an open library would keep the kernel module from being unloaded, and so the
NVIDIA driver from being upgraded while this program runs. Nobody waits for a pass but the thread that makes it: a hung NVML
call costs news, never a claim.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from driver import log
from driver.errors import NvmlError
from driver.nvml.readings import MachineReading

_LOG = log.logger(__name__)

FIRST_RETRY_S = 1.0
MAX_RETRY_S = 30.0
RESCAN_S = 300.0
"""A GPU that comes back, or MIG mode switched by an administrator, is seen within this; a signal (SIGHUP) makes it now."""


class MachineReader(Protocol):
    """One pass over the machine: open NVML, read, close it."""

    def read(self) -> MachineReading:
        """Raises ``NvmlError`` when the library as a whole cannot answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass said: a reading, or why there is none."""

    reading: MachineReading | None
    error: NvmlError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to wait for: NVML answered, and every GPU did."""
        return self.reading is not None and bool(self.reading.gpus) and not self.reading.failures


def choose_wait_s(seen: Pass, passes_that_failed: int) -> float:
    """How long to the next pass: soon after a failure, then less often; rarely when all is well.

    A machine without any GPU is no failure, but may be one whose driver is still being installed (B31).
    """
    if seen.is_whole:
        return RESCAN_S
    return float(min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(passes_that_failed, 10)))


class MachineWatch:
    """A thread that makes passes and tells ``on_pass`` of each."""

    def __init__(self, reader: MachineReader, on_pass: Callable[[Pass], bool]) -> None:
        """``on_pass`` answers whether what it had to do is done; False asks for another pass soon."""
        self._reader = reader
        self._on_pass = on_pass
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="machine-watch", daemon=True)

    def start(self) -> None:
        """Make the first pass now, in the background."""
        self._thread.start()

    def wake(self) -> None:
        """Make a pass now."""
        self._wake.set()

    def stop(self) -> None:
        """No further pass; one that hangs is left behind."""
        self._is_stopping = True
        self._wake.set()

    def _run(self) -> None:
        failures = 0
        while not self._is_stopping:
            self._wake.clear()
            seen = self._make_pass()
            is_done = self._on_pass(seen)
            failures = 0 if seen.is_whole and is_done else failures + 1
            wait_s = (
                choose_wait_s(seen, failures - 1) if is_done else min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 10))
            )
            self._wake.wait(wait_s)

    def _make_pass(self) -> Pass:
        try:
            return Pass(reading=self._reader.read())
        except NvmlError as err:
            log.event(_LOG, log.WARNING, "NVML does not answer; trying again", error=err)
            return Pass(reading=None, error=err)
