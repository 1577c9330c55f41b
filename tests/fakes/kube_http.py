"""The HTTP face of the fake API server: paths to verbs, bodies, watch streams, and faults on demand."""

from __future__ import annotations

import json
import re
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from driver.kube.protobuf import MEDIA_TYPE
from tests.fakes import kube_protobuf
from tests.fakes.kube_kinds import KINDS, Kind
from tests.fakes.kube_store import Event, Matcher, Refused, Store

if TYPE_CHECKING:
    from tests.fakes.kube_api import FakeKubeApi, Fault

Json = dict[str, Any]

_PATH = re.compile(r"^/(?:api|apis)/(?P<rest>.*)$")


class Target:
    """What a path and query name."""

    def __init__(self, method: str, url: str) -> None:
        parts = urlsplit(url)
        self.query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.kind, tail = _find_kind(parts.path)
        self.namespace = ""
        if tail[0] == "namespaces" and len(tail) > 2:
            self.namespace, tail = unquote(tail[1]), tail[2:]
        self.name = unquote(tail[1]) if len(tail) > 1 else ""
        self.subresource = tail[2] if len(tail) > 2 else ""
        self.verb = self._verb(method)

    def matcher(self) -> Matcher:
        fields = _selector(self.query.get("fieldSelector", ""))
        for path, _ in fields:
            if path not in {"metadata.name", "metadata.namespace", *self.kind.fields}:
                raise Refused(400, "BadRequest", f"field label not supported: {path}")
        return Matcher(namespace=self.namespace, fields=fields, labels=_selector(self.query.get("labelSelector", "")))

    def _verb(self, method: str) -> str:
        if method == "GET" and not self.name:
            return "watch" if self.query.get("watch") in {"1", "true"} else "list"
        names = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
        return names.get(method) or ("delete" if self.name else "deletecollection")


