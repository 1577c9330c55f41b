"""Quantities, as apimachinery reads and compares them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cel.errors import EvaluationError
from driver.cel.quantity import parse_quantity

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(_UNITS)))
def test_a_whole_number_with_a_unit(number: int, unit: str) -> None:
    assert parse_quantity(f"{number}{unit}").compare(parse_quantity(str(number * _UNITS[unit]))) == 0


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_sums_and_differences(one: int, other: int) -> None:
    left, right = parse_quantity(str(one)), parse_quantity(str(other))
    assert left.compare(right) == (one > other) - (one < other)
    assert left.copy().add(right).as_integer() == one + other
    assert left.copy().sub(right).as_integer() == one - other


@given(st.integers(-(10**12), 10**12))
def test_the_sign(number: int) -> None:
    assert parse_quantity(f"{number}Ki").sign() == (number > 0) - (number < 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5Gi", 1.5 * 2**30),
        ("100m", 0.1),
        ("1e3", 1000.0),
        ("-0.5", -0.5),
        ("+2", 2.0),
        ("1E", 1e18),
        ("1E2", 100.0),
        (".5", 0.5),
    ],
)
def test_as_a_float(text: str, value: float) -> None:
    assert parse_quantity(text).as_float() == pytest.approx(value)


@pytest.mark.parametrize("text", ["100m", "1.5", "1n", "0.1Ki"])
def test_a_fraction_is_no_integer(text: str) -> None:
    assert parse_quantity(text).as_integer() is None


@pytest.mark.parametrize("text", ["", " ", "1 Gi", "1GI", "1gi", "1KiB", "--1", "1e", "1e1.5", "0x1", "1_000", "\u0661", "1\n"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("small", "large"), [("1G", "1Gi"), ("999m", "1"), ("-1", "1n"), ("9223372036854775807", "1e19"), ("1Ti", "1.2T")]
)
def test_the_order_across_units(small: str, large: str) -> None:
    assert parse_quantity(small).compare(parse_quantity(large)) == -1
    assert parse_quantity(large).compare(parse_quantity(small)) == 1


def test_a_binary_unit_stops_at_64_bits() -> None:
    """As apimachinery has it: only a decimal one goes beyond."""
    assert parse_quantity("8388608Ti").compare(parse_quantity("9223372036854775807")) == 0
    assert parse_quantity("100E").compare(parse_quantity("9223372036854775807")) == 1


def test_a_unit_alone_is_zero() -> None:
    assert parse_quantity("Gi").sign() == 0
