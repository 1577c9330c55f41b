"""The thread that listens to NVML for what goes wrong, and looks now and then at what NVML tells no events of.

NVML is held open while it listens: events are of an opening. It is opened anew when the driver was loaded anew, when the GPUs
are others than those listened to, and when somebody asks. Without events it is closed between two looks. A call that hangs
holds up nobody but this thread.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from driver import log
from driver.errors import NvmlError
from driver.health.observations import DriverSeen, Observation
from driver.kube.backoff import Backoff
from driver.node.clock import read_now
from driver.node.health.watched import Watched, create_event_set, register
from driver.nvml.library import Code, Event, EventSet, NvmlLibrary, OpenNvml
from driver.nvml.reading_threads import ReadingThreads

_LOG = log.logger(__name__)

LOOK_S = 30.0
"""Between two looks at all GPUs; an event brings one at its GPU at once."""
WAIT_S = LOOK_S
"""How long NVML is waited for at a time: until the next look. An event ends the wait, and nothing else does: NVML has no call
that would. So whoever ends this thread does not wait for it, and whoever wants NVML opened anew gets it at the next look."""
STOP_S = 0.2
"""For what was heard just now to be passed on."""
PROBE_S = 1.0
"""The first wait after one that failed: to know soon whether it fails again."""
DEAF_AFTER = 4
"""So many times in a row NVML was opened and its events could not be waited for, some ten seconds by the back-off's waits: then
its GPUs count as unmonitored. They are looked at all the same, and listened to again as soon as a wait succeeds."""
LOOK_DEADLINE_S = 10.0
BATCH = 1000
"""Events of a storm that are taken in together."""
STORM_REST_S = 1.0
"""After a full batch: NVML keeps what comes meanwhile, or drops it, and the counts are worth no more of the machine's time."""
LEAST_ROUND_S = 0.2
"""A library whose wait comes back at once must not make this thread busy (B36)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """How it listens; times in seconds."""

    look_s: float = LOOK_S
    wait_s: float = WAIT_S
    least_round_s: float = LEAST_ROUND_S
    storm_rest_s: float = STORM_REST_S
    holds_nvml: bool = True
    """False: no events, only looks, and the driver can be unloaded in between."""


class HealthListener:
    """One thread; ``note`` is called from it alone."""

    def __init__(
        self,
        open_nvml: OpenNvml,
        note: Callable[[Sequence[Observation]], None],
        read_epoch: Callable[[], str],
        *,
        settings: ListenerSettings | None = None,
        now: Callable[[], datetime] = read_now,
    ) -> None:
        self._open_nvml = open_nvml
        self._note = note
        self._read_epoch = read_epoch
        self._settings = settings or ListenerSettings()
        self._now = now
        self._looks = ReadingThreads(LOOK_DEADLINE_S)
        self._backoff = Backoff(base_s=1.0, cap_s=30.0, random=random.Random())  # noqa: S311  spreads load
        self._lock = threading.Condition()
        self._is_stopping = False
        self._wants_reopening = False
        self._failures = 0
        """Openings in a row whose events could not be waited for."""
        self._thread = threading.Thread(target=self._run, name="health-listener", daemon=True)

    def start(self) -> None:
        """Listen, in the background."""
        self._thread.start()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Listen no more; the thread is left behind where it waits for NVML, and tells nothing any more."""
        with self._lock:
            self._is_stopping = True
            self._lock.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def reopen(self) -> None:
        """Let NVML go and open it anew, at the next look: the driver may be another one."""
        with self._lock:
            self._wants_reopening = True
            self._lock.notify_all()

    def _run(self) -> None:
        while self._begin():
            try:
                with self._open_nvml() as library:
                    self._listen(library)
                self._backoff.reset()
                if not self._settings.holds_nvml:
                    self._rest(self._settings.look_s)
            except NvmlError as err:
                log.event(_LOG, log.WARNING, "NVML cannot be listened to; trying again", error=err)
                self._rest(self._backoff.next_wait_s())
            except Exception as err:  # noqa: BLE001  the outermost frame of this thread: without it nothing is heard again
                log.event(_LOG, log.ERROR, "listening to NVML failed as nobody expected; trying again", error=err, exc=err)
                self._rest(self._backoff.next_wait_s())

    def _begin(self) -> bool:
        with self._lock:
            self._wants_reopening = False
            return not self._is_stopping

    def _rest(self, longest_s: float) -> None:
        with self._lock:
            self._lock.wait_for(self._is_asked, longest_s)

    def _is_asked(self) -> bool:
        return self._is_stopping or self._wants_reopening

    def _may_go_on(self) -> bool:
        with self._lock:
            return not self._is_asked()

    def _listen(self, library: NvmlLibrary) -> None:
        """Until there is a reason to open NVML anew."""
        epoch = self._read_epoch()
        with self._held_event_set(library) as event_set:
            listens, is_deaf = self._settings.holds_nvml, self._failures >= DEAF_AFTER
            watched = register(library, event_set, self._now, listens=listens, is_deaf=is_deaf)
            self._note([DriverSeen(epoch=epoch)])
            has_events = watched.event_set is not None
            log.event(_LOG, log.DEBUG, "listening to GPUs", gpus=len(watched.by_uuid), has_events=has_events)
            self._look(watched)
            look_at = time.monotonic() + self._settings.look_s
            while self._settings.holds_nvml and self._may_go_on():
                self._take_events(watched, look_at - time.monotonic())
                if time.monotonic() >= look_at:
                    if watched.has_to_be_retried or self._read_epoch() != epoch:
                        return
                    if library.device_count() != len(watched.by_uuid):
                        return
                    self._look(watched)
                    look_at = time.monotonic() + self._settings.look_s

    @contextlib.contextmanager
    def _held_event_set(self, library: NvmlLibrary) -> Iterator[EventSet | None]:
        """Freed at the end, however that comes: a shutdown frees none while another part of the process has NVML open."""
        event_set = None
        try:
            event_set = create_event_set(library) if self._settings.holds_nvml else None
        except NvmlError:
            self._failures += 1
            if self._failures <= DEAF_AFTER:
                raise
        try:
            yield event_set
        finally:
            if event_set is not None:
                with contextlib.suppress(NvmlError):
                    library.event_set_free(event_set)

    def _take_events(self, watched: Watched, longest_s: float) -> None:
        """Wait for events, and take in those that are there."""
        begun_s = time.monotonic()
        wait_s = max(0.0, min(self._settings.wait_s, longest_s, PROBE_S if self._failures else longest_s))
        if watched.event_set is None:
            self._rest(wait_s)
            return
        event = self._wait_for_event(watched, int(wait_s * 1000))
        if event is None:
            self._rest(min(self._settings.least_round_s, wait_s) - (time.monotonic() - begun_s))
            return
        events = [event]
        try:
            while len(events) < BATCH and (event := self._wait_for_event(watched, 0)) is not None:
                events.append(event)
        finally:  # those before a failure are gone from NVML
            self._note_events(watched, events)
        if len(events) == BATCH:
            self._rest(self._settings.storm_rest_s)

    def _wait_for_event(self, watched: Watched, timeout_ms: int) -> Event | None:
        if watched.event_set is None:
            return None
        try:
            event = watched.library.event_set_wait(watched.event_set, timeout_ms)
        except NvmlError as err:
            self._failures += 1
            if err.code == Code.GPU_IS_LOST:
                self._look(watched)  # which one: only by the handles of this opening can it be told
            raise
        if self._failures:
            self._failures = 0
            self._backoff.reset()
            if watched.is_deaf:
                watched.is_deaf = False
                self._look(watched)
        return event

    def _note_events(self, watched: Watched, events: Sequence[Event]) -> None:
        watched.forget_places()
        seen = [watched.decode(event) for event in events]
        # First what is known, then what has to be asked for: a sick GPU may not answer.
        self._note([each for each in seen if each is not None])
        self._look(watched, frozenset(event.uuid for event in events))

    def _look(self, watched: Watched, uuids: frozenset[str] | None = None) -> None:
        found = self._looks.ask(watched.library, watched.build_jobs(uuids))
        self._note([each for each in found if each is not None])
