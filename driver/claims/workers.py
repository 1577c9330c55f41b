"""Threads that claims are worked on in, apart from the gRPC server's own.

They are daemons, made when needed and kept for a while: one that is stuck in a driver call is left behind, and never keeps the
process from ending (R13, R15). ``concurrent.futures`` joins its threads at exit, so it cannot be used.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from driver import log
from driver.errors import ClaimError, DriverError

ResultT = TypeVar("ResultT")

_LOG = log.logger(__name__)


class Task(Generic[ResultT]):
    """Work that was handed in."""

    def __init__(self, work: Callable[[], ResultT]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._outcome: list[ResultT | DriverError] = []

    def run(self) -> None:
        """Do the work, in the caller's context. An error that is none of ours becomes the claim's answer, and a traceback."""
        try:
            self._outcome.append(self._context.run(self._work))
        except DriverError as err:
            self._outcome.append(err)
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread; a claim always gets an answer (B59)
            log.event(_LOG, log.ERROR, "a claim's work ended with an error that nobody expected", error=err, exc=err)
            self._outcome.append(ClaimError(f"internal error ({type(err).__name__}); the plugin's log has the details"))
        finally:
            self._done.set()

    def wait(self, timeout_s: float, otherwise: Callable[[], DriverError]) -> ResultT | DriverError:
        """What came of the work, or ``otherwise`` when it is not done in time; it then goes on."""
        self._done.wait(timeout_s)
        return self._outcome[0] if self._outcome else otherwise()


class Workers:
    """At most ``threads_max`` daemon threads; more work waits its turn. After a burst all but ``idle_max`` of them end."""

    def __init__(self, threads_max: int = 128, idle_max: int = 8) -> None:
        self._threads_max = threads_max
        self._idle_max = idle_max
        self._guard = threading.Lock()
        self._queue: queue.SimpleQueue[Task[object]] = queue.SimpleQueue()
        self._free = 0
        """Threads that are not at work, less the work that waits for one: any thread may take any work, so neither is
        counted alone. Below zero when every thread there may be is at work."""
        self._threads = 0

    def submit(self, work: Callable[[], ResultT]) -> Task[ResultT]:
        """Start the work in a thread of its own, if one may be had, else as soon as one is free."""
        task = Task(work)
        with self._guard:
            is_new = self._free <= 0 and self._threads < self._threads_max
            if is_new:
                self._threads += 1
            else:
                self._free -= 1
            self._queue.put(task)  # type: ignore[arg-type]  # the queue only runs tasks, it never looks at what they give
        if is_new:
            threading.Thread(target=self._work, name="claim", daemon=True).start()
        return task

    def _work(self) -> None:
        while True:
            self._queue.get().run()
            with self._guard:
                if self._free >= self._idle_max:
                    self._threads -= 1
                    return
                self._free += 1
