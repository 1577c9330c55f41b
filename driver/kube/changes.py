"""What a watch says of objects, for those who only read it: no I/O comes with it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from driver.kube.resources import KubeObject

T = TypeVar("T", bound=KubeObject)


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
