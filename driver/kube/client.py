"""Get, list, create, replace, patch, delete and watch objects of the API server: the only HTTP in the program.

Typed by ``msgspec``: an answer is decoded straight into the frozen values of ``driver.api``, unknown fields skipped. No request
is held back by a rate of our own, and none is tried again here (but see ``transport``): callers know what a retry means.
Every refusal is an ``ApiError``; no text of the server's is kept longer than a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from driver.errors import ApiError, Conflict
from driver.kube import protobuf
from driver.kube.answers import read_answer, read_bytes, read_refusal
from driver.kube.credentials import Credentials
from driver.kube.line_stream import LineStream
from driver.kube.refusals import Status
from driver.kube.resources import EVERYTHING, Identity, KubeObject, Resource, Selection
from driver.kube.transport import Request, Transport

T = TypeVar("T", bound=KubeObject)
V = TypeVar("V")

PAGE_SIZE = 500
MAX_PAGES = 4000
"""Two million objects: a list without end is an error, and no full memory."""
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[V], frozen=True):
    metadata: _ListMeta
    items: tuple[V, ...] | None = None


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """``/version``. ``minor`` may end in a ``+``."""

    major: str
    minor: str
    git_version: str = ""

    @property
    def numbers(self) -> tuple[int, int]:
        """``(1, 37)``; zeros where the server's text has no digits."""
        return _leading_int(self.major), _leading_int(self.minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """All objects of a selection at one resource version."""

    items: tuple[T, ...]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """A delete takes effect only if the object is still this one; empty text is no condition."""

    uid: str = ""
    resource_version: str = ""


class KubeClient:
    """The API server, for any number of threads; ``connections``: how many of them may use it all the time."""

    def __init__(
        self, credentials: Credentials, *, timeout_s: float = 30.0, connect_timeout_s: float = 5.0, connections: int = 8
    ) -> None:
        self._transport = Transport(credentials, connect_timeout_s=connect_timeout_s, connections=connections)
        self._timeout_s = timeout_s

    def get(self, resource: Resource[T], name: str, *, namespace: str = "", timeout_s: float | None = None) -> T:
        """One object. ``timeout_s`` is for callers with a deadline of their own."""
        request = Request(
            method="GET",
            path=resource.path(namespace=namespace, name=name),
            query={},
            read_timeout_s=self._timeout_s if timeout_s is None else timeout_s,
        )
        return self._ask(request, resource.type_)

    def list_all(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        page_size: int = PAGE_SIZE,
        reduce: Callable[[T], T] | None = None,
    ) -> Listing[T]:
        """All objects of the selection, asked for by pages. Raises ``Gone`` when the list changed too much on the way.

        ``reduce`` makes each object smaller before the next page is asked for: what it drops is never there all at once.
        """
        items: list[T] = []
        query = selection.query() | {"limit": str(page_size)}
        for _ in range(MAX_PAGES):
            request = self._request("GET", resource.path(namespace=selection.namespace), query=query)
            page = self._ask(request, _Page[resource.type_])  # type: ignore[name-defined]
            items.extend(page.items or () if reduce is None else map(reduce, page.items or ()))
            if not page.metadata.continue_:
                return Listing(items=tuple(items), resource_version=page.metadata.resource_version)
            query["continue"] = page.metadata.continue_
        raise ApiError(f"GET {resource.plural}", 200, f"the list has no end: {MAX_PAGES} pages of it were read")

    def create(self, resource: Resource[T], item: T, *, namespace: str = "", is_dry_run: bool = False) -> T:
        """Create an object; the answer is how the server stored it, or, in a dry run, how it would."""
        query = {"dryRun": "All"} if is_dry_run else {}
        return self._ask(self._request("POST", resource.path(namespace=namespace), query=query, body=item), resource.type_)

    def replace(self, resource: Resource[T], item: T) -> T:
        """Put an object in the place of the one of its name. Its resourceVersion is the condition (``Conflict``)."""
        path = resource.path(namespace=item.metadata.namespace, name=item.metadata.name)
        return self._ask(self._request("PUT", path, body=item), resource.type_)

    def replace_status(self, resource: Resource[T], target: Identity, body: object) -> T:
        """Put ``body``, metadata with status, in the place of the status of ``target``. It is sent once.

        The server gives up when we do: an answer that was not awaited is not the beginning of a write in the far future.
        """
        request = Request(
            method="PUT",
            path=resource.path(namespace=target.namespace, name=target.name, subresource="status"),
            query={"timeout": f"{max(1, round(self._timeout_s))}s"},
            body=msgspec.json.encode(body),
            read_timeout_s=self._timeout_s,
            is_sent_once=True,
        )
        return self._ask(request, resource.type_)

    def patch(self, resource: Resource[T], target: Identity, body: object, *, subresource: str = "") -> T:
        """Merge ``body`` into the object that ``target`` names (a JSON merge patch)."""
        path = resource.path(namespace=target.namespace, name=target.name, subresource=subresource)
        return self._ask(self._request("PATCH", path, body=body, content_type=MERGE_PATCH), resource.type_)

    def apply_status(self, resource: Resource[T], target: Identity, body: object, *, manager: str) -> T:
        """Say all that ``manager`` has to say of the status (server-side apply); what others say of it stays.

        ``body`` names its kind. What ``manager`` said before and does not say now goes. A resourceVersion in its metadata is a
        condition (``Conflict``).
        """
        request = Request(
            method="PATCH",
            path=resource.path(namespace=target.namespace, name=target.name, subresource="status"),
            query={"fieldManager": manager, "force": "true"},
            body=msgspec.json.encode(body),
            content_type=APPLY_PATCH,
            read_timeout_s=self._timeout_s,
        )
        return self._ask(request, resource.type_)

    def edit_metadata(
        self, resource: Resource[T], target: Identity, *, annotations: Mapping[str, str | None], finalizers: Sequence[str]
    ) -> T:
        """Set annotations (None: take out) and all finalizers, and leave every other byte of the object as it is stored.

        For objects that JSON cannot change (``protobuf``). The resourceVersion of ``target`` is the condition (``Conflict``).
        """
        path = resource.path(namespace=target.namespace, name=target.name)
        asked = Request(method="GET", path=path, query={}, accept=protobuf.MEDIA_TYPE, read_timeout_s=self._timeout_s)
        body = read_bytes(asked, self._transport.send(asked))
        try:
            if protobuf.read_resource_version(body) != target.resource_version:
                raise Conflict(f"PUT {path}", 409, "the object has been modified")
            edited = protobuf.edit_metadata(body, annotations=annotations, finalizers=finalizers)
        except ValueError as err:
            raise ApiError(f"GET {path}", 200, str(err)) from err
        request = Request(
            method="PUT", path=path, query={}, body=edited, content_type=protobuf.MEDIA_TYPE, read_timeout_s=self._timeout_s
        )
        return self._ask(request, resource.type_)

    def delete(self, resource: Resource[T], target: Identity, *, preconditions: Preconditions = Preconditions()) -> None:
        """Delete the object that ``target`` names; ``NotFound`` where it is gone, ``Conflict`` where it is another."""
        conditions = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        body = {"preconditions": {key: value for key, value in conditions.items() if value}}
        path = resource.path(namespace=target.namespace, name=target.name)
        self._ask(self._request("DELETE", path, body=body), Status)

    def open_watch(
        self,
        resource: Resource[T],
        selection: Selection,
        *,
        resource_version: str,
        timeout_s: int,
        max_line_bytes: int = 8 << 20,
    ) -> LineStream:
        """A stream of events after ``resource_version``, with bookmarks, which the server ends after ``timeout_s``."""
        query = selection.query() | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        path = resource.path(namespace=selection.namespace)
        request = Request(method="GET", path=path, query=query, read_timeout_s=timeout_s + 30.0)
        response = self._transport.send(request)
        if response.status != 200:
            raise read_refusal(request, response)
        return LineStream(request, response, max_line_bytes=max_line_bytes)

    def server_version(self) -> ServerVersion:
        """Which Kubernetes the server is of."""
        return self._ask(self._request("GET", "/version"), ServerVersion)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> Request:
        data = None if body is None else msgspec.json.encode(body)
        return Request(
            method=method, path=path, query=query or {}, body=data, content_type=content_type, read_timeout_s=self._timeout_s
        )

    def _ask(self, request: Request, type_: type[V]) -> V:
        return read_answer(request, self._transport.send(request), type_)


def _leading_int(text: str) -> int:
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits[:9]) if digits else 0
