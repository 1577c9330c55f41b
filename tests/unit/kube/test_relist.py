"""A list after a gap, told as changes."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.kube.changes import Change, ChangeKind, plan_relist
from tests.fakes.slices import content, existing


def item(name: str, *, uid: str = "", version: int = 1) -> ResourceSlice:
    made = existing(0, content("gpu-a"), name=name)
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, uid=uid or name, resource_version=str(version))
    )


A, B = item("a"), item("b")
CASES: dict[str, tuple[list[ResourceSlice], list[ResourceSlice], list[tuple[ChangeKind, ResourceSlice]]]] = {
    "the first list": ([], [A, B], [(ChangeKind.ADDED, A), (ChangeKind.ADDED, B)]),
    "nothing happened": ([A, B], [A, B], []),
    "a change": ([A], [item("a", version=2)], [(ChangeKind.MODIFIED, item("a", version=2))]),
    "a deletion carries what was known": ([A, B], [B], [(ChangeKind.DELETED, A)]),
    "deleted and made again is both, in this order": (
        [A],
        [item("a", uid="new")],
        [(ChangeKind.DELETED, A), (ChangeKind.ADDED, item("a", uid="new"))],
    ),
    "everything is gone": ([A, B], [], [(ChangeKind.DELETED, A), (ChangeKind.DELETED, B)]),
}


@pytest.mark.parametrize(("known", "listed", "expected"), CASES.values(), ids=CASES.keys())
def test_relist(
    known: list[ResourceSlice], listed: list[ResourceSlice], expected: list[tuple[ChangeKind, ResourceSlice]]
) -> None:
    changes = plan_relist({each.metadata.uid: each for each in known}, tuple(listed))
    assert changes == tuple(Change(kind=kind, item=each) for kind, each in expected)
