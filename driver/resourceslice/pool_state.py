"""The slices of one driver on one node as we know them: from our watch, and from the answers to our own writes.

A watch lags behind our writes. What it tells is therefore compared by resourceVersion with what we know: an echo of our own
write is no news, and something older than what we hold is none either (the numbers are comparable by contract since 1.35, and
were before).
"""

from __future__ import annotations

from collections import OrderedDict

from driver.api.resource_v1 import ResourceSlice
from driver.kube.changes import Change, ChangeKind
from driver.kube.watch import Listed
from driver.names import PoolName
from driver.resourceslice.diff import MAX_GENERATION

_GONE_MAX = 256
"""Deletions that are remembered, so that the late answer to a write does not bring its slice back to life."""

_VERSION_DIGITS_MAX = 100
"""Python refuses to read a number of thousands of digits; no server's has more than twenty."""


class PoolState:
    """What exists. Not safe for several threads by itself."""

    def __init__(self, pool: PoolName) -> None:
        self.is_listed = False
        self.highest_generation = 0
        self._pool = pool
        self._by_uid: dict[str, ResourceSlice] = {}
        self._deleted: set[str] = set()
        self._seen_gone: OrderedDict[str, None] = OrderedDict()
        self._listed_version = ""

    @property
    def slices(self) -> tuple[ResourceSlice, ...]:
        """All slices, in the order of their names."""
        return tuple(sorted(self._by_uid.values(), key=lambda each: each.metadata.name))

    def note_change(self, change: Change[ResourceSlice]) -> bool:
        """Take in what the watch says. True when that is news."""
        item, uid = change.item, change.item.metadata.uid
        if change.kind is ChangeKind.DELETED:
            self._deleted.discard(uid)
            self._seen_gone[uid] = None
            while len(self._seen_gone) > _GONE_MAX:
                self._seen_gone.popitem(last=False)
            return self._by_uid.pop(uid, None) is not None
        known = self._by_uid.get(uid)
        if uid in self._deleted or (known is not None and not _is_later(item, than=known.metadata.resource_version)):
            return False
        self._keep(item)
        return True

    def note_listing(self, listed: Listed) -> bool:
        """Forget what a complete list does not hold, but for what we wrote after it was made. True when that is news."""
        gone = [
            uid
            for uid, each in self._by_uid.items()
            if uid not in listed.uids and not _is_later(each, than=listed.resource_version)
        ]
        for uid in gone:
            del self._by_uid[uid]
        self._deleted &= listed.uids
        self._listed_version = listed.resource_version
        is_first, self.is_listed = not self.is_listed, True
        return is_first or bool(gone)

    def note_written(self, stored: ResourceSlice) -> bool:
        """Take in the answer to a write of ours, or to a GET. False when the watch was quicker: it knows something later."""
        uid = stored.metadata.uid
        known = self._by_uid.get(uid)
        if known is not None:
            is_news = _is_later(stored, than=known.metadata.resource_version)
            if is_news:
                self._keep(stored)
            return is_news or known.metadata.resource_version == stored.metadata.resource_version
        if uid in self._seen_gone or not _is_later(stored, than=self._listed_version):
            return False
        self._keep(stored)
        return True

    def note_deleted(self, item: ResourceSlice) -> None:
        """A delete of ours was done: what the watch still says of it is old."""
        self._by_uid.pop(item.metadata.uid, None)
        self._deleted.add(item.metadata.uid)

    def _keep(self, item: ResourceSlice) -> None:
        self._by_uid[item.metadata.uid] = item
        generation = item.spec.pool.generation
        if item.spec.pool.name == self._pool and generation < MAX_GENERATION:
            self.highest_generation = max(self.highest_generation, generation)


def _is_later(item: ResourceSlice, *, than: str) -> bool:
    version = item.metadata.resource_version
    if _is_number(version) and _is_number(than):
        return int(version) > int(than)
    return version != than


def _is_number(version: str) -> bool:
    return len(version) <= _VERSION_DIGITS_MAX and version.isascii() and version.isdigit()