class Handler(BaseHTTPRequestHandler):
    """One connection. ``api`` is set by the server's own subclass."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    api: FakeKubeApi

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  http.server's names

    def log_message(self, format: str, *args: object) -> None:
        return

    def _serve(self) -> None:
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(body)
        except Refused as err:
            self._send(err.code, err.status(), retry_after_s=err.retry_after_s)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, body: bytes) -> None:
        if self.path == "/version":
            self._send(200, self.api.version)
            return
        target = Target(self.command, self.path)
        fault = self.api.note_request(target.verb, target.kind.plural)
        self._check_token()
        if fault is not None and self._fail(fault):
            return
        if target.verb == "watch":
            self._watch(target)
            return
        if self.headers.get("Accept") == MEDIA_TYPE:
            self._send_protobuf(self.api.store.get(target.kind, target.namespace, target.name))
            return
        code, answer = self._act(target, self._read(target, body) if body else {})
        self._send(code, answer)

    def _read(self, target: Target, body: bytes) -> Json:
        if self.headers.get("Content-Type") == MEDIA_TYPE:
            return kube_protobuf.decode(body)
        if target.name in self.api.no_json and not target.subresource and target.verb in {"update", "patch"}:
            text = f'{target.kind.name} "{target.name}" is invalid: spec: Invalid value: null: field is immutable'
            raise Refused(422, "Invalid", text)
        decoded: Json = json.loads(body)
        if target.verb == "create" and kube_protobuf.has_loose_parameters(body):
            self.api.no_json.add(decoded["metadata"]["name"])
        return decoded

    def _send_protobuf(self, body: Json) -> None:
        data = kube_protobuf.encode(body)
        self.send_response(200)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _act(self, target: Target, body: Json) -> tuple[int, Json]:
        store, kind = self.api.store, target.kind
        match target.verb:
            case "get":
                return 200, store.get(kind, target.namespace, target.name)
            case "list":
                return 200, _list(store, target)
            case "create":
                is_dry_run = target.query.get("dryRun") == "All"
                return 201, store.create(kind, target.namespace, body, is_dry_run=is_dry_run)
            case "update":
                return 200, self._update(target, lambda _: body)
            case "patch":
                return 200, self._patch(target, body)
            case "delete":
                store.delete(kind, target.namespace, target.name, body.get("preconditions"))
        if target.verb == "deletecollection":
            store.delete_all(kind, target.matcher())
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _patch(self, target: Target, body: Json) -> Json:
        kind = self.headers.get("Content-Type")
        if kind == "application/apply-patch+yaml" and target.subresource == "status":
            return self._update(target, lambda old: self.api.applied.apply(old, body, target.query))
        if kind != "application/merge-patch+json":
            raise Refused(415, "UnsupportedMediaType", "the fake knows merge patches, and applies of a status")
        return self._update(target, lambda old: merge_patch(old, body))

    def _update(self, target: Target, change: Any) -> Json:
        if target.subresource not in {"", "status"}:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        is_status = target.subresource == "status"
        return self.api.store.update(target.kind, target.namespace, target.name, change, is_status=is_status)

    def _watch(self, target: Target) -> None:
        matcher, store, kind = target.matcher(), self.api.store, target.kind
        version = int(target.query.get("resourceVersion") or 0)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        ends_at = time.monotonic() + float(target.query.get("timeoutSeconds") or 1800)
        if version == 0:
            items, version = store.select(kind, matcher)
            for item in items:
                self._line({"type": "ADDED", "object": item})
        bookmarks = self.api.bookmarks
        while time.monotonic() < ends_at and not self.api.is_stopping:
            version, lines = self._wait_for_lines(kind, matcher, version, min(0.5, max(0.0, ends_at - time.monotonic())))
            for line in lines:
                self._line(line)
                if line["type"] == "ERROR":
                    self._end_stream()
                    return
            if self.api.bookmarks != bookmarks:
                bookmarks = self.api.bookmarks
                self._bookmark(kind, version)
        if not self.api.is_stopping:
            self._bookmark(kind, version)
            self._end_stream()

    def _wait_for_lines(self, kind: Kind, matcher: Matcher, version: int, wait_s: float) -> tuple[int, list[Json]]:
        store = self.api.store
        with store.changed:
            try:
                events = list(store.events_after(version, kind))
            except Refused as err:
                return version, [{"type": "ERROR", "object": err.status()}]
            if not events:
                seen = max(version, store.version)
                store.changed.wait(wait_s)
                return seen, []
        return events[-1].version, [line for event in events if (line := _event_line(event, matcher)) is not None]

    def _bookmark(self, kind: Kind, version: int) -> None:
        meta = {"resourceVersion": str(version)}
        self._line({"type": "BOOKMARK", "object": {"apiVersion": kind.group_version, "kind": kind.name, "metadata": meta}})

    def _line(self, event: Json) -> None:
        self._chunk(json.dumps(event).encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _check_token(self) -> None:
        if self.api.tokens and self.headers.get("Authorization") not in {f"Bearer {token}" for token in self.api.tokens}:
            raise Refused(401, "Unauthorized", "Unauthorized")

    def _fail(self, fault: Fault) -> bool:
        """Play a fault. True when that was the answer."""
        match fault.kind:
            case "status":
                raise Refused(fault.status, fault.reason, fault.message, retry_after_s=fault.retry_after_s)
            case "delay":
                time.sleep(fault.delay_s)
                return False
            case "drop":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            case "raw":
                self.send_response(fault.status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(fault.body)))
                self.end_headers()
                self.wfile.write(fault.body)
                self.wfile.flush()
            case "stream":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._chunk(fault.body)
                self.close_connection = True
        return True

    def _send(self, code: int, body: Json, *, retry_after_s: int = 0) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after_s:
            self.send_header("Retry-After", str(retry_after_s))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _find_kind(path: str) -> tuple[Kind, list[str]]:
    match = _PATH.match(path)
    rest = match["rest"] if match else ""
    for kind in KINDS:
        root = "/apis/" if "/" in kind.group_version else "/api/"
        if path.startswith(root) and rest.startswith(kind.group_version + "/"):
            tail = rest[len(kind.group_version) + 1 :].split("/")
            plural = tail[2] if tail[0] == "namespaces" and len(tail) > 2 else tail[0]
            if plural == kind.plural:
                return kind, tail
    raise Refused(404, "NotFound", "the server could not find the requested resource")


def _selector(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return tuple((key, value.removeprefix("=")) for key, _, value in pairs)


def _list(store: Store, target: Target) -> Json:
    items, version = store.select(target.kind, target.matcher())
    start = 0
    if token := target.query.get("continue"):
        start, version = (int(part) for part in token.split("."))
        if version < store.compacted:
            raise Refused(410, "Expired", "The provided continue parameter is too old to display a consistent list result")
    limit = int(target.query.get("limit") or 0) or len(items)
    meta: Json = {"resourceVersion": str(version)}
    if start + limit < len(items):
        meta["continue"] = f"{start + limit}.{version}"
    kind = target.kind
    page = items[start : start + limit]
    return {"apiVersion": kind.group_version, "kind": f"{kind.name}List", "metadata": meta, "items": page}


def _event_line(event: Event, matcher: Matcher) -> Json | None:
    was, now = matcher.matches(event.before), matcher.matches(event.after)
    if now:
        return {"type": "MODIFIED" if was else "ADDED", "object": event.after}
    return {"type": "DELETED", "object": event.before if event.after is None else event.after} if was else None


def merge_patch(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
