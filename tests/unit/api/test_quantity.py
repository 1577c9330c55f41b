"""Quantities are written in the API server's canonical form and read as numbers."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.quantity import format_bytes, parse_quantity

WRITTEN = {
    "nothing": (0, "0"),
    "below a unit": (512, "512"),
    "a thousand is a decimal unit": (1000, "1k"),
    "not whole in any unit": (1500, "1500"),
    "one unit": (1024, "1Ki"),
    "A100 of NVIDIA's own page": (85899345920, "80Gi"),
    "H100 as NVML totals it": (81559 * 1024**2, "81559Mi"),
    "a byte more": (81559 * 1024**2 + 1, str(81559 * 1024**2 + 1)),
    "more than 1024 of a unit that does not divide": (1025 * 1024**2, "1025Mi"),
    "the largest": (2**63 - 1, str(2**63 - 1)),
    "the largest unit": (4 * 1024**6, "4Ei"),
}


@pytest.mark.parametrize(("amount", "text"), WRITTEN.values(), ids=WRITTEN.keys())
def test_bytes_are_written_as_the_api_server_gives_them_back(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize("amount", [-1, 2**63])
def test_what_does_not_fit_is_refused(amount: int) -> None:
    with pytest.raises(ValueError, match="no amount of bytes"):
        format_bytes(amount)


READ = {
    "plain": ("85899345920", Fraction(85899345920)),
    "binary unit": ("80Gi", Fraction(80 * 1024**3)),
    "decimal unit": ("80G", Fraction(80 * 10**9)),
    "thousandths": ("500m", Fraction(1, 2)),
    "exponent": ("12e6", Fraction(12_000_000)),
    "capital exponent": ("12E6", Fraction(12_000_000)),
    "exa is no exponent": ("12E", Fraction(12 * 10**18)),
    "fraction": ("1.5Gi", Fraction(3 * 1024**3, 2)),
    "fraction without a head": (".5", Fraction(1, 2)),
    "fraction without a tail": ("5.", Fraction(5)),
    "sign": ("-1k", Fraction(-1000)),
    "negative exponent": ("1e-3", Fraction(1, 1000)),
}


@pytest.mark.parametrize(("text", "number"), READ.values(), ids=READ.keys())
def test_a_quantity_is_read_as_its_number(text: str, number: Fraction) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "0x10", "1e", "--1", "1e999", "9" * 41, "1Gi\n", "\u0663"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


@given(st.integers(0, 2**63 - 1))
@settings(max_examples=100, deadline=None)
def test_what_is_written_reads_back(amount: int) -> None:
    assert parse_quantity(format_bytes(amount)) == amount


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_hostile_text_is_a_number_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_quantity(text)
