"""Our engine against the answers of Kubernetes' own code: the answer, the type, and both costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.cel import EvaluationError, Features, SelectorError, compile_selector
from hack.oracle.cases import GOLDEN, Answer, Case, read_case, write_case
from hack.oracle.ours import answer_case, view_of

_MEASURED = GOLDEN.with_name("selectors.jsonl")
_DEVICES: dict[str, Any] = json.loads((Path(__file__).parents[3] / "hack/oracle/devices.json").read_text())
_DRIVER = "gpu.example.com"
_PART = 250
_GROWN = [read_case(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("first", range(0, len(_GROWN), _PART))
def test_selectors_are_answered_as_kubernetes_answers_them(first: int) -> None:
    ours: dict[Case, Answer] = {case: answer_case(case, _DEVICES, _DRIVER) for case in _GROWN[first : first + _PART]}
    assert {case.expr: answer for case, answer in ours.items() if answer != case.expected()} == {}


def test_the_golden_file_has_every_kind_of_answer() -> None:
    assert len(_GROWN) > 4_000
    assert {case.answer for case in _GROWN} == {"true", "false", "compile_error", "evaluation_error"}
    assert {case.lists for case in _GROWN} == {True, False}
    assert {case.consumable for case in _GROWN} == {True, False}


def test_a_case_is_written_as_it_was_read() -> None:
    lines = GOLDEN.read_text().splitlines(keepends=True)
    assert [write_case(read_case(line)) for line in lines] == lines


def _expected(line: dict[str, Any]) -> str:
    if "compile_err" in line["expected"]:
        return "compile_error"
    if "eval_err" in line["expected"]:
        return "evaluation_error"
    return str(line["expected"]["match"]).lower()


def _ours(line: dict[str, Any]) -> tuple[str, str | None, int | None]:
    features = Features(list_attributes=line.get("list", False), consumable_capacity=line.get("cons", False))
    try:
        selector = compile_selector(line["expr"], features=features)
    except SelectorError:
        return "compile_error", None, None
    try:
        word = str(selector.matches(view_of(line["device"], line["driver"]))).lower()
    except EvaluationError:
        word = "evaluation_error"
    return word, selector.result_type, selector.max_cost


_MEASURED_LINES = [json.loads(line) for line in _MEASURED.read_text().splitlines()]


@pytest.mark.parametrize("line", [pytest.param(line, id=str(n)) for n, line in enumerate(_MEASURED_LINES)])
def test_each_measured_selector_is_exact(line: dict[str, Any]) -> None:
    expected = line["expected"]
    word = _expected(line)
    costs = (None, None) if word == "compile_error" else (expected["type"], expected["max_cost"])
    assert _ours(line) == (word, *costs), line["expr"]


def test_all_measured_selectors_are_there() -> None:
    assert len(_MEASURED_LINES) == 169
