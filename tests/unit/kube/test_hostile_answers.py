"""Whatever a server, a proxy or somebody in between sends: a value or an error of our tree, never another exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.errors import ApiError, Gone
from driver.kube.changes import Change
from driver.kube.resources import RESOURCE_SLICES
from driver.kube.watch import decode_event
from driver.resourceslice.diff import plan_writes
from driver.resourceslice.other_publisher import detect_other_publisher
from driver.resourceslice.pool_state import PoolState
from tests.fakes.slices import IDENTITY, as_json, content, existing

SLICE = as_json(existing(0, content("gpu-a")))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, inner in items for path in paths(inner, (*at, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def decode(line: bytes) -> Change[Any] | str | ApiError:
    try:
        return decode_event(line, RESOURCE_SLICES)
    except ApiError as err:
        return err


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes(line: bytes) -> None:
    found = decode(line)
    assert isinstance(found, ApiError)
    assert len(str(found)) < 1500


@given(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "added", "", "\u0130"]), json_values)
@settings(max_examples=200, deadline=None)
def test_any_object(kind: str, value: Any) -> None:
    decode(json.dumps({"type": kind, "object": value}).encode())


@given(st.sampled_from(paths(SLICE)), json_values)
@settings(max_examples=300, deadline=None)
def test_a_slice_with_anything_in_one_of_its_places(path: tuple[Any, ...], value: Any) -> None:
    found = decode(json.dumps({"type": "ADDED", "object": replaced(SLICE, path, value)}).encode())
    if isinstance(found, Change):  # what can be read can also be planned with
        state = PoolState(IDENTITY.pool)
        state.note_change(found)
        detect_other_publisher(state.slices)
        plan = plan_writes(state.slices, [content("gpu-a")], IDENTITY, generation_floor=state.highest_generation)
        assert 0 <= plan.generation < 2**63


def test_what_is_right_is_read() -> None:
    found = decode(json.dumps({"type": "ADDED", "object": SLICE | {"kind": "ResourceSlice", "more": [1]}}).encode())
    assert isinstance(found, Change)
    assert found.item.spec.devices == content("gpu-a").devices
    assert decode(b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}') == "7"


@pytest.mark.parametrize("depth", [1_000, 1_000_000])
def test_depth_is_bounded(depth: int) -> None:
    assert isinstance(decode(b'{"type":"ADDED","object":' + b"[" * depth), ApiError)
    assert isinstance(decode(b'{"type":"ADDED","object":' + b'{"a":' * depth), ApiError)


def test_410_is_its_own_error() -> None:
    assert isinstance(decode(b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}'), Gone)
