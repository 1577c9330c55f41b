"""Functions on texts: offsets count characters, and what is out of range is an error and no guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import texts
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.formatting import MOST_CHARACTERS

_SHORT = st.text("ab\u00e9\U0001f600", max_size=8)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(texts.char_at("a\U0001f600b", 1), "\U0001f600", id="a character beyond 16 bits is one"),
        pytest.param(texts.char_at("ab", 2), "", id="behind the last character is nothing"),
        pytest.param(texts.index_of("tacocat", "ac"), 1, id="the first place"),
        pytest.param(texts.index_of("tacocat", "a", 2), 5, id="the first place from an offset on"),
        pytest.param(texts.index_of("tacocat", "x"), -1, id="no place"),
        pytest.param(texts.index_of("abc", "", 2), 2, id="an empty part is where the search begins"),
        pytest.param(texts.index_of("abc", "", 9), 3, id="or at the end"),
        pytest.param(texts.index_of("abc", "c", 9), -1, id="nothing is behind the end"),
        pytest.param(texts.last_index_of("tacocat", "a"), 5, id="the last place"),
        pytest.param(texts.last_index_of("abc", ""), 3, id="an empty part is last at the end"),
        pytest.param(texts.last_index_from("tacocat", "a", 4), 1, id="the last place at an offset or before"),
        pytest.param(texts.last_index_from("tacocat", "cat", 4), 4, id="a part may end behind the offset"),
        pytest.param(texts.last_index_from("abc", "", 9), 3, id="an empty part before the end"),
        pytest.param(texts.last_index_from("abc", "a", 3), -1, id="an offset behind the end finds nothing"),
        pytest.param(texts.lower_ascii("A\u00c4b"), "a\u00c4b", id="only ASCII becomes small"),
        pytest.param(texts.upper_ascii("a\u00e4B"), "A\u00e4B", id="only ASCII becomes large"),
        pytest.param(texts.replace("aaa", "a", "b"), "bbb", id="all are replaced"),
        pytest.param(texts.replace("aaa", "a", "b", 2), "bba", id="so many are replaced"),
        pytest.param(texts.replace("aaa", "a", "b", 0), "aaa", id="none is replaced"),
        pytest.param(texts.replace("ab", "", "-"), "-a-b-", id="an empty part is everywhere"),
        pytest.param(texts.split("a,b,", ","), ["a", "b", ""], id="an end after a separator is a part"),
        pytest.param(texts.split("", ","), [""], id="nothing is one part"),
        pytest.param(texts.split("abc", ""), ["a", "b", "c"], id="no separator splits characters"),
        pytest.param(texts.split("", ""), [], id="of which nothing has none"),
        pytest.param(texts.split("a,b,c", ",", 2), ["a", "b,c"], id="so many parts, with the rest in the last"),
        pytest.param(texts.split("abc", "", 2), ["a", "bc"], id="so many characters, with the rest in the last"),
        pytest.param(texts.split("a,b", ",", 0), [], id="no parts"),
        pytest.param(texts.split("a,b", ",", 1), ["a,b"], id="one part"),
        pytest.param(texts.substring("abc", 1), "bc", id="from an offset on"),
        pytest.param(texts.substring("abc", 3), "", id="from the end on"),
        pytest.param(texts.substring_range("abc", 1, 2), "b", id="from an offset to another"),
        pytest.param(texts.substring_range("abc", 3, 3), "", id="nothing at the end"),
        pytest.param(texts.trim(" \t\u00a0\u2003a b\u3000\n"), "a b", id="all kinds of white space"),
        pytest.param(texts.trim("\u200ba\ufeff"), "\u200ba\ufeff", id="what has no width is no white space"),
        pytest.param(texts.join([]), "", id="no parts are joined to nothing"),
        pytest.param(texts.join(["a", "", "b"], "-"), "a--b", id="parts with separators"),
    ],
)
def test_what_a_text_becomes(result: Any, expected: Any) -> None:
    assert result == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: texts.char_at("ab", 3), "3 is out of range: the string has 2 characters", id="charAt"),
        pytest.param(lambda: texts.char_at("ab", -1), "-1 is out of range: the string has 2 characters", id="negative charAt"),
        pytest.param(lambda: texts.index_of("ab", "a", -1), "-1 is out of range", id="negative indexOf"),
        pytest.param(lambda: texts.last_index_from("ab", "a", -1), "-1 is out of range", id="negative lastIndexOf"),
        pytest.param(lambda: texts.substring("ab", 3), "3 is out of range: the string has 2 characters", id="substring"),
        pytest.param(
            lambda: texts.substring_range("ab", 0, 3), "3 is out of range: the string has 2 characters", id="end of a substring"
        ),
        pytest.param(
            lambda: texts.substring_range("ab", -1, 1), "-1 is out of range: the string has 2 characters", id="its beginning"
        ),
        pytest.param(
            lambda: texts.substring_range("ab", 2, 1), "a substring cannot begin at 2 and end at 1", id="the wrong way round"
        ),
        pytest.param(lambda: texts.join(["a", 1]), "only a list of strings can be joined", id="join of a number"),
    ],
)
def test_what_is_out_of_range_is_an_error(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda: texts.replace("a" * 10_000, "", "b" * 10_000), "the replaced text is too long", id="replace everywhere"
        ),
        pytest.param(lambda: texts.replace("a" * 10_000, "a", "b" * 10_000), "the replaced text is too long", id="replace"),
        pytest.param(lambda: texts.join(["a" * 10_000] * 1_001), "the joined text is too long", id="join"),
        pytest.param(lambda: texts.join([""] * 1_001, "a" * 10_000), "the joined text is too long", id="separators"),
    ],
)
def test_no_text_beyond_every_budget_is_built(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(EvaluationAborted) as caught:
        call()
    assert str(caught.value) == message


def test_a_few_replacements_in_a_long_text_are_no_reason_to_end() -> None:
    assert len(texts.replace("a" * 10_000, "a", "b" * 10_000, 2)) == 9_998 + 20_000 < MOST_CHARACTERS


@given(_SHORT, _SHORT)
@settings(max_examples=100, deadline=None)
def test_what_is_found_is_there_and_nothing_before_or_after_it(text: str, part: str) -> None:
    first, last = texts.index_of(text, part), texts.last_index_of(text, part)
    places = [index for index in range(len(text) + 1) if text[index : index + len(part)] == part]
    assert (first, last) == ((places[0], places[-1]) if places else (-1, -1))


@given(_SHORT, _SHORT, st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_the_last_place_from_an_offset_is_the_last_at_it_or_before(text: str, part: str, start: int) -> None:
    places = [index for index in range(min(start, len(text)) + 1) if text[index : index + len(part)] == part]
    found = texts.last_index_from(text, part, start)
    assert found == (places[-1] if places and (start < len(text) or not part) else -1)


@given(_SHORT, st.text("ab", min_size=1, max_size=2), st.integers(-1, 4))
@settings(max_examples=100, deadline=None)
def test_what_was_split_can_be_joined_again(text: str, separator: str, most: int) -> None:
    parts = texts.split(text, separator, most)
    assert texts.join(parts, separator) == ("" if most == 0 else text)
    assert most < 0 or len(parts) <= most
