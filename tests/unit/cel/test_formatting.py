"""``format()``: clauses, what each makes of its argument, and how values are written inside of lists and maps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.formatting import Clause, format_text, parse_format, quote_cel, quote_go
from driver.cel.times import parse_duration, parse_timestamp
from driver.cel.values import INT_MIN, UINT_MAX, Map, Optional, Uint

_DEEP: Any = "a" * 500_000
for _ in range(25):
    _DEEP = [_DEEP]
_NO_CLAUSE = "is no clause of a format; there are %s %d %f %e %b %x %X %o"


def test_a_format_is_texts_and_clauses() -> None:
    assert list(parse_format("a%s%%b%.2f")) == [
        Clause("a"),
        Clause("", "s"),
        Clause("%"),
        Clause("b"),
        Clause("", "f", 2),
    ]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("a%", "%", id="a percent sign at the end"),
        pytest.param("%q", "%q", id="another verb"),
        pytest.param("%S", "%S", id="a large verb"),
        pytest.param("%.f", "%.f", id="a precision without digits"),
        pytest.param("%5d", "%5", id="a width"),
        pytest.param("%-d", "%-", id="a flag"),
        pytest.param("% d", "% ", id="a blank"),
        pytest.param("%.9999999999999999999f", "%.999999999999999999", id="a precision of too many digits"),
    ],
)
def test_what_is_no_clause_is_named(source: str, shown: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        list(parse_format(source))
    assert str(caught.value) == f"{shown!r} {_NO_CLAUSE}"


@pytest.mark.parametrize(
    ("source", "value", "text"),
    [
        pytest.param("%s", "a'\"", "a'\"", id="a text is itself"),
        pytest.param("%s", b"a", "a", id="bytes are text"),
        pytest.param("%s", True, "true", id="a bool"),
        pytest.param("%s", None, "null", id="null"),
        pytest.param("%s", 1.0, "1", id="a double without a fraction"),
        pytest.param("%s", parse_duration("1m"), "60s", id="a duration"),
        pytest.param("%s", parse_timestamp("2024-01-01T00:00:00Z"), "2024-01-01T00:00:00Z", id="a moment"),
        pytest.param("%s", ["a\n", 1, 1.5, None, b"b"], '["a\\n", 1, 1.500000, null, b"b"]', id="a list is written as in CEL"),
        pytest.param("%s", [parse_duration("1s")], '[duration("1s")]', id="a duration in a list"),
        pytest.param(
            "%s", [parse_timestamp("2024-01-01T00:00:00Z")], '[timestamp("2024-01-01T00:00:00Z")]', id="a moment in a list"
        ),
        pytest.param(
            "%s", [math.nan, math.inf, -math.inf], '["NaN", "+Inf", "-Inf"]', id="doubles that are no numbers in a list"
        ),
        pytest.param("%s", Map([("b", 1), ("a", [2])]), '{"a":[2], "b":1}', id="a map is in order"),
        pytest.param("%d", INT_MIN, "-9223372036854775808", id="the smallest integer"),
        pytest.param("%d", Uint(UINT_MAX), "18446744073709551615", id="the largest unsigned integer"),
        pytest.param("%f", 1234567.0, "1,234,567.000000", id="thousands have commas"),
        pytest.param("%.0f", 0.5, "0", id="half is rounded to the even number below"),
        pytest.param("%.0f", 1.5, "2", id="and to the even number above"),
        pytest.param("%.2f", -0.001, "-0.00", id="a small negative number keeps its sign"),
        pytest.param("%.1f", -0.0, "0.0", id="negative zero does not"),
        pytest.param("%f", "NaN", "NaN", id="the name of what is no number"),
        pytest.param("%f", math.inf, "\u221e", id="infinity"),
        pytest.param("%f", "-Infinity", "-\u221e", id="the name of negative infinity"),
        pytest.param("%e", 1000.0, "1.000000\u00d710\u2070\u00b3", id="an exponent is written above"),
        pytest.param("%e", 0.015, "1.500000\u00d710\u207b\u2070\u00b2", id="a negative exponent"),
        pytest.param("%.14e", 1.0, " 1.000000\u00d710\u2070\u2070", id="the precision of %e is a width"),
        pytest.param("%b", 5, "101", id="binary"),
        pytest.param("%b", -5, "-101", id="negative binary"),
        pytest.param("%b", True, "1", id="a bool in binary"),
        pytest.param("%o", 8, "10", id="octal"),
        pytest.param("%x", 255, "ff", id="hexadecimal"),
        pytest.param("%X", -255, "-FF", id="large hexadecimal"),
        pytest.param("%x", "\u00e9", "c3a9", id="a text as its bytes"),
        pytest.param("%X", b"\xab", "AB", id="bytes"),
    ],
)
def test_what_a_clause_makes_of_a_value(source: str, value: Any, text: str) -> None:
    assert format_text(source, [value]) == text


@pytest.mark.parametrize(
    ("verb", "value", "kind"),
    [
        ("s", Optional(1), "optional_type"),
        ("s", [Optional(1)], "optional_type"),
        ("s", Map([(1.5, 1)]), "double"),
        ("d", 1.0, "double"),
        ("d", True, "bool"),
        ("f", 1, "int"),
        ("f", "1.0", "string"),
        ("e", "x", "string"),
        ("b", 1.5, "double"),
        ("x", True, "bool"),
        ("o", "8", "string"),
    ],
)
def test_a_value_that_a_clause_cannot_write_is_named_by_its_type(verb: str, value: Any, kind: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        format_text(f"%{verb}", [value])
    assert str(caught.value) == f"%{verb} cannot format a value of type {kind}"


def test_a_missing_argument_is_an_error_and_one_too_many_is_not() -> None:
    with pytest.raises(EvaluationError, match="the format has no argument 1"):
        format_text("%d%d", [1])
    assert format_text("%d", [1, 2]) == "1"


@pytest.mark.parametrize(
    ("source", "args", "message"),
    [
        pytest.param("%.9999999f", [1.0], "the precision of a format is too large", id="precision of %f"),
        pytest.param("%.9999999e", [1.0], "the precision of a format is too large", id="precision of %e"),
        pytest.param("%s%s", ["a" * 6_000_000] * 2, "the formatted text is too long", id="long arguments"),
        pytest.param("%s", [_DEEP], "the formatted text is too long", id="a text that each list around it writes again"),
    ],
)
def test_no_text_beyond_every_budget_is_built(source: str, args: list[Any], message: str) -> None:
    with pytest.raises(EvaluationAborted) as caught:
        format_text(source, args)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "go", "cel"),
    [
        pytest.param("a", '"a"', '"a"', id="letters"),
        pytest.param('\a\b\f\n\r\t\v\\"', r'"\a\b\f\n\r\t\v\\\""', r'"\a\b\f\n\r\t\v\\\""', id="named escapes"),
        pytest.param("\x00", r'"\x00"', '"\x00"', id="a character without a name"),
        pytest.param("\u200b", r'"\u200b"', '"\u200b"', id="one that does not print"),
        pytest.param("\U000e0001", r'"\U000e0001"', '"\U000e0001"', id="one beyond 16 bits"),
        pytest.param("\u00e9\U0001f600", '"\u00e9\U0001f600"', '"\u00e9\U0001f600"', id="characters that print"),
    ],
)
def test_two_ways_to_quote(text: str, go: str, cel: str) -> None:
    assert (quote_go(text), quote_cel(text)) == (go, cel)


@given(st.floats(-1e300, 1e300), st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_a_double_is_rounded_as_python_rounds_it(value: float, precision: int) -> None:
    expected = f"{0.0 if value == 0 else value:,.{precision}f}"
    assert format_text(f"%.{precision}f", [value]) == expected


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_whatever_the_format_it_is_read_or_refused(source: str) -> None:
    try:
        clauses = list(parse_format(source))
    except EvaluationError as err:
        shown = str(err)
        clauses = []
    else:
        shown = _NO_CLAUSE
    assert shown.endswith(_NO_CLAUSE)
    assert all(bool(clause.text) != bool(clause.verb) for clause in clauses)
