"""Keep a reader in step with a selection of objects: list, then watch, for as long as it takes.

What the reader gets is a row of changes: each object once as *added*, then its modifications, then *deleted*; and a ``Listed``
after every complete list. A list after a gap (the first, after 410, after a garbled stream) is turned into changes by comparing
uids: an object that was deleted and made again is *deleted* and *added*, never *modified*.

Every failure waits, longer each time and never the same (``Backoff``). A watch that the server ends in peace is resumed at once
from the last version seen, bookmarks included, so an idle reader costs one request in ten to twenty minutes.
"""

from __future__ import annotations

import enum
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import msgspec

from driver import log
from driver.api.meta_v1 import ObjectMeta
from driver.errors import ApiError, Gone, TooManyRequests
from driver.kube.answers import Status, build_refusal, decode_object
from driver.kube.backoff import Backoff
from driver.kube.client import KubeClient, Listing
from driver.kube.line_stream import LineStream
from driver.kube.resources import KubeObject, Resource, Selection

_LOG = log.logger(__name__)

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """How long the server is asked to keep one watch open, and the waits after failures.

    The time open is drawn from a range, so that the watches of many nodes drift apart.
    """

    open_s: tuple[int, int] = (600, 1200)
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0


class ChangeKind(enum.Enum):
    """What happened to an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """One object's change. For a deletion, ``item`` is the last state that was seen."""

    kind: ChangeKind
    item: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Everything up to ``resource_version`` has been told; ``uids`` are of all objects that exist at that version."""

    resource_version: str
    uids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The server could not be listed or watched; the next try comes by itself."""

    error: ApiError


Seen: TypeAlias = "Change[T] | Listed | Failed"


class _Head(msgspec.Struct, frozen=True):
    """The part of a watch event that says how to read the rest."""

    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def plan_relist(known: Mapping[str, T], items: tuple[T, ...]) -> tuple[Change[T], ...]:
    """The changes that lead from the objects known (by uid) to those listed: deletions first."""
    listed = {item.metadata.uid for item in items}
    gone = [Change(kind=ChangeKind.DELETED, item=item) for uid, item in known.items() if uid not in listed]
    there: list[Change[T]] = []
    for item in items:
        before = known.get(item.metadata.uid)
        if before is None:
            there.append(Change(kind=ChangeKind.ADDED, item=item))
        elif before.metadata.resource_version != item.metadata.resource_version:
            there.append(Change(kind=ChangeKind.MODIFIED, item=item))
    return (*gone, *there)


def decode_event(line: bytes, resource: Resource[T]) -> Change[T] | str:
    """One line of a watch: what it says of an object, or the version that a bookmark carries.

    Raises ``Gone``, and ``ApiError`` for another error of the server's and for what is no event.
    """
    try:
        head = msgspec.json.decode(line, type=_Head)
        if head.type == "ERROR":
            status = msgspec.json.decode(head.object, type=Status)
            raise build_refusal(f"WATCH {resource.plural}", status.code, status)
        if head.type == "BOOKMARK":
            return msgspec.json.decode(head.object, type=_Bookmark).metadata.resource_version
        kind = ChangeKind(head.type.lower())
        return Change(kind=kind, item=decode_object(head.object, resource.type_))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as err:
        raise ApiError(f"WATCH {resource.plural}", 200, f"not a watch event: {str(err)[:200]}") from err


class Watcher(Generic[T]):
    """Lists and watches one selection. One thread iterates ``changes``; any other may ``stop`` it."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        selection: Selection,
        *,
        rng: random.Random | None = None,
        pace: WatchPace | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._selection = selection
        self._rng = rng or random.Random()  # noqa: S311  spreads load, keeps no secret
        self._pace = pace or WatchPace()
        self._backoff = Backoff(base_s=self._pace.backoff_base_s, cap_s=self._pace.backoff_cap_s, random=self._rng)
        self._known: dict[str, T] = {}
        self._version = ""
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._stream: LineStream | None = None

    def changes(self) -> Iterator[Seen[T]]:
        """Changes until ``stop``. Ends only then; failures come as ``Failed`` and are waited out."""
        while not self._stopped.is_set():
            try:
                if not self._version:
                    yield from self._list()
                yield from self._watch()
            except Gone as err:
                self._version = ""
                if not self._stopped.is_set():
                    log.event(_LOG, log.INFO, "watch is too old, listing again", resource=self._resource.plural, error=err)
                    self._stopped.wait(self._backoff.next_wait_s())
            except ApiError as err:
                if err.status and not isinstance(err, TooManyRequests):
                    self._version = ""  # the server may no longer know it, for one after etcd was restored
                if not self._stopped.is_set():
                    yield Failed(error=err)
                    self._wait_out(err)

    def forget_version(self) -> None:
        """List anew before the next watch. For the thread that iterates, after an error that it cannot explain."""
        self._version = ""

    def stop(self) -> None:
        """End the iteration, also while it waits or reads."""
        self._stopped.set()
        with self._lock:
            if self._stream is not None:
                self._stream.stop()

    def _wait_out(self, err: ApiError) -> None:
        wait_s = self._backoff.next_wait_s(at_least_s=err.retry_after_s)
        log.event(
            _LOG, log.WARNING, "watching failed", resource=self._resource.plural, error=err, next_try_in_s=round(wait_s, 1)
        )
        self._stopped.wait(wait_s)

    def _list(self) -> Iterator[Seen[T]]:
        listing: Listing[T] = self._client.list_all(self._resource, self._selection)
        changes = plan_relist(self._known, listing.items)
        self._known = {item.metadata.uid: item for item in listing.items}
        yield from changes
        yield Listed(resource_version=listing.resource_version, uids=frozenset(self._known))
        self._version = listing.resource_version

    def _watch(self) -> Iterator[Seen[T]]:
        stream = self._client.open_watch(
            self._resource, self._selection, resource_version=self._version, timeout_s=self._rng.randint(*self._pace.open_s)
        )
        with self._lock:
            self._stream = stream
        try:
            if self._stopped.is_set():
                return
            yield from self._read(stream)
        finally:
            with self._lock:
                self._stream = None
            stream.close()

    def _read(self, stream: LineStream) -> Iterator[Seen[T]]:
        is_empty = True
        for line in stream.lines():
            change = self._decode(line)
            is_empty = False
            self._backoff.reset()
            if change is not None:
                yield change
        if is_empty and not self._stopped.is_set():
            # a watch that ends before it said a word: a proxy in the way would make this a hot loop
            self._stopped.wait(self._backoff.next_wait_s())

    def _decode(self, line: bytes) -> Change[T] | None:
        """A line as a change; None for a bookmark."""
        event = decode_event(line, self._resource)
        if isinstance(event, str):
            self._version = event
            return None
        return self._note(event.kind, event.item)

    def _note(self, kind: ChangeKind, item: T) -> Change[T]:
        uid = item.metadata.uid
        if kind is ChangeKind.DELETED:
            self._known.pop(uid, None)
        else:
            kind = ChangeKind.MODIFIED if uid in self._known else ChangeKind.ADDED
            self._known[uid] = item
        self._version = item.metadata.resource_version
        return Change(kind=kind, item=item)
