"""The explainer: each term by itself, in the order of the text, and never at odds with the selector."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import EvaluationError, Explainer, TermAnswer, build_view_of_values, compile_selector
from driver.cel.terms import split_terms
from tests.unit.cel.engine import ALL, VIEW

_BROKEN = build_view_of_values("a", {"v": {"version": "x"}}, {}, allows_multiple=False)


def _explain(source: str) -> list[TermAnswer]:
    return Explainer(compile_selector(source, features=ALL)).explain(VIEW)


def _yes(text: str) -> TermAnswer:
    return TermAnswer(text, is_true=True)


def _no(text: str, error: str = "") -> TermAnswer:
    return TermAnswer(text, is_true=False, error=error)


@pytest.mark.parametrize(
    ("source", "answers"),
    [
        pytest.param("true", [_yes("true")], id="one term"),
        pytest.param("true && false", [_yes("true"), _no("false")], id="two terms"),
        pytest.param("false && false && true", [_no("false"), _no("false"), _yes("true")], id="a no does not end it"),
        pytest.param("1 / 0 == 1 && true", [_no("1 / 0 == 1", "division by zero"), _yes("true")], id="nor does an error"),
        pytest.param("false && 1 / 0 == 1", [_no("false"), _no("1 / 0 == 1", "division by zero")], id="a hidden error is told"),
        pytest.param("(true && false) && true", [_no("(true && false)"), _yes("true")], id="brackets are one term"),
        pytest.param("!(true && false) && true", [_yes("!(true && false)"), _yes("true")], id="a not is one term"),
        pytest.param("true || false && false", [_yes("true || false && false")], id="an or is one term"),
        pytest.param("true && false ? true : true", [_yes("true && false ? true : true")], id="a condition is one term"),
        pytest.param(
            "[1].all(x, x > 0 && x < 0) && true", [_no("[1].all(x, x > 0 && x < 0)"), _yes("true")], id="a macro is one"
        ),
        pytest.param(
            "cel.bind(x, 1, x == 1 && x == 2)", [_no("cel.bind(x, 1, x == 1 && x == 2)")], id="a local variable is one"
        ),
        pytest.param(
            "true && // why && how\n false // so", [_yes("true"), _no("false")], id="comments around terms are left out"
        ),
        pytest.param("\n true\n &&\n\tfalse\n", [_yes("true"), _no("false")], id="lines"),
        pytest.param("'&&' == '''\n&&''' && true", [_no("'&&' == '''\n&&'''"), _yes("true")], id="texts are not cut"),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].mig && true',
            [_no('device.attributes["gpu.nvidia.com"].mig'), _yes("true")],
            id="an attribute that says no",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].index && true',
            [_no('device.attributes["gpu.nvidia.com"].index', "this term is of type int, not bool"), _yes("true")],
            id="an attribute that is no bool",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].nothing == 1 && true',
            [
                _no('device.attributes["gpu.nvidia.com"].nothing == 1', "no such key: nothing (in gpu.nvidia.com)"),
                _yes("true"),
            ],
            id="an attribute that is not there",
        ),
    ],
)
def test_each_term_answers_for_itself(source: str, answers: list[TermAnswer]) -> None:
    assert _explain(source) == answers


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        pytest.param("dyn(optional.of(true))", _yes("dyn(optional.of(true))"), id="an optional yes"),
        pytest.param("dyn(optional.of(optional.of(false)))", _no("dyn(optional.of(optional.of(false)))"), id="an optional no"),
        pytest.param("dyn(1)", _no("dyn(1)", "the selector's result is of type int, not bool"), id="a number"),
        pytest.param(
            "dyn(optional.none())",
            _no("dyn(optional.none())", "the selector's result is of type optional_type, not bool"),
            id="an empty optional",
        ),
    ],
)
def test_a_whole_selector_that_is_no_bool_is_taken_as_the_selector_takes_it(source: str, answer: TermAnswer) -> None:
    assert _explain(source) == [answer]


def test_a_device_that_kubernetes_cannot_read_has_its_fault_at_every_term() -> None:
    assert _BROKEN.fault
    explainer = Explainer(compile_selector("true && false"))
    assert explainer.explain(_BROKEN) == [_no("true", _BROKEN.fault), _no("false", _BROKEN.fault)]


def test_an_explainer_can_be_asked_again() -> None:
    explainer = Explainer(compile_selector("quantity('1').add(1) == quantity('2') && [1].all(x, x == 1)"))
    first = explainer.explain(VIEW)
    assert all(term.is_true for term in first)
    assert explainer.explain(VIEW) == first


_ATOMS = st.sampled_from(
    [
        *("true", "false", "1 / 0 == 1", "dyn(true)", "device.driver == ''", "!false"),
        *('device.attributes["gpu.nvidia.com"].mig', 'device.attributes["gpu.nvidia.com"].index == 3'),
        *("[1, 2].exists(x, x == 2 && true)", "'a && b' == 'a'", "(true && false)", "(false || true)"),
    ]
)
_JOINTS = st.sampled_from(["&&", " && ", "\n&&\t", " && // && so\n"])


@given(st.lists(_ATOMS, min_size=1, max_size=6), _JOINTS)
@settings(max_examples=150, deadline=None)
def test_a_selector_matches_where_all_its_terms_do_and_fails_where_one_fails_and_none_says_no(
    parts: list[str], joint: str
) -> None:
    source = joint.join(parts)
    terms = _explain(source)
    if len(parts) > 1:
        assert [term.text for term in terms] == parts
    try:
        matches = compile_selector(source, features=ALL).matches(VIEW)
    except EvaluationError:
        assert any(term.error for term in terms)
        assert all(term.is_true or term.error for term in terms)
        return
    assert matches == all(term.is_true for term in terms)
    assert matches or any(not term.is_true and not term.error for term in terms)


@given(st.lists(st.sampled_from(["a", "(b && c)", "[d && e]", "{f: g && h}", "'i && j'", "k(l && m)"]), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_terms_of_a_text_are_its_parts(parts: list[str]) -> None:
    assert split_terms(" && ".join(parts)) == parts
