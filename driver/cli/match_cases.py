"""``gpu-dra match --cases``: many selectors, each on its own device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from driver.cel import EvaluationError, Features, SelectorError, compile_selector
from driver.cli.match_sources import view_of_device
from driver.cli.printable import escape_json
from driver.errors import SettingsInvalid


def answer_cases(text: str, out: TextIO) -> None:
    """Print a line for each case.

    Raises:
        SettingsInvalid: a line is no case.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            answer = {"id": number, **answer_case(line, f"case in line {number}")}
            print(escape_json(json.dumps(answer, ensure_ascii=False)), file=out)


def answer_case(line: str, where: str) -> dict[str, Any]:
    """``{"id", "result", "message"}`` of one case.

    Raises:
        SettingsInvalid: the line is no case.
    """
    case = _parse(line, where)
    features = Features(list_attributes=bool(case.get("list")), consumable_capacity=bool(case.get("cons")))
    answer: dict[str, Any] = {} if "id" not in case else {"id": case["id"]}
    try:
        selector = compile_selector(case["expr"], features=features)
    except SelectorError as err:
        return {**answer, "result": "compile_error", "message": str(err)}
    view = view_of_device(str(case.get("driver", "")), case.get("device") or {}, where)
    try:
        return {**answer, "result": selector.matches(view), "message": ""}
    except EvaluationError as err:
        return {**answer, "result": "evaluation_error", "message": str(err)}


def _parse(line: str, where: str) -> Mapping[str, Any]:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise SettingsInvalid(f"{where} is no JSON: {err}") from err
    if not isinstance(case, dict) or not isinstance(case.get("expr"), str):
        raise SettingsInvalid(f'{where} needs at least {{"expr": "..."}}')
    if not isinstance(case.get("device") or {}, dict):
        raise SettingsInvalid(f"{where}: device is no object")
    return case
