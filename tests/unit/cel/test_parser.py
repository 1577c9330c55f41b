"""The parser: it never crashes, and what is nested too deeply is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel.errors import SelectorError
from driver.cel.lexer import tokenize
from driver.cel.parser import parse

_PIECES = st.sampled_from(
    [
        *"()[]{}.,:?!-+*/%<>=&|'\"\\ \n\t",
        *("==", "&&", "||", "in", "has", "all", "map", "cel.bind", "device", "x", "1", "2u"),
        *(
            "1.5",
            "0x1",
            "1e9",
            "r'",
            "b'",
            "'''",
            "true",
            "null",
            "optional.of(",
            "?.",
            "[?",
            ".?",
            "`a-b`",
            "é",
            "\U0001f600",
            "\x00",
        ),
    ]
)


def _parses(source: str) -> bool:
    try:
        parse(source)
    except SelectorError as err:
        fault = err
    else:
        return True
    assert 0 <= fault.span.start <= len(source)
    assert str(fault)
    return False


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_no_text_crashes_the_parser(source: str) -> None:
    _parses(source)


@given(st.lists(_PIECES, max_size=60).map("".join))
@settings(max_examples=300, deadline=None)
def test_no_row_of_signs_crashes_the_parser(source: str) -> None:
    _parses(source)


@given(st.lists(_PIECES, max_size=40).map(" ".join))
@settings(max_examples=100, deadline=None)
def test_tokens_are_in_order_and_do_not_overlap(source: str) -> None:
    try:
        tokens = tokenize(source)
    except SelectorError:
        return
    starts = [token.start for token in tokens]
    assert starts == sorted(starts)
    assert tokens[-1].kind == "end"


@pytest.mark.parametrize(
    ("write", "most"),
    [
        (lambda n: "(" * n + "true" + ")" * n, 249),
        (lambda n: " + ".join(["1"] * n) + " > 0", 250),
        (lambda n: "true ? true : " * n + "true", 249),
    ],
    ids=["parentheses", "sums", "conditions"],
)
def test_the_depth_is_limited_as_in_kubernetes(write: Callable[[int], str], most: int) -> None:
    assert _parses(write(most))
    assert not _parses(write(most + 1))


@pytest.mark.parametrize("sign", ["(", "[", "!(", "-(", "{1:", "f(", "a[", "true?", "[1].map(x,", "has(a.", "cel.bind(x,1,"])
def test_a_thousand_levels_are_refused_at_once(sign: str) -> None:
    assert not _parses(sign * 1_000)


@pytest.mark.parametrize(
    "source",
    ["true" + " && true" * 2_000, "!" * 9_000 + "true", "-" * 9_001 + "1", "[" + "1," * 4_000 + "1]"],
    ids=["terms", "nots", "minus signs", "elements"],
)
def test_what_is_long_but_flat_is_taken(source: str) -> None:
    assert _parses(source)


def test_a_comment_is_no_part_of_the_selector() -> None:
    assert _parses("true // && (\n&& true")


def test_the_fault_has_its_place() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("true &&\n )")
    assert caught.value.span.start == 9
