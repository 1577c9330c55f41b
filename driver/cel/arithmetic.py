"""Operators on values, chosen by the types that they meet while a selector runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from driver.cel.equality import LISTS, MAPS, compare, is_equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.formatting import MOST_CHARACTERS
from driver.cel.hashing import UNHASHABLE
from driver.cel.kinds import no_overload, type_of_value
from driver.cel.lists import concatenate
from driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Map, Timestamp, Uint


def _int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return value


def _uint(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def add(one: Any, other: Any) -> Any:
    """``+``: numbers of one type, strings, bytes, lists, moments and durations."""
    kind, other_kind = type(one), type(other)
    run = _SUMS.get((kind, other_kind))
    if run is not None:
        return run(one, other)
    if kind in LISTS and other_kind in LISTS:
        return concatenate(one, other)
    raise no_overload("_+_", one, other)


def _add_texts(one: Any, other: Any) -> Any:
    if len(one) + len(other) > MOST_CHARACTERS:
        raise EvaluationAborted("the text is too long")
    return one + other


_SUMS: dict[tuple[type, type], Callable[[Any, Any], Any]] = {
    (int, int): lambda one, other: _int(one + other),
    (Uint, Uint): lambda one, other: _uint(int(one) + int(other)),
    (float, float): lambda one, other: one + other,
    (str, str): _add_texts,
    (bytes, bytes): _add_texts,
    (Duration, Duration): lambda one, other: Duration(one.ns + other.ns),
    (Timestamp, Duration): lambda one, other: Timestamp(one.ns + other.ns, one.offset_s),
    (Duration, Timestamp): lambda one, other: Timestamp(one.ns + other.ns, other.offset_s),
}


def subtract(one: Any, other: Any) -> Any:
    """``-`` between two values."""
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind is int:
            return _int(one - other)
        if kind is Uint:
            return _uint(int(one) - int(other))
        if kind is float:
            return one - other
        if kind is Duration or kind is Timestamp:
            return Duration(one.ns - other.ns)
    if kind is Timestamp and other_kind is Duration:
        if other.ns == INT_MIN:
            raise EvaluationError("integer overflow")
        return Timestamp(one.ns - other.ns, one.offset_s)
    raise no_overload("_-_", one, other)


def multiply(one: Any, other: Any) -> Any:
    """``*``."""
    if type(one) is type(other):
        if type(one) is int:
            return _int(one * other)
        if type(one) is Uint:
            return _uint(int(one) * int(other))
        if type(one) is float:
            return one * other
    raise no_overload("_*_", one, other)


def divide(one: Any, other: Any) -> Any:
    """``/``; integers are rounded towards zero."""
    if type(one) is type(other):
        if type(one) is float:
            return _divide_doubles(one, other)
        if type(one) in (int, Uint):
            if other == 0:
                raise EvaluationError("division by zero")
            quotient = abs(int(one)) // abs(int(other))
            return _int(quotient if (one < 0) == (other < 0) else -quotient) if type(one) is int else Uint(quotient)
    raise no_overload("_/_", one, other)


def _divide_doubles(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one) or math.isnan(other):
        return math.nan
    return math.inf if (math.copysign(1, one) > 0) == (math.copysign(1, other) > 0) else -math.inf


def modulo(one: Any, other: Any) -> Any:
    """``%`` of integers; the sign is that of the first."""
    if type(one) is type(other) and type(one) in (int, Uint):
        if other == 0:
            raise EvaluationError("modulus by zero")
        if type(one) is int:
            if one == INT_MIN and other == -1:
                raise EvaluationError("integer overflow")
            return int(math.copysign(1, one)) * (abs(one) % abs(other)) if one else 0
        return Uint(int(one) % int(other))
    raise no_overload("_%_", one, other)


def negate(value: Any) -> Any:
    """``-`` before a value."""
    if type(value) is int:
        return _int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        if value.ns == INT_MIN:
            raise EvaluationError("integer overflow")
        return Duration(-value.ns)
    raise no_overload("-_", value)


def invert(value: Any) -> bool:
    """``!``."""
    if value is True:
        return False
    if value is False:
        return True
    raise no_overload("!_", value)


def size(value: Any) -> int:
    """``size()`` of what has one."""
    if type(value) in (str, bytes) or type(value) in LISTS or type(value) in MAPS:
        return len(value)
    raise no_overload("size", value)


def type_of(value: Any) -> Any:
    """``type()``."""
    return type_of_value(value)


def is_in(wanted: Any, container: Any) -> bool:
    """``in``: an element of a list, or a key of a map."""
    kind = type(container)
    if kind in LISTS:
        return any(is_equal(wanted, item) for item in container)
    if kind in MAPS:
        if type(wanted) in UNHASHABLE and container and kind is Map:
            raise EvaluationAborted("a value of this type cannot be looked up in a map")
        return Map.find(container, wanted) is not None
    raise no_overload("@in", wanted, container)


def _ordered(test: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    def run(one: Any, other: Any) -> bool:
        if type(one) is type(other) is int:
            return test(one, other)
        return test(compare(one, other), 0)

    return run


less = _ordered(operator.lt)
less_equals = _ordered(operator.le)
greater = _ordered(operator.gt)
greater_equals = _ordered(operator.ge)
