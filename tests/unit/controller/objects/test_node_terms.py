"""Node selectors select what kube-scheduler selects by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.controller.objects.node_terms import NodeTerms, find_wrong_label, parse_integer
from tests.unit.controller.fit_cases import expression, field, selector

LABELS = {"zone": "a", "disk": "ssd", "empty": "", "gen": "7", "big": "9223372036854775807", "minus": "-3", "word": "x1"}

EXPRESSIONS: list[tuple[str, Mapping[str, Any], bool]] = [
    ("a value of several", expression("zone", "In", "b", "a"), True),
    ("another value", expression("zone", "In", "b"), False),
    ("In wants the label", expression("rack", "In", "a"), False),
    ("In without values is a term that cannot be read", expression("zone", "In"), False),
    ("the empty value is a value", expression("empty", "In", ""), True),
    ("a label that is absent has no empty value", expression("rack", "In", ""), False),
    ("NotIn takes another value", expression("zone", "NotIn", "b"), True),
    ("NotIn refuses the value", expression("zone", "NotIn", "a", "b"), False),
    ("NotIn takes a node without the label", expression("rack", "NotIn", "a"), True),
    ("NotIn without values cannot be read", expression("rack", "NotIn"), False),
    ("NotIn of a value that no label can have cannot be read", expression("zone", "NotIn", "no value"), False),
    ("Exists", expression("empty", "Exists"), True),
    ("Exists of what is absent", expression("rack", "Exists"), False),
    ("Exists with values cannot be read", expression("zone", "Exists", "a"), False),
    ("DoesNotExist", expression("rack", "DoesNotExist"), True),
    ("DoesNotExist of what is there", expression("empty", "DoesNotExist"), False),
    ("DoesNotExist with values cannot be read", expression("rack", "DoesNotExist", "a"), False),
    ("Gt", expression("gen", "Gt", "6"), True),
    ("Gt is strict", expression("gen", "Gt", "7"), False),
    ("Gt compares numbers, not texts", expression("gen", "Gt", "10"), False),
    ("Gt wants the label", expression("rack", "Gt", "0"), False),
    ("Gt of a word", expression("word", "Gt", "0"), False),
    ("Gt than a word cannot be read", expression("gen", "Gt", "x"), False),
    ("Gt with two values cannot be read", expression("gen", "Gt", "1", "2"), False),
    ("Gt than a negative number cannot be read: no label can have it", expression("gen", "Gt", "-1"), False),
    ("the largest number", expression("big", "Gt", "9223372036854775806"), True),
    ("a number beyond 64 bits cannot be read", expression("big", "Lt", "9223372036854775808"), False),
    ("Lt", expression("gen", "Lt", "8"), True),
    ("Lt is strict", expression("gen", "Lt", "7"), False),
    ("Lt of a negative label", expression("minus", "Lt", "0"), True),
    ("zeros in front are read", expression("gen", "Lt", "0010"), True),
    ("an operator of another version cannot be read", expression("zone", "Like", "a"), False),
    ("a key that no label can have cannot be read", expression("a/b/c", "DoesNotExist"), False),
    ("a key with a prefix", expression("example.com/rack", "DoesNotExist"), True),
    ("a prefix that is no domain cannot be read", expression("Example_/rack", "DoesNotExist"), False),
    ("the node by name", field("In", "node-a"), True),
    ("another node by name", field("In", "node-b"), False),
    ("any node but one", field("NotIn", "node-b"), True),
    ("any node but this", field("NotIn", "node-a"), False),
    ("two names cannot be read", field("In", "node-a", "node-b"), False),
    ("fields know In and NotIn alone", field("Exists"), False),
    ("another field is empty", field("In", "x", key="metadata.uid"), False),
    ("another field is empty, and not x", field("NotIn", "x", key="metadata.uid"), True),
    ("an empty term selects nothing", {}, False),
]


@pytest.mark.parametrize(("term", "expected"), [case[1:] for case in EXPRESSIONS], ids=[case[0] for case in EXPRESSIONS])
def test_a_term_selects(term: Mapping[str, Any], expected: bool) -> None:
    assert NodeTerms(selector(term)).selects(LABELS, "node-a") is expected


def test_all_expressions_of_a_term_and_one_of_the_terms_must_hold() -> None:
    both = {
        "matchExpressions": [
            *expression("zone", "In", "a")["matchExpressions"],
            *expression("disk", "In", "hdd")["matchExpressions"],
        ]
    }
    assert not NodeTerms(selector(both)).selects(LABELS, "node-a")
    assert NodeTerms(selector(both, expression("disk", "In", "ssd"))).selects(LABELS, "node-a")


def test_labels_and_fields_of_one_term_must_both_hold() -> None:
    term = {**expression("zone", "In", "a"), **field("In", "node-b")}
    terms = NodeTerms(selector(term))
    assert not terms.selects(LABELS, "node-a")
    assert terms.selects(LABELS, "node-b")
    assert not terms.selects({}, "node-b")


def test_a_term_that_cannot_be_read_does_not_spoil_the_others() -> None:
    assert NodeTerms(selector(expression("zone", "Like", "a"), expression("zone", "Exists"))).selects(LABELS, "node-a")


def test_no_terms_select_nothing() -> None:
    assert not NodeTerms(selector()).selects(LABELS, "node-a")


def test_fields_count_as_met_where_only_labels_are_looked_at() -> None:
    """Kubernetes asks a volume's affinity so."""
    assert NodeTerms(selector(field("In", "node-b"))).selects(LABELS, None)
    assert not NodeTerms(selector({**field("In", "node-b"), **expression("zone", "In", "z")})).selects(LABELS, None)


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("", None), ("7.0", None), ("1_000", None), (" 7", None), ("\u0667", None)],
)
def test_numbers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_integer(text) == number


def test_the_wrong_label_is_named() -> None:
    assert find_wrong_label([("zone", "a"), ("disk", "hdd"), ("rack", "1")], LABELS) == "disk=hdd"
    assert find_wrong_label([("zone", "a")], LABELS) is None
    assert find_wrong_label([], {}) is None


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=80),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", ""]),
    st.lists(st.text(max_size=80)),
)
def test_no_selector_is_too_odd_to_be_asked(key: str, operator: str, values: list[str]) -> None:
    terms = NodeTerms(selector(expression(key, operator, *values), field(operator, *values, key=key)))
    assert terms.selects(LABELS, "node-a") in (True, False)
