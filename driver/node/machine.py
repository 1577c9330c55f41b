"""The machine, read again when there is reason to.

NVML is opened for each pass and closed after it: an open library would keep the kernel module from being unloaded, and so the
NVIDIA driver from being upgraded while this program runs. Nobody waits for a pass but the thread that makes it: a hung NVML
call costs news, never a claim. One to a GPU costs this GPU's news (``nvml.reading_threads``), one to NVML as a whole that of
the node: this is said, and liveness stays true, since claims are still prepared and a process with a call that hangs in the
kernel cannot be ended anyway.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from driver import log
from driver.errors import NvmlError
from driver.kube.backoff import Backoff
from driver.nvml.reading_threads import GPU_DEADLINE_S
from driver.nvml.readings import MachineReading

_LOG = log.logger(__name__)

FIRST_RETRY_S = 1.0
MAX_RETRY_S = 30.0
RESCAN_S = 300.0
"""A GPU that is well again, or MIG mode switched by an administrator, is seen within this; a signal (SIGHUP) makes it now."""
SIGN_S = 5.0
"""GPUs and MIG devices that come or go are seen within this: the driver's files say so, without NVML."""
HANG_S = 3 * GPU_DEADLINE_S
"""A pass that is under way for longer hangs: its GPUs have two deadlines, for themselves and for their PCIe levels."""


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
        """Whether there is nothing to wait for: NVML answered, and every GPU did.

        A machine without any GPU is no failure, but may be one whose driver is still being installed (B31).
        """
        return self.reading is not None and bool(self.reading.gpus) and not self.reading.failures


class MachineWatch:
    """A thread that makes passes, and tells ``on_pass`` of each: soon after trouble, then less and less, else rarely."""

    def __init__(
        self,
        reader: MachineReader,
        on_pass: Callable[[Pass], bool],
        on_hang: Callable[[str], None],
        *,
        read_sign: Callable[[], object] = lambda: None,
        hang_s: float = HANG_S,
        sign_s: float = SIGN_S,
    ) -> None:
        """``on_pass`` answers whether what it had to do is done; False asks for another pass soon.

        ``on_hang`` is told, in a thread of its own, of each pass that is under way for ``hang_s``; once, however long it
        hangs. ``read_sign`` is cheap, and another answer than before the last pass asks for a new one.
        """
        self._reader = reader
        self._on_pass = on_pass
        self._on_hang = on_hang
        self._read_sign = read_sign
        self._hang_s = hang_s
        self._sign_s = sign_s
        spread = random.Random()  # noqa: S311  what failed may be the API server, which many nodes wait for
        self._backoff = Backoff(base_s=FIRST_RETRY_S, cap_s=MAX_RETRY_S, random=spread)
        self._wake = threading.Event()
        self._is_stopping = False
        self._last_silence = ""
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
        while not self._is_stopping:
            self._wake.clear()
            sign = self._look_for_sign()
            if self._make_pass():
                self._backoff.reset()
                self._rest(RESCAN_S, sign)
            else:
                self._rest(self._backoff.next_wait_s(), sign)

    def _rest(self, longest_s: float, sign: object) -> None:
        """Wait for a reason to make a pass."""
        ends_at = time.monotonic() + longest_s
        while not self._wake.wait(max(0.0, min(self._sign_s, ends_at - time.monotonic()))):
            if time.monotonic() >= ends_at or self._look_for_sign() != sign:
                return

    def _look_for_sign(self) -> object:
        """None where it cannot be read: another sign than any, so that a pass is made."""
        try:
            return self._read_sign()
        except Exception as err:  # noqa: BLE001  as below
            log.event(_LOG, log.ERROR, "whether GPUs came or went cannot be told", error=err, exc=err)
            return None

    def _make_pass(self) -> bool:
        """True when there is nothing to wait for."""
        try:
            seen = self._read()
            return self._on_pass(seen) and seen.is_whole
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it no change is ever seen again
            log.event(_LOG, log.ERROR, "a pass over the machine failed; trying again", error=err, exc=err)
            return False

    def _read(self) -> Pass:
        watchdog = threading.Timer(self._hang_s, self._say_hang)
        watchdog.name, watchdog.daemon = "machine-watchdog", True
        watchdog.start()
        try:
            reading = self._reader.read()
        except NvmlError as err:
            # A node without a driver is asked for ever: once is news.
            level = log.DEBUG if str(err) == self._last_silence else log.WARNING
            self._last_silence = str(err)
            log.event(_LOG, level, "NVML does not answer; trying again", error=err)
            return Pass(reading=None, error=err)
        else:
            self._last_silence = ""
            return Pass(reading=reading)
        finally:
            watchdog.cancel()

    def _say_hang(self) -> None:
        self._on_hang(
            f"NVML has not come back for {self._hang_s:g} s from a call that concerns all GPUs: devices stay published as they"
            " are and claims are prepared, but no change is seen until it comes back; look at the kernel's log (NVRM, Xid)"
        )
