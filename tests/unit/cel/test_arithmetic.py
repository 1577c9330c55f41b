"""Numbers as Go has them: 64 bits, no silent overflow, integers rounded towards zero; and what else can be added."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import arithmetic
from driver.cel.equality import is_equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.formatting import MOST_CHARACTERS
from driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint

_INTS = st.one_of(st.integers(-20, 20), st.integers(INT_MIN, INT_MIN + 3), st.integers(INT_MAX - 3, INT_MAX))
_UINTS = st.one_of(st.integers(0, 20), st.integers(UINT_MAX - 3, UINT_MAX)).map(Uint)


def _value_or_none(run: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    try:
        return run(one, other)
    except EvaluationError:
        return None


@given(_INTS, _INTS)
@settings(max_examples=150, deadline=None)
def test_an_integer_is_exact_or_an_error(one: int, other: int) -> None:
    quotient = _quotient(one, other) if other else None
    exact: dict[Callable[[Any, Any], Any], int | None] = {
        arithmetic.add: one + other,
        arithmetic.subtract: one - other,
        arithmetic.multiply: one * other,
        arithmetic.divide: quotient,
        arithmetic.modulo: None if quotient is None else one - other * quotient,
    }
    for run, value in exact.items():
        is_beyond = value is None or not INT_MIN <= value <= INT_MAX or (run is arithmetic.modulo and quotient == -INT_MIN)
        assert _value_or_none(run, one, other) == (None if is_beyond else value), run


def _quotient(one: int, other: int) -> int:
    """Rounded towards zero, in integers of any size."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


@given(_UINTS, _UINTS)
@settings(max_examples=100, deadline=None)
def test_an_unsigned_integer_is_exact_or_an_error(one: Uint, other: Uint) -> None:
    a, b = int(one), int(other)
    exact: dict[Callable[[Any, Any], Any], int | None] = {
        arithmetic.add: a + b,
        arithmetic.subtract: a - b,
        arithmetic.multiply: a * b,
        arithmetic.divide: a // b if b else None,
        arithmetic.modulo: a % b if b else None,
    }
    for run, value in exact.items():
        found = _value_or_none(run, one, other)
        assert found == (None if value is None or not 0 <= value <= UINT_MAX else value), run
        assert found is None or type(found) is Uint


@pytest.mark.parametrize(
    ("run", "one", "other", "result"),
    [
        pytest.param(arithmetic.divide, -7, 2, -3, id="a quotient is rounded towards zero"),
        pytest.param(arithmetic.modulo, -7, 2, -1, id="a remainder has the sign of the first"),
        pytest.param(arithmetic.modulo, 7, -2, 1, id="and not of the second"),
        pytest.param(arithmetic.divide, 1.0, 0.0, math.inf, id="doubles are divided by zero"),
        pytest.param(arithmetic.divide, 1.0, -0.0, -math.inf, id="by a negative zero"),
        pytest.param(arithmetic.divide, -1.0, 0.0, -math.inf, id="negative doubles too"),
        pytest.param(arithmetic.multiply, 1e308, 10.0, math.inf, id="doubles do not overflow"),
        pytest.param(arithmetic.add, "a", "b", "ab", id="texts"),
        pytest.param(arithmetic.add, b"a", b"b", b"ab", id="bytes"),
        pytest.param(arithmetic.add, [1], ["a"], [1, "a"], id="lists"),
        pytest.param(arithmetic.add, Duration(1), Duration(2), Duration(3), id="durations"),
        pytest.param(arithmetic.add, Timestamp(1), Duration(2), Timestamp(3), id="a moment and a duration"),
        pytest.param(arithmetic.add, Duration(2), Timestamp(1), Timestamp(3), id="a duration and a moment"),
        pytest.param(arithmetic.subtract, Timestamp(3), Duration(2), Timestamp(1), id="a moment less a duration"),
        pytest.param(arithmetic.subtract, Timestamp(3), Timestamp(1), Duration(2), id="between two moments"),
        pytest.param(arithmetic.subtract, Duration(1), Duration(3), Duration(-2), id="a negative duration"),
    ],
)
def test_what_two_values_make(run: Callable[[Any, Any], Any], one: Any, other: Any, result: Any) -> None:
    found = run(one, other)
    assert is_equal(found, result)
    assert type(found) is type(result)


@pytest.mark.parametrize("one", [0.0, math.nan], ids=["zero", "not a number"])
def test_zero_by_zero_is_not_a_number(one: float) -> None:
    assert math.isnan(arithmetic.divide(one, 0.0))


@pytest.mark.parametrize(
    ("run", "values", "message"),
    [
        pytest.param(arithmetic.add, (INT_MAX, 1), "integer overflow", id="sum"),
        pytest.param(arithmetic.add, (Uint(UINT_MAX), Uint(1)), "unsigned integer overflow", id="unsigned sum"),
        pytest.param(arithmetic.subtract, (Uint(1), Uint(2)), "unsigned integer overflow", id="below zero"),
        pytest.param(arithmetic.divide, (INT_MIN, -1), "integer overflow", id="quotient"),
        pytest.param(arithmetic.modulo, (INT_MIN, -1), "integer overflow", id="remainder"),
        pytest.param(arithmetic.negate, (INT_MIN,), "integer overflow", id="minus"),
        pytest.param(arithmetic.negate, (Duration(INT_MIN),), "integer overflow", id="minus of the shortest duration"),
        pytest.param(
            arithmetic.subtract, (Timestamp(0), Duration(INT_MIN)), "integer overflow", id="less the shortest duration"
        ),
        pytest.param(arithmetic.divide, (1, 0), "division by zero", id="by zero"),
        pytest.param(arithmetic.divide, (Uint(1), Uint(0)), "division by zero", id="unsigned by zero"),
        pytest.param(arithmetic.modulo, (1, 0), "modulus by zero", id="remainder by zero"),
        pytest.param(arithmetic.add, (1, 1.0), "no such overload: _+_(int, double)", id="sum of types"),
        pytest.param(arithmetic.add, (True, True), "no such overload: _+_(bool, bool)", id="sum of bools"),
        pytest.param(arithmetic.subtract, ("a", "a"), "no such overload: _-_(string, string)", id="difference of texts"),
        pytest.param(arithmetic.multiply, (2, Uint(2)), "no such overload: _*_(int, uint)", id="product of types"),
        pytest.param(arithmetic.divide, ("a", "a"), "no such overload: _/_(string, string)", id="quotient of texts"),
        pytest.param(arithmetic.modulo, (1.0, 1.0), "no such overload: _%_(double, double)", id="remainder of doubles"),
        pytest.param(arithmetic.negate, (Uint(1),), "no such overload: -_(uint)", id="minus of an unsigned integer"),
        pytest.param(arithmetic.invert, (1,), "no such overload: !_(int)", id="not of a number"),
        pytest.param(arithmetic.size, (1,), "no such overload: size(int)", id="size of a number"),
        pytest.param(arithmetic.is_in, (1, "1"), "no such overload: @in(int, string)", id="in a text"),
    ],
)
def test_what_has_no_result_says_why(run: Callable[..., Any], values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        run(*values)
    assert str(caught.value) == message


def test_no_text_beyond_every_budget_is_built() -> None:
    half = "a" * (MOST_CHARACTERS // 2 + 1)
    with pytest.raises(EvaluationAborted, match="the text is too long"):
        arithmetic.add(half, half)
