"""Threads that ask NVML side by side, each given up alone when its calls do not come back.

A call into a driver can hang for ever, and Python cannot end the thread that made it. Such a thread is left where it is, and
its job is not given to another one until it has come back: one thread a GPU is lost at most, however many passes follow.
When the call comes back, its thread ends before the next call, and the next pass asks the GPU as if nothing had been.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, Protocol, TypeVar, cast

from driver.nvml.calls import NVML_CALLS
from driver.nvml.library import NvmlLibrary

GPU_DEADLINE_S = 30.0
"""How long the GPUs of a pass have for all their calls.

Without the persistence daemon the first call to a GPU wakes it, which takes some seconds, and the kernel module wakes one after
the other: eight sleeping GPUs must not pass for hung ones. Their neighbours' news waits for a hung one this long, once.
"""

_Answer = TypeVar("_Answer")
_Answer_co = TypeVar("_Answer_co", covariant=True)


class Job(Protocol[_Answer_co]):
    """Calls that belong together: those to one GPU."""

    @property
    def key(self) -> Hashable:
        """What is asked about: the same in every pass."""

    def run(self, library: NvmlLibrary) -> _Answer_co:
        """Make the calls; what it raises is raised by ``ReadingThreads.ask``."""

    def give_up(self, reason: str) -> _Answer_co:
        """The answer where ``run`` does not come back, from what it has noted so far. It may still be running."""


class _GivenUp(Exception):
    """Nobody waits for this thread any more."""


class _FollowedLibrary:
    """A library that notes each call before it makes it, and makes none when nobody waits for the answer."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self.call = "its thread, which has not started"
        self.is_given_up = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._library, name)

        def make_call(*args: Any) -> Any:
            if self.is_given_up:
                raise _GivenUp
            self.call = NVML_CALLS[name]
            return method(*args)

        return make_call


class _Attempt(Generic[_Answer]):
    """A job and its thread."""

    def __init__(self, job: Job[_Answer], library: NvmlLibrary) -> None:
        self.answer: Future[_Answer] = Future()
        self._job = job
        self._followed = _FollowedLibrary(library)
        self._silence = ""
        # A daemon: the process must be able to end while a call hangs.
        threading.Thread(target=self._run, name=f"nvml-{job.key}", daemon=True).start()

    def give_up(self, deadline_s: float) -> None:
        """Wait no more: from now on the job's answer is that there is none."""
        self._silence = f"no answer within {deadline_s:g} s from {self._followed.call}"
        self._followed.is_given_up = True

    def conclude(self) -> _Answer:
        """What came back, or what is to be said since nothing did. Raises what the job raised."""
        return self._job.give_up(self._silence) if self._silence else self.answer.result()

    def _run(self) -> None:
        try:
            answer = self._job.run(cast(NvmlLibrary, self._followed))
        except Exception as err:  # noqa: BLE001  the outermost frame of this thread; the pass's thread raises it
            self.answer.set_exception(err)
        else:
            self.answer.set_result(answer)


class ReadingThreads:
    """Kept from pass to pass, so that a hung thread is known. For passes one after the other, not side by side.

    A job is known by its key, a GPU's by its index: NVML, held open by a call that hangs, does not number its GPUs anew.
    """

    def __init__(self, deadline_s: float = GPU_DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self._hung: dict[Hashable, _Attempt[Any]] = {}

    def ask(self, library: NvmlLibrary, jobs: Sequence[Job[_Answer]]) -> list[_Answer]:
        """The jobs' answers, in their order, within the deadline; a job that still hangs from before is given up at once."""
        hung = {key: attempt for key, attempt in self._hung.items() if not attempt.answer.done()}
        attempts: list[_Attempt[_Answer]] = [hung.get(job.key) or _Attempt(job, library) for job in jobs]
        started = {job.key: attempt for job, attempt in zip(jobs, attempts, strict=True) if job.key not in hung}
        done, _ = wait([attempt.answer for attempt in started.values()], self.deadline_s)
        silent = {key: attempt for key, attempt in started.items() if attempt.answer not in done}
        for attempt in silent.values():
            attempt.give_up(self.deadline_s)
        self._hung = hung | silent
        return [attempt.conclude() for attempt in attempts]
