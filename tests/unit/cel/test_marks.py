"""How a fault is shown: line and column, the line itself, and a mark below the place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel.errors import SelectorError, Span, describe_fault


def _lines(source: str, start: int) -> list[str]:
    return describe_fault(source, Span(start), "no").split("\n")


@pytest.mark.parametrize(
    ("source", "start", "shown"),
    [
        pytest.param("a b", 2, ["1:3: no", " | a b", " | ..^"], id="in the first line"),
        pytest.param("", 0, ["1:1: no", " | ", " | ^"], id="in nothing"),
        pytest.param("abc", 3, ["1:4: no", " | abc", " | ...^"], id="behind the end"),
        pytest.param("a\nbc\nd", 3, ["2:2: no", " | bc", " | .^"], id="in the middle line"),
        pytest.param("a\n", 2, ["2:1: no", " | ", " | ^"], id="in an empty last line"),
        pytest.param("a\nb", 1, ["1:2: no", " | a", " | .^"], id="at the end of a line"),
        pytest.param("a &&\r\n b", 7, ["2:2: no", " |  b", " | .^"], id="after a line that ends as on Windows"),
        pytest.param("a &&\r\n b", 2, ["1:3: no", " | a &&", " | ..^"], id="in a line that ends as on Windows"),
        pytest.param("\t\ta", 2, ["1:3: no", " |   a", " | ..^"], id="a tab is as wide as its mark"),
        pytest.param("é b", 2, ["1:3: no", " | é b", " | ..^"], id="columns are characters and not bytes"),
    ],
)
def test_the_mark_is_below_the_place(source: str, start: int, shown: list[str]) -> None:
    assert _lines(source, start) == shown


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    source = "a" * 100 + "!" + "b" * 100
    assert _lines(source, 100) == ["1:101: no", f" | {'a' * 60}!{'b' * 59}", f" | {'.' * 60}^"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert _lines("\x1b[2Ja\x07\rb\u202ec", 0)[1] == " |  [2Ja  b c"


def test_faults_are_in_the_order_of_the_text_and_the_first_gives_the_place() -> None:
    err = SelectorError("a b", [(Span(2), "second"), (Span(0), "first")])
    assert str(err) == "1:1: first\n | a b\n | ^\n1:3: second\n | a b\n | ..^"
    assert err.span == Span(0)


def test_at_most_ten_faults_are_shown_and_all_are_kept() -> None:
    err = SelectorError("a" * 20, [(Span(index), f"number {index}") for index in range(12)])
    assert [line for line in str(err).splitlines() if "number" in line] == [f"1:{n + 1}: number {n}" for n in range(10)]
    assert len(err.faults) == 12


@given(st.text(max_size=150), st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_the_text_a_fault_is_three_printable_lines_with_the_mark_below_its_place(
    source: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(source)))
    lines = _lines(source, start)
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    place = lines[2].index("^")
    if start < len(source) and source[start].isprintable() and not source[start].isspace():
        assert lines[1][place] == source[start]
