"""The GPUs' figures for a scrape: read at that moment by a thread of their own, and waited for no longer than a moment.

A hung GPU costs its own figures alone (``nvml.figures``). A hung library costs all of them, and each scrape nothing: a read
that is under way is waited for once, and there is never a second one beside it. Scrapes that come at once share a read.
NVML is opened for the read and closed after it, as for each pass over the machine (``node.machine``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from driver import log
from driver.errors import DriverError
from driver.names import GpuUUID
from driver.nvml.figures import GpuFigures, read_figures
from driver.nvml.library import OpenNvml
from driver.nvml.reading_threads import ReadingThreads

_LOG = log.logger(__name__)

FRESH_S = 2.0
"""Figures of this age serve another scrape."""
GPU_S = 1.0
"""How long the GPUs have for their figures."""
WAIT_S = 2.0
"""How long a scrape waits for a read, from its begin: scrapers give up after 10 s."""


class FiguresReader:
    """Asked by the threads of scrapes."""

    def __init__(
        self,
        open_nvml: OpenNvml,
        *,
        wait_s: float = WAIT_S,
        fresh_s: float = FRESH_S,
        threads: ReadingThreads | None = None,
    ) -> None:
        self._open_nvml = open_nvml
        self._wait_s = wait_s
        self._fresh_s = fresh_s
        self._threads = threads or ReadingThreads(deadline_s=GPU_S)
        self._changed = threading.Condition()
        self._figures: tuple[GpuFigures, ...] = ()
        self._began_s = -fresh_s
        self._read_s = -fresh_s
        self._is_reading = False

    def read(self, gpus: Sequence[GpuUUID]) -> tuple[GpuFigures, ...]:
        """The figures of these GPUs now; those of GPUs that do not answer in time are left out."""
        with self._changed:
            now_s = time.monotonic()
            if not self._is_reading and now_s - self._read_s > self._fresh_s:
                self._is_reading, self._began_s = True, now_s
                threading.Thread(target=self._run, args=(tuple(gpus),), name="gpu-figures", daemon=True).start()
            self._changed.wait_for(lambda: not self._is_reading, max(0.0, self._began_s + self._wait_s - now_s))
            is_late = time.monotonic() - self._read_s > self._fresh_s + self._wait_s
            return () if is_late else self._figures

    def _run(self, gpus: tuple[GpuUUID, ...]) -> None:
        figures: tuple[GpuFigures, ...] = ()
        try:
            with self._open_nvml() as library:
                figures = read_figures(library, gpus, self._threads)
        except DriverError as err:
            log.event(_LOG, log.DEBUG, "NVML tells no figures", error=err)
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread; without it no scrape would ask again
            log.event(_LOG, log.ERROR, "reading figures failed as nobody expected", error=err, exc=err)
        finally:
            with self._changed:
                self._figures, self._read_s, self._is_reading = figures, time.monotonic(), False
                self._changed.notify_all()
