"""Keep a reader in step with a selection of objects: list, then watch, for as long as it takes.

What the reader gets is a row of changes: each object once as *added*, then its modifications, then *deleted*; and a ``Listed``
after every complete list. A list after a gap (the first, after 410, after a garbled stream) is turned into changes by comparing
uids: an object that was deleted and made again is *deleted* and *added*, never *modified*.

Every failure waits, longer each time and never the same (``Backoff``). A watch that the server ends in peace is resumed at once
from the last version seen, bookmarks included, so an idle reader costs one request in ten to twenty minutes.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import msgspec

from driver import log
from driver.api.meta_v1 import ObjectMeta
from driver.api.nesting import cut_nesting
from driver.errors import ApiError, Gone, TooManyRequests
from driver.kube.answers import decode_object
from driver.kube.backoff import Backoff
from driver.kube.changes import Change, ChangeKind, plan_relist
from driver.kube.client import KubeClient, Listing
from driver.kube.line_stream import LineStream
from driver.kube.refusals import Status, build_refusal
from driver.kube.resources import KubeObject, Resource, Selection

_LOG = log.logger(__name__)

_ERROR_WITHOUT_CODE = 500
"""Some proxies and emulators leave the code out: an answer all the same, after which the version is worth nothing."""

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """How long the server is asked to keep one watch open, and the waits after failures.

    The time open is drawn from a range, so that the watches of many nodes drift apart.
    """

    open_s: tuple[int, int] = (600, 1200)
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0


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


def decode_event(line: bytes, resource: Resource[T]) -> Change[T] | str:
    """One line of a watch: what it says of an object, or the version that a bookmark carries.

    Raises ``Gone``, and ``ApiError`` for another error of the server's and for what is no event.
    """
    try:
        return _decode_event(line, resource)
    except RecursionError:  # parameters of one object, which must not end the watch of all
        return _decode_event(cut_nesting(line), resource)


def _decode_event(line: bytes, resource: Resource[T]) -> Change[T] | str:
    try:
        head = msgspec.json.decode(line, type=_Head)
        if head.type == "ERROR":
            status = msgspec.json.decode(head.object, type=Status)
            code = status.code or _ERROR_WITHOUT_CODE
            raise build_refusal(f"WATCH {resource.plural}", code, status)
        if head.type == "BOOKMARK":
            return msgspec.json.decode(head.object, type=_Bookmark).metadata.resource_version
        kind = ChangeKind(head.type.lower())
        return Change(kind=kind, item=decode_object(head.object, resource.type_))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as err:
        raise ApiError(f"WATCH {resource.plural}", 200, f"not a watch event: {str(err)[:200]}") from err


class Watcher(Generic[T]):
    """Lists and watches one selection. One thread iterates ``changes``; any other may ``stop`` it.

    Every object is remembered, to be told when it is deleted. ``reduce`` makes objects smaller before anything else is done
    with them; their metadata has to stay.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        selection: Selection,
        *,
        rng: random.Random | None = None,
        pace: WatchPace | None = None,
        reduce: Callable[[T], T] | None = None,
    ) -> None:
        self._reduce = reduce
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
        listing: Listing[T] = self._client.list_all(self._resource, self._selection, reduce=self._reduce)
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
        return self._note(event.kind, event.item if self._reduce is None else self._reduce(event.item))

    def _note(self, kind: ChangeKind, item: T) -> Change[T]:
        uid = item.metadata.uid
        if kind is ChangeKind.DELETED:
            self._known.pop(uid, None)
        else:
            kind = ChangeKind.MODIFIED if uid in self._known else ChangeKind.ADDED
            self._known[uid] = item
        self._version = item.metadata.resource_version
        return Change(kind=kind, item=item)
