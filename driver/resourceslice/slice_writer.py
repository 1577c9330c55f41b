"""Carries out one write plan, request by request, and says what came of it.

Each request is sent under the publisher's lock. Conflicts mean that what we knew was old: the slice is read again, and the next
round plans anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from driver.api.meta_v1 import OwnerReference
from driver.api.resource_v1 import ResourceSlice
from driver.errors import Conflict, NotFound
from driver.kube.client import KubeClient, Preconditions
from driver.kube.resources import NODES, RESOURCE_SLICES
from driver.resourceslice.diff import WritePlan
from driver.resourceslice.publisher_lock import PublisherLock

_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Who learns of each effect at once, so that a failure half-way leaves no doubt about the first half."""

    stored: Callable[[ResourceSlice, ResourceSlice], None]
    """Called with a slice as it was sent, and as the server stored it."""
    deleted: Callable[[ResourceSlice], None]
    refreshed: Callable[[ResourceSlice], None]
    """Called with a slice that somebody else had changed."""


class Yielded(Exception):
    """A newer instance is the publisher now."""


class SliceWriter:
    """Writes slices of one node."""

    def __init__(self, client: KubeClient, lock: PublisherLock, *, node_name: str) -> None:
        self._client = client
        self._lock = lock
        self._node_name = node_name

    def write(self, plan: WritePlan, sink: Sink) -> bool:
        """Delete, update, create. False when somebody else was quicker and a new plan is needed.

        Raises ``ApiError``, and ``Yielded`` when this instance may not write (any more).
        """
        creates = self._with_owner(plan.creates) if plan.creates else ()
        for item in plan.deletes:
            if not self._delete(item, sink):
                return False
        for item in plan.updates:
            if not self._update(item, sink):
                return False
        for item in creates:
            with self._lock.writing(_LOCK_WAIT_S) as may_write:
                _require(may_write=may_write)
                sink.stored(item, self._client.create(RESOURCE_SLICES, item))
        return True

    def _delete(self, item: ResourceSlice, sink: Sink) -> bool:
        conditions = Preconditions(uid=item.metadata.uid, resource_version=item.metadata.resource_version)
        with self._lock.writing(_LOCK_WAIT_S) as may_write:
            _require(may_write=may_write)
            try:
                self._client.delete(RESOURCE_SLICES, item.metadata, preconditions=conditions)
            except NotFound:
                pass  # as wanted
            except Conflict:
                self._refresh(item, sink)
                return False
            sink.deleted(item)
        return True

    def _update(self, item: ResourceSlice, sink: Sink) -> bool:
        with self._lock.writing(_LOCK_WAIT_S) as may_write:
            _require(may_write=may_write)
            try:
                sink.stored(item, self._client.replace(RESOURCE_SLICES, item))
            except (Conflict, NotFound):
                self._refresh(item, sink)
                return False
        return True

    def _refresh(self, item: ResourceSlice, sink: Sink) -> None:
        try:
            now = self._client.get(RESOURCE_SLICES, item.metadata.name)
        except NotFound:
            sink.deleted(item)
            return
        if now.metadata.uid != item.metadata.uid:
            sink.deleted(item)
        sink.refreshed(now)

    def _with_owner(self, items: tuple[ResourceSlice, ...]) -> tuple[ResourceSlice, ...]:
        """The slices, owned by the Node as it is now: made again under its name, it has another uid."""
        uid = self._client.get(NODES, self._node_name).metadata.uid
        owner = OwnerReference(api_version="v1", kind="Node", name=self._node_name, uid=uid, controller=True)
        replace = msgspec.structs.replace
        return tuple(replace(item, metadata=replace(item.metadata, owner_references=(owner,))) for item in items)


def _require(*, may_write: bool) -> None:
    if not may_write:
        raise Yielded
