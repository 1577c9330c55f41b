"""Opaque parameters are bounded, and every fault has its path."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api import opaque
from driver.api.resource_v1 import OPAQUE_PARAMETERS_MAX_BYTES


def test_an_object_is_read_as_it_is() -> None:
    assert opaque.parse_object(b'{"a": {"b": [1, 2.5, null, true]}}') == {"a": {"b": [1, 2.5, None, True]}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b"\xff\xfe{}", "not JSON", id="not UTF-8"),
        pytest.param(b'{"a": NaN}', "NaN is no JSON number", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "-Infinity is no JSON number", id="infinity"),
        pytest.param(b"{} {}", "not JSON", id="two objects"),
        pytest.param(b"[]", "must be an object, not a list", id="list"),
        pytest.param(b"null", "must be an object, not null", id="null"),
        pytest.param(b'"x"', 'must be an object, not "x"', id="text"),
        pytest.param(b"[" * 17 + b"]" * 17, "nested deeper than 16", id="deep list"),
        pytest.param(b'{"a":' * 17 + b"1" + b"}" * 17, "nested deeper than 16", id="deep object"),
        pytest.param(b"[" * 5000, "nested deeper than 16", id="five thousand brackets"),
        pytest.param(b'{"a":"' + b"x" * OPAQUE_PARAMETERS_MAX_BYTES + b'"}', "at most 10240", id="too long"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", "not JSON", id="a number of 5000 digits"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(text: bytes, says: str) -> None:
    with pytest.raises(opaque.OpaqueFault, match=says):
        opaque.parse_object(text)


def test_exactly_the_allowed_size_and_depth_are_read() -> None:
    padding = OPAQUE_PARAMETERS_MAX_BYTES - len(b'{"a":""}')
    assert len(opaque.parse_object(b'{"a":"' + b"x" * padding + b'"}')["a"]) == padding
    assert opaque.parse_object(b'{"a":' * 16 + b"1" + b"}" * 16)


def test_brackets_inside_of_text_do_not_nest() -> None:
    assert opaque.parse_object(json.dumps({"a": '[[[[[[[[[[[[[[[[[[[[[ \\" {{{{'}).encode())["a"].startswith("[[[")


def test_keys_that_stand_twice_are_found_at_any_depth() -> None:
    value = opaque.parse_object(b'{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}')
    assert opaque.find_duplicates(value) == ["a: stands there twice", "b[0].c: stands there twice"]


def test_an_unknown_key_is_told_with_what_was_probably_meant() -> None:
    assert opaque.validate_keys({"Sharing": 1, "kind": 1, "zzz": 1}, ("kind", "sharing"), "spec") == [
        "spec.Sharing: unknown field, allowed are kind, sharing; did you mean 'sharing'?",
        "spec.zzz: unknown field, allowed are kind, sharing",
    ]


def test_a_key_that_is_no_name_is_quoted_and_cut() -> None:
    (fault,) = opaque.validate_keys({"a\nb" * 100: 1}, ("kind",))
    assert fault.startswith("'a\\nba\\nb")
    assert len(fault) < 160


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_end_in_an_object_or_a_clear_error(data: bytes) -> None:
    with contextlib.suppress(opaque.OpaqueFault):
        assert isinstance(opaque.parse_object(data), dict)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
@settings(max_examples=100, deadline=None)
def test_whatever_json_writes_is_read_back_or_refused(value: object) -> None:
    text = json.dumps(value).encode()
    try:
        assert opaque.parse_object(text) == value
    except opaque.OpaqueFault:
        assert not isinstance(value, dict) or len(text) > 100
