"""Metadata is changed on the wire, and nothing else: compared with what protobuf's own library makes of the same message."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kube.protobuf import MAGIC, build_field, edit_metadata, read_fields, read_resource_version

_STRING, _INT64, _MESSAGE = 9, 3, 11
_ONCE, _MANY = 1, 3


def _build_classes() -> dict[str, type[Message]]:
    """``runtime.Unknown`` and a ResourceClaim, as far as it matters, with a map and fields of other kinds around."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto2")
    fields: dict[str, list[tuple[str, int, int, int, str]]] = {
        "Unknown": [("raw", 2, 12, _ONCE, ""), ("type", 4, _STRING, _ONCE, "")],
        "Entry": [("key", 1, _STRING, _ONCE, ""), ("value", 2, _STRING, _ONCE, "")],
        "Meta": [
            ("name", 1, _STRING, _ONCE, ""),
            ("version", 6, _STRING, _ONCE, ""),
            ("generation", 7, _INT64, _ONCE, ""),
            ("labels", 11, _MESSAGE, _MANY, ".t.Entry"),
            ("annotations", 12, _MESSAGE, _MANY, ".t.Entry"),
            ("finalizers", 14, _STRING, _MANY, ""),
        ],
        "Claim": [("meta", 1, _MESSAGE, _ONCE, ".t.Meta"), ("spec", 2, 12, _ONCE, ""), ("odd", 3, 6, _ONCE, "")],
    }
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, type_name in rows:
            message.field.add(name=field, number=number, type=kind, label=label, type_name=type_name or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in fields}


CLASSES = _build_classes()


def build_body(claim: Message) -> bytes:
    envelope = CLASSES["Unknown"](raw=claim.SerializeToString(), type="x")
    return MAGIC + envelope.SerializeToString()


def read_body(body: bytes) -> Message:
    envelope = CLASSES["Unknown"].FromString(body.removeprefix(MAGIC))
    return CLASSES["Claim"].FromString(envelope.raw)  # type: ignore[attr-defined]


def build_claim(annotations: dict[str, str], finalizers: list[str]) -> Message:
    entries = [CLASSES["Entry"](key=key, value=value) for key, value in annotations.items()]
    meta = CLASSES["Meta"](
        name="claim", version="77", generation=300, labels=entries[:1], annotations=entries, finalizers=finalizers
    )
    return CLASSES["Claim"](meta=meta, spec=b'{ "kept": [1,  2] }', odd=7)


def test_an_annotation_and_finalizers_are_set_and_all_else_is_kept() -> None:
    body = edit_metadata(build_body(build_claim({"a": "1"}, ["x"])), annotations={"b": "2"}, finalizers=["x", "y"])
    want = build_claim({"a": "1", "b": "2"}, ["x", "y"])
    assert read_body(body) == want


def test_an_annotation_is_replaced_and_another_taken_out() -> None:
    body = build_body(build_claim({"a": "1", "b": "2", "c": "3"}, []))
    edited = read_body(edit_metadata(body, annotations={"a": None, "b": "new"}, finalizers=[]))
    entries = [(each.key, each.value) for each in edited.meta.annotations]  # type: ignore[attr-defined]
    assert entries == [("c", "3"), ("b", "new")]


def test_the_resource_version_is_read() -> None:
    assert read_resource_version(build_body(build_claim({}, []))) == "77"


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.text(max_size=200), st.text(max_size=300), max_size=4),
    st.lists(st.text(max_size=40), max_size=3),
    st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=20), max_size=4),
    st.lists(st.text(max_size=40), max_size=3),
)
def test_any_edit_of_any_claim_is_what_the_library_reads(
    before: dict[str, str], finalizers: list[str], change: dict[str, str | None], after: list[str]
) -> None:
    claim = build_claim(before, finalizers)
    edited = read_body(edit_metadata(build_body(claim), annotations=change, finalizers=after))
    merged = before | change
    want = {key: value for key, value in merged.items() if value is not None}
    assert {each.key: each.value for each in edited.meta.annotations} == want  # type: ignore[attr-defined]
    assert list(edited.meta.finalizers) == after  # type: ignore[attr-defined]
    assert (edited.spec, edited.odd) == (b'{ "kept": [1,  2] }', 7)  # type: ignore[attr-defined]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_bytes_that_are_no_object_are_refused_and_never_anything_else(data: bytes, has_magic: bool) -> None:
    body = MAGIC + data if has_magic else data
    try:
        edited = edit_metadata(body, annotations={"a": "1"}, finalizers=[])
    except ValueError:
        return
    assert edited.startswith(MAGIC)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05ab", id="shorter than it says"),
        pytest.param(b"\x08" + b"\xff" * 11, id="a number without an end"),
        pytest.param(b"\x0b", id="a group"),
        pytest.param(b"\x09\x01", id="half a fixed number"),
    ],
)
def test_broken_fields_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="protobuf"):
        list(read_fields(data))


def test_long_fields_have_long_lengths() -> None:
    assert build_field(2, b"x" * 300) == b"\x12\xac\x02" + b"x" * 300
