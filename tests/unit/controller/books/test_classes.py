"""DeviceClasses as the controller keeps them."""

from __future__ import annotations

from typing import Any

from driver.controller.books.classes import ClassBook
from driver.controller.objects.model import DeviceClass
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.world import GPU, decode


def change(kind: ChangeKind, name: str = "gpu", *, uid: str = "u1", **spec: Any) -> Change[DeviceClass]:
    return Change(kind=kind, item=decode(DeviceClass, {"metadata": {"name": name, "uid": uid}, "spec": spec}))


def test_a_class_is_decoded_once_and_goes_with_its_object() -> None:
    book = ClassBook()
    book.note(change(ChangeKind.ADDED, selectors=[{"cel": {"expression": GPU}}], extendedResourceName="nvidia.com/gpu"))
    assert [each.cel.expression for each in book.specs["gpu"].selectors] == [GPU]
    assert book.extended_resources == {"nvidia.com/gpu"}
    book.note(change(ChangeKind.DELETED))
    assert (dict(book.specs), dict(book.faults), book.extended_resources) == ({}, {}, frozenset())


def test_a_class_with_an_unknown_field_is_kept_as_the_reason_why_it_cannot_be_used() -> None:
    """Half a class would make allocations illegal (R14)."""
    book = ClassBook()
    book.note(change(ChangeKind.ADDED, fromTheFuture=1))
    assert list(book.specs) == []
    assert "fromTheFuture" in book.faults["gpu"]
    book.note(change(ChangeKind.MODIFIED))
    assert (list(book.specs), dict(book.faults)) == (["gpu"], {})


def test_only_what_a_class_says_makes_another_version() -> None:
    book = ClassBook()
    book.note(change(ChangeKind.ADDED))
    version = book.version
    book.note(change(ChangeKind.MODIFIED))
    assert book.version == version
    book.note(change(ChangeKind.MODIFIED, selectors=[{"cel": {"expression": "true"}}]))
    assert book.version > version


def test_the_end_of_an_object_that_was_replaced_takes_nothing_away() -> None:
    book = ClassBook()
    book.note(change(ChangeKind.ADDED, uid="new"))
    book.note(change(ChangeKind.DELETED, uid="old"))
    book.note(change(ChangeKind.DELETED, "unknown"))
    assert list(book.specs) == ["gpu"]
