"""The terms of a selector, as its text has them."""

from __future__ import annotations

import pytest

from driver.cel import Explainer, build_view_of_values, compile_selector
from driver.cel.terms import split_terms

_VIEW = build_view_of_values("a", {"n": {"int": 1}}, {}, allows_multiple=False)


@pytest.mark.parametrize(
    ("source", "terms"),
    [
        ("a", ["a"]),
        ("a && b", ["a", "b"]),
        ("a&&b &&\n c", ["a", "b", "c"]),
        ("(a && b) && c", ["(a && b)", "c"]),
        ("f(a && b) && {x: y && z} == {} && [p && q] == []", ["f(a && b)", "{x: y && z} == {}", "[p && q] == []"]),
        ("'a && b' == c && d", ["'a && b' == c", "d"]),
    ],
)
def test_the_text_is_cut_between_the_signs(source: str, terms: list[str]) -> None:
    assert split_terms(source) == terms


@pytest.mark.parametrize("source", ["false || true && false", "true && false || false", "true ? false && true : true"])
def test_what_binds_less_than_the_sign_is_one_term(source: str) -> None:
    terms = Explainer(compile_selector(source)).explain(_VIEW)
    assert [(term.text, term.is_true, term.error) for term in terms] == [(source, False, "")]


def test_brackets_around_all_are_one_term() -> None:
    terms = Explainer(compile_selector("(true && false)")).explain(_VIEW)
    assert [term.is_true for term in terms] == [False]


def test_terms_with_macros_keep_their_own_variables() -> None:
    source = "[1, 2].exists(x, x == 2) && [3].all(x, x == 4) && cel.bind(y, 5, y == 5)"
    terms = Explainer(compile_selector(source)).explain(_VIEW)
    assert [term.is_true for term in terms] == [True, False, True]


def test_a_failing_term_has_its_error() -> None:
    terms = Explainer(compile_selector('device.attributes["a"].m == 1 && device.attributes["a"].n == 1')).explain(_VIEW)
    assert [(term.is_true, "no such key: m" in term.error) for term in terms] == [(False, True), (True, False)]
