"""What a PromQL expression names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import promql_parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Series by name, with the labels that are matched on each; labels that are grouped, joined or kept by."""

    series: tuple[tuple[str, frozenset[str]], ...]
    values: tuple[tuple[str, str, str], ...] = ()
    """Series, label, value of each matcher by equality."""
    labels: frozenset[str] = field(default_factory=frozenset)


def read_query(expr: str) -> Named:
    """Raises ``ValueError`` where it is no PromQL."""
    nodes: list[Any] = []
    promql_parser.walk(promql_parser.parse(expr), nodes.append)
    selectors = [each for each in nodes if isinstance(each, promql_parser.VectorSelector)]
    matchers = [(each.name or "", matcher) for each in selectors for matcher in each.matchers.matchers]
    return Named(
        series=tuple((each.name or "", frozenset(matcher.name for matcher in each.matchers.matchers)) for each in selectors),
        values=tuple((name, one.name, one.value) for name, one in matchers if one.op == promql_parser.MatchOp.Equal),
        labels=frozenset(label for each in nodes for label in _labels_of(each)),
    )


def _labels_of(node: Any) -> Iterator[str]:
    modifier = getattr(node, "modifier", None)
    if modifier is None:
        return
    if isinstance(node, promql_parser.AggregateExpr):
        yield from modifier.labels
    elif modifier.matching is not None:
        yield from modifier.matching.labels
        yield from getattr(modifier.group_labels, "labels", modifier.group_labels or ())


def list_joined(expr: str) -> list[Any]:
    """What stands on the side that must have one line for each match, of every join with ``group_left``."""
    nodes: list[Any] = []
    promql_parser.walk(promql_parser.parse(expr), nodes.append)
    many_to_one = promql_parser.VectorMatchCardinality.ManyToOne
    return [
        each.rhs
        for each in nodes
        if isinstance(each, promql_parser.BinaryExpr) and each.modifier is not None and each.modifier.card == many_to_one
    ]
