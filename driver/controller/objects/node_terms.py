"""Node selectors as kube-scheduler reads them: over labels and over the node's name.

Compiled once, asked of many nodes. A term that Kubernetes cannot read selects nothing, and the others still count. Source:
k8s.io/component-helpers v0.37.2 ``scheduling/corev1/nodeaffinity``, k8s.io/apimachinery v0.37.2 ``pkg/labels``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from driver.controller.objects.model import NodeSelector, Requirement, SelectorTerm

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NODE_NAME = "metadata.name"

Test: TypeAlias = "Callable[[Mapping[str, str]], bool]"


class NodeTerms:
    """A compiled node selector. Equal selectors need not be the same object."""

    def __init__(self, selector: NodeSelector) -> None:
        compiled = (_compile_term(term) for term in selector.node_selector_terms)
        self._terms = tuple(term for term in compiled if term is not None)

    def selects(self, labels: Mapping[str, str], name: str | None) -> bool:
        """True when one term holds. ``name`` is None where Kubernetes looks at labels alone: fields then count as met."""
        return any(
            all(test(labels) for test in tests) and (name is None or all(hit == (name == value) for value, hit in fields))
            for tests, fields in self._terms
        )


_Term: TypeAlias = "tuple[tuple[Test, ...], tuple[tuple[str, bool], ...]]"
"""Tests of labels; and node names, each with whether the node must or must not have it."""


def _compile_term(term: SelectorTerm) -> _Term | None:
    """None for a term that selects nothing: an empty one, or one that cannot be read."""
    if not term.match_expressions and not term.match_fields:
        return None
    tests = tuple(_compile_expression(each) for each in term.match_expressions)
    fields = tuple(_compile_field(each) for each in term.match_fields)
    if None in tests or None in fields:
        return None
    return tuple(each for each in tests if each is not None), tuple(each for each in fields if each is not None)


def _compile_field(field: Requirement) -> tuple[str, bool] | None:
    """A node's name is the only field there is; any other one is empty."""
    if field.operator not in ("In", "NotIn") or len(field.values) != 1:
        return None
    hit = field.operator == "In"
    if field.key == _NODE_NAME:
        return field.values[0], hit
    return ("", not hit) if field.values[0] == "" else ("", hit)


def _compile_expression(ask: Requirement) -> Test | None:
    if not _is_key(ask.key) or not all(_VALUE.fullmatch(value) for value in ask.values):
        return None
    build = _TESTS.get(ask.operator)
    return None if build is None else build(ask.key, ask.values)


def _build_in(key: str, values: tuple[str, ...]) -> Test | None:
    wanted = frozenset(values)
    return (lambda labels: labels.get(key) in wanted) if wanted else None


def _build_not_in(key: str, values: tuple[str, ...]) -> Test | None:
    unwanted = frozenset(values)
    return (lambda labels: labels.get(key) not in unwanted) if unwanted else None


def _build_exists(key: str, values: tuple[str, ...]) -> Test | None:
    return None if values else (lambda labels: key in labels)


def _build_absent(key: str, values: tuple[str, ...]) -> Test | None:
    return None if values else (lambda labels: key not in labels)


def _build_greater(key: str, values: tuple[str, ...]) -> Test | None:
    bound = _only_integer(values)
    if bound is None:
        return None
    return lambda labels: (value := parse_integer(labels.get(key, ""))) is not None and value > bound


def _build_less(key: str, values: tuple[str, ...]) -> Test | None:
    bound = _only_integer(values)
    if bound is None:
        return None
    return lambda labels: (value := parse_integer(labels.get(key, ""))) is not None and value < bound


_TESTS: Mapping[str, Callable[[str, tuple[str, ...]], Test | None]] = {
    "In": _build_in,
    "NotIn": _build_not_in,
    "Exists": _build_exists,
    "DoesNotExist": _build_absent,
    "Gt": _build_greater,
    "Lt": _build_less,
}


def parse_integer(text: str) -> int | None:
    """A whole number of 64 bits as Go reads one; None for anything else."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _only_integer(values: tuple[str, ...]) -> int | None:
    return parse_integer(values[0]) if len(values) == 1 else None


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    is_prefix_fine = not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
    return is_prefix_fine and _NAME.fullmatch(name) is not None


def find_wrong_label(wanted: Iterable[tuple[str, str]], labels: Mapping[str, str]) -> str | None:
    """The first label of a pod's ``nodeSelector`` that the node does not have, as ``key=value``."""
    for key, value in wanted:
        if labels.get(key) != value:
            return f"{key}={value}"
    return None
