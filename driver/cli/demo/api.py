"""An API server in memory, as large as one plugin needs it: plain HTTP on the loopback interface.

Kept: resource versions and their conflicts, generated names, field selectors, preconditions, watches. No admission, no
defaults, no authentication.
"""

from __future__ import annotations

import json
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

Json = dict[str, Any]

_WATCH_TURN_S = 0.2
_REASONS = {404: "NotFound", 409: "Conflict"}


class Target(NamedTuple):
    """What a path names; without a name the whole collection."""

    plural: str
    namespace: str
    name: str


class Refused(Exception):
    """The answer is a Status of this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Change(NamedTuple):
    """One entry of the history that watches read."""

    version: int
    type: str
    plural: str
    item: Json


class Store:
    """The objects, under one lock."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_closing = False
        self._version = 0
        self._items: dict[Target, Json] = {}
        self._history: list[Change] = []

    def create(self, plural: str, item: Json, *, namespace: str = "") -> Json:
        """Store a new object under its name or a generated one."""
        with self.changed:
            meta = dict(item.get("metadata", {}))
            meta["name"] = meta.get("name") or meta.get("generateName", "") + secrets.token_hex(3)
            meta["uid"] = meta.get("uid") or str(uuid.uuid4())
            if namespace:
                meta["namespace"] = namespace
            target = Target(plural, namespace, meta["name"])
            if target in self._items:
                raise Refused(409, f'{plural} "{target.name}" already exists')
            return self._put(target, "ADDED", {**item, "metadata": meta})

    def get(self, target: Target) -> Json:
        """One object."""
        with self.changed:
            if target not in self._items:
                raise Refused(404, f'{target.plural} "{target.name}" not found')
            return self._items[target]

    def select(self, target: Target, fields: str = "") -> tuple[list[Json], int]:
        """A collection, and the version that it is of."""
        with self.changed:
            found = [item for key, item in sorted(self._items.items()) if key.plural == target.plural]
            return [item for item in found if _is_selected(item, target.namespace, fields)], self._version

    def change(self, target: Target, edit: Callable[[Json], Json]) -> Json:
        """Put an edited object in the place of the old one, if it is still the one that the editor saw."""
        with self.changed:
            old = self.get(target)
            new = edit(old)
            seen = new.get("metadata", {}).get("resourceVersion")
            if seen and seen != old["metadata"]["resourceVersion"]:
                raise Refused(409, f'{target.plural} "{target.name}" has been modified')
            return self._put(target, "MODIFIED", {**new, "metadata": {**old["metadata"], **new.get("metadata", {})}})

    def delete(self, target: Target, preconditions: Json) -> None:
        """Remove an object, if it is the one that is meant."""
        with self.changed:
            old = self.get(target)
            if any(old["metadata"].get(key) != want for key, want in preconditions.items()):
                raise Refused(409, f'{target.plural} "{target.name}" is another one now')
            self._put(target, "DELETED", old)
            del self._items[target]

    def watch(self, target: Target, fields: str, version: int) -> Iterator[Change | None]:
        """The changes after a version, and None now and then while there are none; ends when the server closes."""
        while not self.is_closing:
            with self.changed:
                fresh = [change for change in self._history if change.version > version]
                if not fresh:
                    self.changed.wait(_WATCH_TURN_S)
            version = fresh[-1].version if fresh else version
            yield from (
                each for each in fresh if each.plural == target.plural and _is_selected(each.item, target.namespace, fields)
            )
            yield None

    def close(self) -> None:
        """End every watch."""
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()

    def _put(self, target: Target, kind: str, item: Json) -> Json:
        self._version += 1
        stored = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        self._items[target] = stored
        self._history.append(Change(self._version, kind, target.plural, stored))
        self.changed.notify_all()
        return stored


class MemoryApi:
    """The server: ``with MemoryApi() as api: KubeClient(... api.url ...)``."""

    def __init__(self) -> None:
        self.store = Store()
        store = self.store

        class Handler(_Handler):
            """Requests to this server's store."""

        Handler.store = store
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="demo-api", daemon=True)

    @property
    def url(self) -> str:
        """``http://127.0.0.1:<port>``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MemoryApi:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def do_GET(self) -> None:
        """One object, a collection, or a watch."""
        target, query = self._read_target()
        fields = query.get("fieldSelector", "")
        if target.name:
            self._answer(lambda: self.store.get(target))
        elif query.get("watch"):
            self._stream(target, fields, int(query.get("resourceVersion") or 0))
        else:
            self._answer(lambda: _build_list(*self.store.select(target, fields)))

    def do_POST(self) -> None:
        """A new object."""
        target, _ = self._read_target()
        body = self._read_body()
        self._answer(lambda: self.store.create(target.plural, body, namespace=target.namespace), code=201)

    def do_PUT(self) -> None:
        """Another state of an object."""
        target, _ = self._read_target()
        body = self._read_body()
        self._answer(lambda: self.store.change(target, lambda _: body))

    def do_PATCH(self) -> None:
        """A JSON merge patch."""
        target, _ = self._read_target()
        body = self._read_body()
        self._answer(lambda: self.store.change(target, lambda old: _merge(old, body)))

    def do_DELETE(self) -> None:
        """An object's end."""
        target, _ = self._read_target()
        preconditions = self._read_body().get("preconditions") or {}

        def delete() -> Json:
            self.store.delete(target, preconditions)
            return {"kind": "Status", "status": "Success"}

        self._answer(delete)

    def log_message(self, format: str, *args: object) -> None:
        """The demo tells its story itself."""

    def _read_target(self) -> tuple[Target, dict[str, str]]:
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(parts) > 2 and parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        plural, name = (*parts, "", "")[:2]
        return Target(plural, namespace, name), dict(parse_qsl(url.query))

    def _read_body(self) -> Json:
        body: Json = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        return body

    def _answer(self, act: Callable[[], Json], *, code: int = 200) -> None:
        try:
            body = act()
        except Refused as err:
            code = err.code
            body = {"kind": "Status", "status": "Failure", "code": code, "reason": _REASONS[code], "message": str(err)}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, target: Target, fields: str, version: int) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for change in self.store.watch(target, fields, version):
                if change is not None:
                    line = json.dumps({"type": change.type, "object": change.item}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            return


def _build_list(items: list[Json], version: int) -> Json:
    return {"metadata": {"resourceVersion": str(version)}, "items": items}


def _is_selected(item: Json, namespace: str, fields: str) -> bool:
    pairs = [each.split("=", 1) for each in fields.split(",") if each]
    is_here = not namespace or item["metadata"].get("namespace") == namespace
    return is_here and all(_field(item, path) == value for path, value in pairs)


def _field(item: Any, path: str) -> str:
    for part in path.split("."):
        item = item.get(part, "") if isinstance(item, dict) else ""
    return str(item)


def _merge(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
