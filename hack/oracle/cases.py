"""The golden file: a selector a line, with the answer of Kubernetes' own code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "cel" / "grown.jsonl"

Answer = tuple[str, str | None, int | None, int | None]
"""``true``, ``false``, ``compile_error`` or ``evaluation_error``; then result type, estimated and actual cost where known."""


@dataclass(frozen=True, slots=True)
class Case:
    """A selector on a device of devices.json, and what is expected."""

    expr: str
    device: str
    lists: bool
    consumable: bool
    answer: str = ""
    type: str | None = None
    max_cost: int | None = None
    cost: int | None = None

    def question(self, devices: Mapping[str, Any], driver: str) -> dict[str, Any]:
        """The case as the oracle reads it."""
        device = devices[self.device]
        return {"id": "", "expr": self.expr, "driver": driver, "device": device, "list": self.lists, "cons": self.consumable}

    def answered(self, answer: Mapping[str, Any], *, has_cost: bool) -> Case:
        """The case with the oracle's answer."""
        if "compile_err" in answer:
            return replace(self, answer="compile_error")
        word = "evaluation_error" if "eval_err" in answer else str(answer["match"]).lower()
        cost = answer["cost"] if has_cost else None
        return replace(self, answer=word, type=answer["type"], max_cost=answer["max_cost"], cost=cost)

    def expected(self) -> Answer:
        """What is compared."""
        return self.answer, self.type, self.max_cost, self.cost


def write_case(case: Case) -> str:
    """A line of the golden file; what is the rule is left out."""
    line: dict[str, Any] = {"expr": case.expr, "answer": case.answer}
    line |= {} if case.device == "plain" else {"device": case.device}
    line |= {"lists": True} if case.lists else {}
    line |= {} if case.consumable else {"consumable": False}
    line |= {} if case.type in (None, "bool") else {"type": case.type}
    line |= {} if case.max_cost is None else {"max_cost": case.max_cost}
    line |= {} if case.cost is None else {"cost": case.cost}
    return json.dumps(line, ensure_ascii=True) + "\n"


def read_case(text: str) -> Case:
    """The case of a line."""
    line = json.loads(text)
    return Case(
        line["expr"],
        line.get("device", "plain"),
        lists=line.get("lists", False),
        consumable=line.get("consumable", True),
        answer=line["answer"],
        type=None if line["answer"] == "compile_error" else line.get("type", "bool"),
        max_cost=line.get("max_cost"),
        cost=line.get("cost"),
    )
