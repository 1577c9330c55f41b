"""Equality and order of values, across number types and inside lists and maps."""

from __future__ import annotations

import math
from typing import Any

from driver.cel.errors import EvaluationError
from driver.cel.messages import MessageValue
from driver.cel.network import Cidr, Ip
from driver.cel.quantity import Quantity
from driver.cel.semver import Semver
from driver.cel.types import Type
from driver.cel.urls import Url
from driver.cel.values import (
    INT_MAX,
    INT_MAX_AS_DOUBLE,
    UINT_MAX_AS_DOUBLE,
    DeviceMap,
    DomainMap,
    Duration,
    Map,
    MutableList,
    MutableMap,
    Optional,
    Timestamp,
    Uint,
)
from driver.cel.well_known_formats import NamedFormat

NUMBERS = (int, Uint, float)
LISTS = (list, MutableList)
MAPS = (Map, MutableMap, DeviceMap, DomainMap)
_KEYED: dict[type, Any] = {
    Duration: lambda value: value.ns,
    Timestamp: lambda value: value.ns,
    Type: lambda value: value.name,
    MessageValue: lambda value: value.identity(),
}
_STRICT: dict[type, Any] = {
    Semver: lambda one, other: one.compare(other) == 0,
    Ip: lambda one, other: one.address == other.address,
    Cidr: lambda one, other: one.interface == other.interface,
    Url: lambda one, other: str(one) == str(other),
    NamedFormat: lambda one, other: one.name == other.name,
}


def _equal_quantities(one: Quantity, other: Quantity) -> bool:
    if other.is_computed:
        # In Kubernetes the result of add() is something that no quantity is equal to; the other way round it works.
        raise EvaluationError("no such overload: a computed quantity can only be the left side of ==")
    return one.compare(other) == 0


_STRICT[Quantity] = _equal_quantities


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, as ``==`` says.

    Raises:
        EvaluationError: Kubernetes' own types (quantities, versions, addresses) can only be compared with their own kind.
    """
    kind = type(one)
    if kind is str or kind is bool or kind is bytes:
        return type(other) is kind and bool(one == other)
    if kind in NUMBERS:
        return type(other) in NUMBERS and equal_numbers(one, other)
    return _equal_others(one, other, {})


def _equal(one: Any, other: Any, seen: dict[tuple[int, int], bool]) -> bool:
    kind = type(one)
    if kind in NUMBERS or kind is str or kind is bool or kind is bytes:
        return equal(one, other)
    return _equal_others(one, other, seen)


def _equal_others(one: Any, other: Any, seen: dict[tuple[int, int], bool]) -> bool:
    if one is None or other is None:
        return one is other
    kind = type(one)
    if kind in _STRICT:
        if type(other) is not kind:
            raise EvaluationError("no such overload: values of these types cannot be compared")
        return bool(_STRICT[kind](one, other))
    if kind in _KEYED:
        return type(other) is kind and bool(_KEYED[kind](one) == _KEYED[kind](other))
    # Lists can hold one list many times over, so that comparing each pair each time might never end.
    pair = (id(one), id(other))
    if pair not in seen:
        seen[pair] = _equal_containers(one, other, seen)
    return seen[pair]


def _equal_containers(  # noqa: PLR0911 - one for each kind
    one: Any, other: Any, seen: dict[tuple[int, int], bool]
) -> bool:
    kind = type(one)
    if kind in LISTS:
        if type(other) not in LISTS or len(one) != len(other):
            return False
        return all(_equal_elements(a, b, seen) for a, b in zip(one, other, strict=True))
    if kind in MAPS:
        if type(other) not in MAPS or len(one) != len(other):
            return False
        for key, value in one.items():
            found = other.find(key)
            if found is None or not _equal_elements(value, found[1], seen):
                return False
        return True
    if type(other) is not Optional or one.has_value != other.has_value:
        return False
    return not one.has_value or _equal(one.value, other.value, seen)


def _equal_elements(one: Any, other: Any, seen: dict[tuple[int, int], bool]) -> bool:
    # Only a plain "different" counts here: an error between two elements leaves the lists equal, as in Kubernetes' evaluator.
    try:
        return _equal(one, other, seen)
    except EvaluationError:
        return True


def is_equal(one: Any, other: Any) -> bool:
    """As ``equal``, where an error counts as different: what ``in``, sets and ``indexOf`` ask."""
    try:
        # Here null is compared by its type's rules: nothing but null is null.
        return equal(one, other)
    except EvaluationError:
        return False


def _is_nan(value: Any) -> bool:
    return type(value) is float and math.isnan(value)


def equal_numbers(one: Any, other: Any) -> bool:
    """Whether two numbers are equal; integers are compared with doubles as doubles."""
    if _is_nan(one) or _is_nan(other):
        return False
    return compare_numbers(one, other) == 0


def compare_numbers(one: Any, other: Any) -> int:
    """-1, 0 or 1.

    Raises:
        EvaluationError: one of them is not a number.
    """
    if type(one) is type(other) is int:
        return (one > other) - (one < other)
    if type(one) is float:
        if _is_nan(one) or _is_nan(other):
            raise EvaluationError("NaN cannot be ordered")
        return _compare_double(one, other)
    if type(other) is float:
        if _is_nan(other):
            raise EvaluationError("NaN cannot be ordered")
        return -_compare_double(other, one)
    if type(one) is not type(other) and (int(one if type(one) is Uint else other) > INT_MAX):
        return 1 if type(one) is Uint else -1
    return (int(one) > int(other)) - (int(one) < int(other))


def _compare_double(one: float, other: Any) -> int:
    if type(other) is float:
        return (one > other) - (one < other)
    low, high = (-INT_MAX_AS_DOUBLE, INT_MAX_AS_DOUBLE) if type(other) is int else (0.0, UINT_MAX_AS_DOUBLE)
    if one < low:
        return -1
    if one > high:
        return 1
    near = float(int(other))
    return (one > near) - (one < near)


def compare(one: Any, other: Any) -> int:
    """The order of two values: -1, 0 or 1.

    Raises:
        EvaluationError: values of these types have no order.
    """
    kind, other_kind = type(one), type(other)
    if kind in NUMBERS and other_kind in NUMBERS:
        return compare_numbers(one, other)
    if kind is other_kind:
        if kind is str or kind is bytes or kind is bool:
            return int(one > other) - int(one < other)
        if kind is Duration or kind is Timestamp:
            return int(one.ns > other.ns) - int(one.ns < other.ns)
    raise EvaluationError("no such overload: values of these types have no order")
