"""Functions on lists, and on lists as sets."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from driver.cel.equality import LISTS, compare, is_equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, MutableList, Optional, Timestamp, Uint

MOST_ELEMENTS = 1_000_000
"""Beyond this a list is not built: the cost of going through it would be beyond the limit too."""

_COMPARABLE = (bool, int, Uint, float, str, bytes, Duration, Timestamp)


def check_length(length: int) -> None:
    """Stop before a list is built that no budget allows."""
    if length > MOST_ELEMENTS:
        raise EvaluationAborted("the list is too long")


def concatenate(one: list[Any], other: list[Any]) -> list[Any]:
    """Both lists, one after the other. A macro's own list grows in place."""
    check_length(len(one) + len(other))
    if type(one) is MutableList:
        one.extend(other)
        return one
    return [*one, *other]


def contains(items: list[Any], wanted: Any) -> bool:
    """Whether an element is equal to a value."""
    return any(is_equal(wanted, item) for item in items)


def index_of(items: list[Any], wanted: Any) -> int:
    """The first place of a value, or -1."""
    return next((index for index, item in enumerate(items) if is_equal(item, wanted)), -1)


def last_index_of(items: list[Any], wanted: Any) -> int:
    """The last place of a value, or -1."""
    return next((index for index in reversed(range(len(items))) if is_equal(items[index], wanted)), -1)


def includes(target: Any, wanted: Any) -> bool:
    """Whether a list has an element, or a single value is the one."""
    if type(target) in LISTS:
        return any(is_equal(item, wanted) for item in target)
    return is_equal(target, wanted)


def is_sorted(items: list[Any]) -> bool:
    """Whether no element comes before the one before it."""
    _check_comparable(items)
    for before, after in pairwise(items):
        try:
            if compare(before, after) > 0:
                return False
        except EvaluationError:
            # Two elements that cannot be compared do not stand in the wrong order.
            continue
    return True


def _check_comparable(items: list[Any]) -> None:
    if any(type(item) not in _COMPARABLE for item in items):
        raise EvaluationError("no such overload: the elements have no order")


def extreme(items: list[Any], sign: int) -> Any:
    """The largest element (sign 1) or the smallest (-1)."""
    _check_comparable(items)
    if not items:
        raise EvaluationError("an empty list has no smallest and no largest element")
    best = items[0]
    for item in items[1:]:
        try:
            if compare(item, best) == sign:
                best = item
        except EvaluationError:
            continue
    return best


def add_up(items: list[Any], zero: Any) -> Any:
    """The sum; of an empty list it is the zero of its type."""
    total = zero.ns if type(zero) is Duration else zero
    for item in items:
        if type(item) is not type(zero):
            raise EvaluationError("no such overload: the elements are not all of one type that can be added")
        total = total + (item.ns if type(item) is Duration else item)
        if type(zero) is float:
            continue
        if not (0 if type(zero) is Uint else INT_MIN) <= total <= (UINT_MAX if type(zero) is Uint else INT_MAX):
            raise EvaluationError("integer overflow")
    return Duration(total) if type(zero) is Duration else type(zero)(total)


def sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """The list in the order of its keys."""
    if len(items) != len(keys):
        raise EvaluationError("a list is sorted by as many keys as it has elements")
    if not items:
        return items
    if type(keys[0]) not in _COMPARABLE:
        raise EvaluationError("these keys have no order")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("all keys must be of one type")
    pairs = sorted(zip(keys, items, strict=True), key=cmp_to_key(_compare_keys))
    return [item for _, item in pairs]


def _compare_keys(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    try:
        return compare(one[0], other[0])
    except EvaluationError:
        return 0


def distinct(items: list[Any]) -> list[Any]:
    """Without repetitions."""
    found: list[Any] = []
    for item in items:
        if not any(is_equal(item, other) for other in found):
            found.append(item)
    return found


def flatten(items: list[Any], depth: int = 1) -> list[Any]:
    """Lists in the list become their elements, so many levels deep."""
    if depth < 0:
        raise EvaluationError("the depth of flatten() cannot be negative")
    flat: list[Any] = []
    _flatten_into(flat, items, depth)
    return flat


def _flatten_into(flat: list[Any], items: list[Any], depth: int) -> None:
    for item in items:
        if depth and type(item) in LISTS:
            _flatten_into(flat, item, depth - 1)
        else:
            flat.append(item)
            check_length(len(flat))


def slice_of(items: list[Any], start: int, end: int) -> list[Any]:
    """The elements from a place to another."""
    if not 0 <= start <= end <= len(items):
        raise EvaluationError(f"a list of {len(items)} has no slice from {start} to {end}")
    return items[start:end]


def range_to(count: int) -> list[Any]:
    """0, 1, 2 and so on."""
    if count < 0:
        raise EvaluationError("lists.range() takes no negative number")
    if count > 10 * MOST_ELEMENTS:
        raise EvaluationError("lists.range() makes no list of more than ten million")
    check_length(count)
    return list(range(count))


def unwrap(items: list[Any]) -> list[Any]:
    """The values of those optionals that have one."""
    if any(type(item) is not Optional for item in items):
        raise EvaluationError("only a list of optionals can be unwrapped")
    return [item.value for item in items if item.has_value]


def has_all(items: list[Any], wanted: list[Any]) -> bool:
    """Whether every wanted element is in the list."""
    return all(contains(items, item) for item in wanted)


def has_any(items: list[Any], wanted: list[Any]) -> bool:
    """Whether the lists have an element in common."""
    return any(contains(wanted, item) for item in items)
