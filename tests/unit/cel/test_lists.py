"""Functions on lists, called as the planner calls them, and what each of them refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import lists
from driver.cel.equality import is_equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, MutableList, Optional, Timestamp, Uint
from tests.unit.cel.engine import answer

_NAN = float("nan")
_INTS = st.lists(st.integers(-20, 20), max_size=20)


def _refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(EvaluationError) as caught:
        call()
    return str(caught.value)


# sums


@pytest.mark.parametrize(
    ("items", "zero", "total"),
    [
        pytest.param([], 0, 0, id="no integers"),
        pytest.param([], Duration(0), Duration(0), id="no durations"),
        pytest.param([1, -2], 0, -1, id="integers"),
        pytest.param([INT_MAX, -1, 1], 0, INT_MAX, id="up to the largest integer"),
        pytest.param([Uint(1), Uint(2)], Uint(0), Uint(3), id="unsigned integers"),
        pytest.param([0.5, 0.25], 0.0, 0.75, id="doubles"),
        pytest.param([1e308, 1e308], 0.0, float("inf"), id="doubles do not overflow"),
        pytest.param([Duration(5), Duration(-7)], Duration(0), Duration(-2), id="durations"),
    ],
)
def test_a_sum_is_of_the_type_of_its_elements(items: list[Any], zero: Any, total: Any) -> None:
    found = lists.add_up(items, zero)
    assert is_equal(found, total)
    assert type(found) is type(total)


@pytest.mark.parametrize(
    ("items", "zero", "message"),
    [
        pytest.param([INT_MAX, 1], 0, "integer overflow", id="above the largest integer"),
        pytest.param([INT_MIN, -1], 0, "integer overflow", id="below the smallest integer"),
        pytest.param([INT_MAX, 1, -1], 0, "integer overflow", id="on the way"),
        pytest.param([Uint(UINT_MAX), Uint(1)], Uint(0), "integer overflow", id="above the largest unsigned integer"),
        pytest.param([Duration(INT_MAX), Duration(1)], Duration(0), "integer overflow", id="above the longest duration"),
        pytest.param(
            [1, 1.5], 0, "no such overload: the elements are not all of one type that can be added", id="integer and double"
        ),
        pytest.param(
            [1, Uint(1)],
            0,
            "no such overload: the elements are not all of one type that can be added",
            id="signed and unsigned",
        ),
        pytest.param([True], 0, "no such overload: the elements are not all of one type that can be added", id="bool"),
    ],
)
def test_a_sum_that_has_no_value_fails(items: list[Any], zero: Any, message: str) -> None:
    assert _refusal(lambda: lists.add_up(items, zero)) == message


# order


@pytest.mark.parametrize(
    ("items", "smallest", "largest"),
    [
        pytest.param([2], 2, 2, id="one element"),
        pytest.param([2, 3, 1], 1, 3, id="integers"),
        pytest.param(["b", "a", "ab"], "a", "b", id="texts"),
        pytest.param([b"b", b"a"], b"a", b"b", id="bytes"),
        pytest.param([True, False], False, True, id="bools"),
        pytest.param([Duration(2), Duration(1)], Duration(1), Duration(2), id="durations"),
        pytest.param([Timestamp(2), Timestamp(1)], Timestamp(1), Timestamp(2), id="timestamps"),
        pytest.param([1, 1.5, Uint(2)], 1, Uint(2), id="numbers of all types"),
        pytest.param([1, "a", 2], 1, 2, id="what cannot be compared is passed over"),
    ],
)
def test_the_smallest_and_the_largest(items: list[Any], smallest: Any, largest: Any) -> None:
    assert is_equal(lists.extreme(items, -1), smallest)
    assert is_equal(lists.extreme(items, 1), largest)


def test_of_equal_elements_the_first_is_the_largest_and_the_smallest() -> None:
    assert [type(lists.extreme([1.0, 1, Uint(1)], sign)) for sign in (1, -1)] == [float, float]


def test_an_empty_list_has_no_extreme() -> None:
    assert _refusal(lambda: lists.extreme([], 1)) == "an empty list has no smallest and no largest element"


@pytest.mark.parametrize("items", [[[1]], [1, None], [Optional(1)]], ids=["a list", "null", "an optional"])
def test_elements_without_an_order_are_refused(items: list[Any]) -> None:
    message = "no such overload: the elements have no order"
    assert _refusal(lambda: lists.extreme(items, 1)) == message
    assert _refusal(lambda: lists.is_sorted(items)) == message


@pytest.mark.parametrize(
    ("items", "is_sorted"),
    [
        pytest.param([], True, id="empty"),
        pytest.param([1], True, id="one element"),
        pytest.param([1, 1, 2], True, id="with equal elements"),
        pytest.param([2, 1], False, id="the wrong way round"),
        pytest.param([1, 1.5, Uint(2)], True, id="numbers of all types"),
        pytest.param([2, "a", 1], True, id="what cannot be compared is in no wrong order"),
        pytest.param([2.0, _NAN, 1.0], True, id="not a number is in no wrong order"),
    ],
)
def test_whether_a_list_is_sorted(items: list[Any], is_sorted: bool) -> None:
    assert lists.is_sorted(items) is is_sorted


def test_a_list_is_sorted_by_its_keys_and_equal_keys_keep_their_order() -> None:
    assert lists.sort_by(["a", "b", "c", "d"], [2, 1, 2, 0]) == ["d", "b", "a", "c"]
    assert lists.sort_by([], []) == []


@pytest.mark.parametrize(
    ("items", "keys", "message"),
    [
        pytest.param([1], [], "a list is sorted by as many keys as it has elements", id="too few keys"),
        pytest.param([1], [[1]], "these keys have no order", id="lists as keys"),
        pytest.param([1, 2], [1, "a"], "all keys must be of one type", id="keys of two types"),
        pytest.param([1, 2], [1, 1.0], "all keys must be of one type", id="integers and doubles as keys"),
    ],
)
def test_keys_that_give_no_order_are_refused(items: list[Any], keys: list[Any], message: str) -> None:
    assert _refusal(lambda: lists.sort_by(items, keys)) == message


@given(_INTS)
@settings(max_examples=60, deadline=None)
def test_what_was_sorted_is_sorted_and_its_ends_are_the_extremes(items: list[int]) -> None:
    ordered = lists.sort_by(items, items)
    assert ordered == sorted(items)
    assert lists.is_sorted(ordered)
    if items:
        assert (ordered[0], ordered[-1]) == (lists.extreme(items, -1), lists.extreme(items, 1))


# places and parts


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [
        pytest.param(1, 0, 3, id="an integer is equal to a double"),
        pytest.param("a", 1, 1, id="a text"),
        pytest.param([2], 2, 2, id="a list"),
        pytest.param(9, -1, -1, id="what is not there"),
        pytest.param(_NAN, -1, -1, id="not a number is not equal to itself"),
    ],
)
def test_the_first_and_the_last_place(wanted: Any, first: int, last: int) -> None:
    items = [1, "a", [2], 1.0, _NAN]
    assert (lists.index_of(items, wanted), lists.last_index_of(items, wanted)) == (first, last)
    assert lists.contains(items, wanted) == (first >= 0)


def test_includes_takes_a_list_or_a_single_value() -> None:
    assert lists.includes([1, 2], 2)
    assert not lists.includes([1, 2], 3)
    assert lists.includes("a", "a")
    assert not lists.includes("ab", "a")


@pytest.mark.parametrize(("start", "end", "part"), [(0, 0, []), (0, 3, [1, 2, 3]), (1, 2, [2]), (3, 3, [])])
def test_a_slice(start: int, end: int, part: list[int]) -> None:
    assert lists.slice_of([1, 2, 3], start, end) == part


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 1), (0, 4), (4, 4)])
def test_a_slice_that_is_not_there_fails(start: int, end: int) -> None:
    assert _refusal(lambda: lists.slice_of([1, 2, 3], start, end)) == f"a list of 3 has no slice from {start} to {end}"


@pytest.mark.parametrize(
    ("depth", "flat"),
    [
        pytest.param(0, [1, [2, [3, [4]]]], id="no level"),
        pytest.param(1, [1, 2, [3, [4]]], id="one level"),
        pytest.param(2, [1, 2, 3, [4]], id="two levels"),
        pytest.param(9, [1, 2, 3, 4], id="more levels than there are"),
    ],
)
def test_flatten(depth: int, flat: list[Any]) -> None:
    assert lists.flatten([1, [2, [3, [4]]]], depth) == flat


def test_flatten_takes_no_negative_depth() -> None:
    assert _refusal(lambda: lists.flatten([1], -1)) == "the depth of flatten() cannot be negative"


@given(_INTS)
@settings(max_examples=60, deadline=None)
def test_distinct_elements_are_those_of_the_list_in_their_order(items: list[int]) -> None:
    assert lists.distinct(items) == list(dict.fromkeys(items))


def test_numbers_of_other_types_are_the_same_element() -> None:
    assert [type(item) for item in lists.distinct([1.0, 1, Uint(1), True])] == [float, bool]


def test_only_the_values_of_optionals_are_unwrapped() -> None:
    assert lists.unwrap([Optional(1), Optional(2)]) == [1, 2]
    assert answer("[optional.of(1), optional.none()].unwrapOpt() == [1]") is True
    assert _refusal(lambda: lists.unwrap([Optional(1), 1])) == "only a list of optionals can be unwrapped"


@given(_INTS, _INTS)
@settings(max_examples=60, deadline=None)
def test_lists_as_sets(one: list[int], other: list[int]) -> None:
    assert lists.has_all(one, other) == (set(one) >= set(other))
    assert lists.has_any(one, other) == bool(set(one) & set(other))


# growth


def test_a_list_of_a_macro_grows_in_place_and_every_other_is_copied() -> None:
    own, other = MutableList([1]), [1]
    assert lists.concatenate(own, [2]) is own
    assert lists.concatenate(other, [2]) == [1, 2]
    assert other == [1]


def test_a_range_begins_at_zero() -> None:
    assert (lists.range_to(0), lists.range_to(3)) == ([], [0, 1, 2])
    assert len(lists.range_to(lists.MOST_ELEMENTS)) == lists.MOST_ELEMENTS


def test_a_range_has_limits() -> None:
    assert _refusal(lambda: lists.range_to(-1)) == "lists.range() takes no negative number"
    assert _refusal(lambda: lists.range_to(10_000_001)) == "lists.range() makes no list of more than ten million"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: lists.range_to(lists.MOST_ELEMENTS + 1), id="range"),
        pytest.param(lambda: lists.concatenate([0] * lists.MOST_ELEMENTS, [1]), id="sum of two lists"),
        pytest.param(lambda: lists.flatten([[0] * 1000] * 1001), id="flatten"),
    ],
)
def test_no_list_beyond_every_budget_is_built(call: Callable[[], Any]) -> None:
    with pytest.raises(EvaluationAborted, match="the list is too long"):
        call()
