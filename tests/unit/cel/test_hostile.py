"""Selectors written to hang the scheduler or to eat its memory: each gets an answer, whichever it is."""

from __future__ import annotations

import pytest

from tests.unit.cel.engine import answer


def _binds(count: int, first: str, step: str, last: str) -> str:
    text = last
    for index in range(count, 0, -1):
        text = f"cel.bind(v{index}, {step.replace('P', f'v{index - 1}')}, {text})"
    return f"cel.bind(v0, {first}, {text})"


_HOSTILE = {
    "doubled lists": _binds(60, "[1, 2, 3]", "P + P", "v60.size() > 0"),
    "doubled texts": _binds(60, '"abcdefgh"', "P + P", "v60.size() > 0"),
    "doubled types": _binds(60, '{"a": 1}', '{"k": {"a": P, "b": P}}', "v60.size() > 0"),
    "maps keyed by maps": _binds(60, "1", "{P: P}", "v60.size() > 0"),
    "compared graphs": _binds(40, "[dyn(1)]", "[dyn(P), dyn(P)]", "v40 == v40"),
    "formatted graphs": _binds(40, "[dyn(1)]", "[dyn(P), dyn(P)]", '"%s".format([v40]).size() > 0'),
    "flattened graphs": _binds(40, "[dyn(1)]", "[dyn(P), dyn(P)]", "v40.flatten(50).size() > 0"),
    "chained optMap": "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()",
    "replace": '"' + "a" * 4_000 + '".replace("", "' + "b" * 4_000 + '").replace("", "' + "c" * 1_000 + '").size() > 0',
    "a long range": "lists.range(9999999).size() > 0",
    "ranges of ranges": "lists.range(900000).map(x, lists.range(900000)).size() > 0",
    "nested loops": "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
    "backtracking": '"' + "a" * 2_000 + '".matches("(a*)*(a*)*(a*)*b")',
    "a large pattern": '"a".matches("((a{100}){100}){100}")',
    "many digits": '"%.99999999f".format([1.0]).size() > 0',
    "a large exponent": 'quantity("1e2000000000").isGreaterThan(quantity("1.5Gi"))',
    "a large sum": 'quantity("1e2000000000").add(quantity("1")).isInteger()',
    "a large float": 'quantity("1e2000000000").asApproximateFloat() > 1.0',
    "a long quantity": 'quantity("' + "9" * 9_000 + '").isGreaterThan(quantity("1"))',
    "a long integer": 'int("' + "9" * 9_000 + '") > 0',
    "a long literal": "9" * 9_000 + " > 0",
    "nested maps": "{1:" * 200 + "1" + "}" * 200 + " == {}",
    "nested macros": "[1].map(x, " * 100 + "1" + ")" * 100 + " == []",
    "joined lists": _binds(30, '["abc"]', "P + P", 'v30.join(v30.join("")).size() > 0'),
    "sets": "sets.equivalent(lists.range(3000), lists.range(3000))",
    "a time zone as path": 'timestamp(0).getHours("../../etc/passwd") == 0',
    "overloads": " + ".join(["dyn(1)"] * 200) + " == 200",
}


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in _HOSTILE.items()])
def test_it_is_answered(source: str) -> None:
    assert str(answer(source)) != ""


def test_a_loop_over_a_million_ends_at_the_cost_limit() -> None:
    assert "cost" in str(answer("lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))"))
