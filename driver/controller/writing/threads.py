"""A few threads that write, so that several claims are under way at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from driver import log
from driver.controller.writing.writer import Job, Report, Writer

_LOG = log.logger(__name__)


class WriterThreads:
    """``submit`` from the decision thread; ``on_report`` is called in the writers', ``on_failure`` where one of them broke."""

    def __init__(
        self, writer: Writer, on_report: Callable[[Report], None], on_failure: Callable[[Exception], None], *, count: int
    ) -> None:
        self._writer = writer
        self._on_report = on_report
        self._on_failure = on_failure
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=f"writer-{number}", daemon=True) for number in range(count)]

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def submit(self, job: Job) -> None:
        """Have it done."""
        self._jobs.put(job)

    def stop(self, grace_s: float) -> bool:
        """End after the jobs that were begun; what waits is dropped. True when all threads ended within the grace."""
        try:
            while True:
                self._jobs.get_nowait()
        except queue.Empty:
            pass
        for _ in self._threads:
            self._jobs.put(None)
        ends_at_s = time.monotonic() + grace_s
        for each in self._threads:
            if each.ident is not None:
                each.join(max(0.0, ends_at_s - time.monotonic()))
        return not any(each.is_alive() for each in self._threads)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                report = self._writer.run(job)
            except Exception as err:  # noqa: BLE001  the outermost loop of a thread: the process must not go on half dead
                self._on_failure(err)
                return
            ends = ", ".join(each.end.value for each in report.written)
            log.event(_LOG, log.DEBUG, "job done", job=type(job).__name__, ends=ends)
            self._on_report(report)
