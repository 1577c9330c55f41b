"""What is nested too deeply is cut, and the rest stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.nesting import CUT, MOST_LEVELS, cut_nesting

CUT_VALUE = json.loads(CUT)
JSON = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\ü', max_size=5) | st.integers(),
    lambda deep: st.lists(deep) | st.dictionaries(st.text(), deep),
)


def nested(levels: int, inner: str = "") -> str:
    return "[" * levels + inner + "]" * levels


def cut(value: Any, level: int = 1) -> Any:
    """The same on values, by recursion."""
    if isinstance(value, dict | list) and level > MOST_LEVELS:
        return CUT_VALUE
    if isinstance(value, dict):
        return {key: cut(each, level + 1) for key, each in value.items()}
    return [cut(each, level + 1) for each in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(value=JSON, around=st.integers(MOST_LEVELS - 4, MOST_LEVELS + 2), other=JSON)
def test_only_values_below_the_last_level_are_cut(value: Any, around: int, other: Any) -> None:
    whole: Any = value
    for _ in range(around):
        whole = [whole, other]
    assert json.loads(cut_nesting(json.dumps(whole).encode())) == cut(whole)


@pytest.mark.parametrize("text", ["", "{}", '"[[["', nested(MOST_LEVELS), '{"a": "\\"]}"}'], ids=repr)
def test_what_is_not_deep_stays_as_it_is(text: str) -> None:
    assert cut_nesting(text.encode()) == text.encode()


def test_what_follows_is_kept() -> None:
    text = f'{{"a": {nested(5000, "{}")}, "b": 1}}'
    assert json.loads(cut_nesting(text.encode()))["b"] == 1
