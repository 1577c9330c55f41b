"""The objects of a fake API server: resource versions, conflicts, preconditions, generated names, selectors, history."""

from __future__ import annotations

import copy
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.kube_kinds import Kind

Json = dict[str, Any]

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58


class Refused(Exception):
    """The server's answer to a bad request: an HTTP status with a Status body."""

    def __init__(self, code: int, reason: str, message: str, *, retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    def status(self) -> Json:
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }
        if self.retry_after_s:
            body["details"] = {"retryAfterSeconds": self.retry_after_s}
        return body


@dataclass(frozen=True, slots=True)
class Event:
    """One change, with the object before and after it."""

    version: int
    kind: Kind
    before: Json | None
    after: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """A namespace and parsed selectors."""

    namespace: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def matches(self, obj: Json | None) -> bool:
        if obj is None:
            return False
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace", "") != self.namespace:
            return False
        return all(_field(obj, path) == value for path, value in self.fields) and all(
            meta.get("labels", {}).get(key) == value for key, value in self.labels
        )


@dataclass
class Store:
    """Everything, under one lock; ``changed`` is notified after each write."""

    gates_off: frozenset[str] = frozenset()
    version: int = 100
    compacted: int = 100
    objects: dict[tuple[Kind, str, str], Json] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        with self.changed:
            found = self.objects.get((kind, namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{kind.plural} "{name}" not found')
            return copy.deepcopy(found)

    def select(self, kind: Kind, matcher: Matcher) -> tuple[list[Json], int]:
        with self.changed:
            found = [copy.deepcopy(obj) for key, obj in sorted(self.objects.items(), key=_sort_key) if key[0] == kind]
            return [obj for obj in found if matcher.matches(obj)], self.version

    def create(self, kind: Kind, namespace: str, body: Json, *, is_dry_run: bool = False) -> Json:
        with self.changed:
            new = self._complete(kind, namespace, body)
            key = (kind, namespace, new["metadata"]["name"])
            if key in self.objects:
                raise Refused(409, "AlreadyExists", f'{kind.plural} "{key[2]}" already exists')
            return new if is_dry_run else self._put(key, None, new)

    def update(self, kind: Kind, namespace: str, name: str, change: Callable[[Json], Json], *, is_status: bool = False) -> Json:
        """Replace or patch: ``change`` gives the new object from a copy of the old one."""
        with self.changed:
            old = self.get(kind, namespace, name)
            new = change(copy.deepcopy(old))
            self._check_identity(kind, old, new)
            if is_status:
                new = old | {"status": new.get("status", {})}
            elif kind.has_status:
                new["status"] = old.get("status", {})
            meta = {key: value for key, value in new.get("metadata", {}).items() if value not in (None, {}, [])}
            kept = ("name", "namespace", "uid", "creationTimestamp", "generateName", "generation", "deletionTimestamp")
            meta |= {key: old["metadata"][key] for key in kept if key in old["metadata"]}
            new = {**new, "apiVersion": kind.group_version, "kind": kind.name, "metadata": meta}
            self._check_finalizers(kind, old, meta)
            self._admit(kind, new, old)
            same = {**new, "metadata": meta | {"resourceVersion": old["metadata"]["resourceVersion"]}}
            if same == old:
                return old
            if new.get("spec") != old.get("spec"):
                meta["generation"] = old["metadata"]["generation"] + 1
            if "deletionTimestamp" in meta and not meta.get("finalizers"):
                self._record((kind, namespace, name), old, None)
                return new
            return self._put((kind, namespace, name), old, new)

    def delete(self, kind: Kind, namespace: str, name: str, preconditions: Json | None = None) -> None:
        with self.changed:
            old = self.get(kind, namespace, name)
            for key, want in (preconditions or {}).items():
                have = old["metadata"][key]
                if have != want:
                    text = f"the {key} in the precondition ({want}) does not match the one in record ({have})"
                    raise Refused(409, "Conflict", text)
            if not old["metadata"].get("finalizers"):
                self._record((kind, namespace, name), old, None)
            elif "deletionTimestamp" not in old["metadata"]:
                stamp = {"deletionTimestamp": _now()}
                self._put((kind, namespace, name), old, {**old, "metadata": old["metadata"] | stamp})

    def delete_all(self, kind: Kind, matcher: Matcher) -> int:
        with self.changed:
            found, _ = self.select(kind, matcher)
            for obj in found:
                self.delete(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            return len(found)

    def compact(self) -> None:
        """Forget the history: watches from before now, and list continuations, get 410."""
        with self.changed:
            self.version += 1
            self.compacted = self.version
            self.history.clear()

    def events_after(self, version: int, kind: Kind) -> Iterator[Event]:
        with self.changed:
            if version < self.compacted:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self.compacted})")
            yield from [event for event in self.history if event.version > version and event.kind == kind]

    def _complete(self, kind: Kind, namespace: str, body: Json) -> Json:
        meta = dict(body.get("metadata", {}))
        if meta.get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        if not meta.get("name"):
            if not meta.get("generateName"):
                raise Refused(422, "Invalid", "metadata.name: Required value: name or generateName is required")
            suffix = "".join(random.choices(_NAME_ALPHABET, k=5))
            meta["name"] = meta["generateName"][:_GENERATED_BASE] + suffix
        if kind.is_namespaced != bool(namespace):
            raise Refused(400, "BadRequest", f"{kind.plural}: namespace is {namespace!r}")
        if namespace:
            meta["namespace"] = namespace
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now(), "generation": 1}
        new = {**body, "apiVersion": kind.group_version, "kind": kind.name, "metadata": meta}
        self._admit(kind, new, None)
        return new

    def _admit(self, kind: Kind, new: Json, old: Json | None) -> None:
        faults = kind.admit(new, old, self.gates_off)
        if faults:
            name = new["metadata"]["name"]
            raise Refused(422, "Invalid", f'{kind.name} "{name}" is invalid: ' + ", ".join(faults))

    def _check_finalizers(self, kind: Kind, old: Json, meta: Json) -> None:
        added = set(meta.get("finalizers", ())) - set(old["metadata"].get("finalizers", ()))
        if added and "deletionTimestamp" in old["metadata"]:
            text = f"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted: {added}"
            raise Refused(422, "Invalid", f'{kind.name} "{old["metadata"]["name"]}" is invalid: {text}')

    def _check_identity(self, kind: Kind, old: Json, new: Json) -> None:
        meta = new.get("metadata", {})
        for key in ("resourceVersion", "uid"):
            if meta.get(key) and meta[key] != old["metadata"][key]:
                text = (
                    f'Operation cannot be fulfilled on {kind.plural} "{old["metadata"]["name"]}": the object has been modified'
                )
                raise Refused(409, "Conflict", text)

    def _put(self, key: tuple[Kind, str, str], old: Json | None, new: Json) -> Json:
        self._record(key, old, new)
        return copy.deepcopy(new)

    def _record(self, key: tuple[Kind, str, str], old: Json | None, new: Json | None) -> None:
        self.version += 1
        if new is None:
            del self.objects[key]
            assert old is not None
            old = copy.deepcopy(old)
            old["metadata"]["resourceVersion"] = str(self.version)
        else:
            new["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = copy.deepcopy(new)
        self.history.append(Event(self.version, key[0], old, copy.deepcopy(new)))
        self.changed.notify_all()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _sort_key(entry: tuple[tuple[Kind, str, str], Json]) -> tuple[str, str]:
    return entry[0][1], entry[0][2]


def _field(obj: Json, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)
