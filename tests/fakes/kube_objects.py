"""The objects of a cluster in memory, for tests that need the API server's rules and not its HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.fakes.kube_kinds import kind_of
from tests.fakes.kube_store import Matcher, Store

Json = dict[str, Any]


class KubeObjects:
    """What an administrator, or anybody else, does; uncounted, and at once."""

    def __init__(self, *, gates_off: Iterable[str] = ()) -> None:
        self.store = Store(gates_off=frozenset(gates_off))

    def compact(self) -> None:
        """Forget the history, so that watches from before now get 410."""
        self.store.compact()

    def create(self, plural: str, body: Json) -> Json:
        """Create an object as somebody else would; uncounted."""
        return self.store.create(kind_of(plural), body.get("metadata", {}).get("namespace", ""), body)

    def edit(self, plural: str, name: str, change: Any, *, namespace: str = "", is_status: bool = False) -> Json:
        """Change an object as somebody else would: ``change`` gets a copy and returns the new form."""
        return self.store.update(kind_of(plural), namespace, name, change, is_status=is_status)

    def delete(self, plural: str, name: str, *, namespace: str = "") -> None:
        """Delete an object as somebody else would."""
        self.store.delete(kind_of(plural), namespace, name)

    def delete_all(self, plural: str) -> int:
        """Delete all objects of a kind, as the kubelet does with a node's slices."""
        return self.store.delete_all(kind_of(plural), Matcher())

    def objects(self, plural: str) -> list[Json]:
        """All objects of a kind, by namespace and name."""
        return self.store.select(kind_of(plural), Matcher())[0]
