"""What is read from an expression; the checks of dashboards and rules stand on it."""

from __future__ import annotations

import pytest

from tests.unit.deploy.queries import Named, read_query


@pytest.mark.parametrize(
    ("expr", "named"),
    [
        pytest.param(
            'max by (state) (gpu_dra_gpus{node=~"$node",state="free"})',
            Named(
                series=(("gpu_dra_gpus", frozenset({"node", "state"})),),
                values=(("gpu_dra_gpus", "state", "free"),),
                labels=frozenset({"state"}),
            ),
            id="a group and matchers",
        ),
        pytest.param(
            "a * on (node, gpu) group_left (uuid) b",
            Named(series=(("a", frozenset()), ("b", frozenset())), labels=frozenset({"node", "gpu", "uuid"})),
            id="a join",
        ),
        pytest.param(
            'sum without (x) (rate(a_total{q!="1"}[5m]))',
            Named(series=(("a_total", frozenset({"q"})),), labels=frozenset({"x"})),
            id="a range below a function",
        ),
        pytest.param("vector(0)", Named(series=()), id="no series"),
    ],
)
def test_names_of_an_expression(expr: str, named: Named) -> None:
    assert read_query(expr) == named


@pytest.mark.parametrize("expr", ["", "sum(", "a{b=}", "rate(a)", "a[5m", "a +"])
def test_what_is_no_expression_is_refused(expr: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the parser's own words
        read_query(expr)
