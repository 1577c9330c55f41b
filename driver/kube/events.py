"""Events for people, on the Node and on claims: said once, counted after that, and never in anybody's way.

``record`` puts an event into a small queue and returns; one thread sends. What does not fit the queue or the rate, and what the
server does not take, is dropped and counted, and the count is logged with the next event that gets through: an event is a
courtesy, the log has everything. The same event again within ten minutes is not sent; after that it goes out as a series with
its count. The thread sleeps while there is nothing to say.

Form: ``events.k8s.io/v1``. ``kubectl describe`` shows it like any other.
"""

from __future__ import annotations

import enum
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from driver import log
from driver.api.meta_v1 import ObjectMeta, encode_micro_time
from driver.errors import ApiError, Forbidden, NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import Resource

_LOG = log.logger(__name__)

NOTE_MAX_BYTES = 1024
_TERMINATING = "is being terminated"
"""In the refusal of what is made in a namespace that goes, which is no missing right."""
QUIET_S = 600.0
"""How long the same event is only counted. The server forgets events after an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """How much may be said: ``burst`` events at once, and one more every ``refill_s``. The defaults are one node's."""

    queue_max: int = 64
    known_max: int = 256
    """Events that are remembered, to be counted when they come again."""
    burst: int = 25
    refill_s: float = 12.0


ONE_NODE = EventLimits()


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an event is about. A Node has no namespace."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class EventSeries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How often an event has happened by now."""

    count: int
    last_observed_time: str


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An event as ``events.k8s.io/v1`` has it."""

    metadata: ObjectMeta
    event_time: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference | None = None
    note: str = ""
    type: str = ""
    series: EventSeries | None = None


EVENTS = Resource(group_version="events.k8s.io/v1", plural="events", type_=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who reports: the program's part (``gpu.nvidia.com/kubelet-plugin``) and the node it runs on."""

    controller: str
    instance: str


@dataclass(slots=True)
class _Told:
    """An event that was sent: its name there, when, and how often it happened."""

    metadata: ObjectMeta
    sent_at: float
    count: int = 1


class _Outcome(enum.Enum):
    SENT = "sent"
    COUNTED = "counted"
    LOST = "lost"


class EventRecorder:
    """Records events from any thread."""

    def __init__(
        self,
        client: KubeClient,
        source: Source,
        *,
        limits: EventLimits = ONE_NODE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._source = source
        self._limits = limits
        self._clock = clock
        self._wake = threading.Condition()
        self._queue: deque[Event] = deque()
        self._told: OrderedDict[tuple[object, ...], _Told] = OrderedDict()
        self._dropped = 0
        self._is_busy = False
        self._is_stopped = False
        self._is_forbidden = False
        self._tokens = float(self._limits.burst)
        self._counted_at = clock()
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Events that nobody saw since the last one that got through."""
        with self._wake:
            return self._dropped

    def record(self, about: ObjectReference, reason: str, note: str, *, action: str, is_warning: bool = False) -> None:
        """Say that something happened: ``reason`` and ``action`` are CamelCase words, ``note`` is a sentence. It returns."""
        namespace = about.namespace or "default"
        event = Event(
            metadata=ObjectMeta(name=f"{about.name[:200].rstrip('-.')}.{uuid.uuid4().hex[:16]}", namespace=namespace),
            event_time=encode_micro_time(datetime.now(UTC)),
            reporting_controller=self._source.controller,
            reporting_instance=self._source.instance[:128],
            action=action,
            reason=reason,
            regarding=about,
            note=cut_text(note, NOTE_MAX_BYTES),
            type="Warning" if is_warning else "Normal",
        )
        with self._wake:
            if self._is_stopped or len(self._queue) >= self._limits.queue_max:
                self._dropped += 1
                return
            self._queue.append(event)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded was sent or dropped: before a process ends on an error that it has just reported."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._queue and not self._is_busy, timeout_s)

    def stop(self) -> None:
        """Record nothing more; what is queued is dropped."""
        with self._wake:
            self._is_stopped = True
            self._queue.clear()
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue or self._is_stopped)
                if self._is_stopped:
                    return
                event = self._queue.popleft()
                self._is_busy = True
            outcome = self._send(event)
            with self._wake:
                self._is_busy = False
                dropped = self._dropped if outcome is _Outcome.SENT else 0
                self._dropped += (outcome is _Outcome.LOST) - dropped
                self._wake.notify_all()
            if dropped:
                log.event(_LOG, log.WARNING, "events were dropped", dropped=dropped)

    def _send(self, event: Event) -> _Outcome:
        key = (event.regarding, event.reason, event.action, event.note, event.type)
        told = self._told.get(key)
        if told is not None:
            told.count += 1
            if self._clock() - told.sent_at < QUIET_S:
                return _Outcome.COUNTED
        if not self._take_token():
            return _Outcome.LOST
        try:
            metadata = (
                self._send_again(told, event)
                if told is not None
                else self._client.create(EVENTS, event, namespace=event.metadata.namespace).metadata
            )
        except ApiError as err:
            self._tell_lost(event, err)
            return _Outcome.LOST
        self._is_forbidden = False
        self._remember(key, _Told(metadata, self._clock(), told.count if told is not None else 1))
        return _Outcome.SENT

    def _tell_lost(self, event: Event, err: ApiError) -> None:
        """A right that is missing is said once: nobody would ever see why something waits, nor that it could be seen."""
        is_news = isinstance(err, Forbidden) and _TERMINATING not in str(err) and not self._is_forbidden
        if not is_news:
            log.event(_LOG, log.DEBUG, "an event was not taken", reason=event.reason, error=err)
            return
        self._is_forbidden = True
        text = "events may not be written: give the service account the right to create and patch events.k8s.io/events"
        log.event(_LOG, log.WARNING, text, reason=event.reason, namespace=event.metadata.namespace, error=err)

    def _send_again(self, told: _Told, event: Event) -> ObjectMeta:
        """Add to the series of an event that was sent; where the server forgot it, send it anew."""
        series = EventSeries(count=told.count, last_observed_time=event.event_time)
        try:
            return self._client.patch(EVENTS, told.metadata, {"series": series}).metadata
        except NotFound:
            return self._client.create(EVENTS, event, namespace=event.metadata.namespace).metadata

    def _remember(self, key: tuple[object, ...], told: _Told) -> None:
        self._told[key] = told
        self._told.move_to_end(key)
        if len(self._told) > self._limits.known_max:
            self._told.popitem(last=False)

    def _take_token(self) -> bool:
        now = self._clock()
        self._tokens = min(float(self._limits.burst), self._tokens + (now - self._counted_at) / self._limits.refill_s)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def cut_text(text: str, limit_bytes: int) -> str:
    """At most so many bytes of UTF-8, whole characters, with three dots where something was cut."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= limit_bytes else data[: limit_bytes - 3].decode(errors="ignore") + "..."
