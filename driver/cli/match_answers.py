"""What ``gpu-dra match`` found, for programs and for people."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.cel import DeviceView, EvaluationError, Explainer, Selector
from driver.cli.match_cost import ControllerCost
from driver.cli.match_sources import Candidate

Answer = dict[str, Any]
_ABSENT = re.compile(r"no such key: (\S+) \(in (\S+)\)")


def build_answers(selector: Selector, candidates: Sequence[Candidate]) -> list[Answer]:
    """One answer a device, with the terms that did not say yes."""
    explainer = Explainer(selector)
    return [_answer(selector, explainer, candidate) for candidate in candidates]


def _answer(selector: Selector, explainer: Explainer, candidate: Candidate) -> Answer:
    answer: Answer = {"driver": candidate.driver, "pool": candidate.pool, "device": candidate.name}
    try:
        result: bool | str = selector.matches(candidate.view)
        message = ""
    except EvaluationError as err:
        result, message = "evaluation_error", str(err)
    terms = [] if result is True else [term for term in explainer.explain(candidate.view) if not term.is_true]
    shown = [
        {
            "term": term.text,
            "result": "evaluation_error" if term.error else False,
            "message": term.error,
            "hint": find_hint(term.error, candidate.view),
        }
        for term in terms
    ]
    return {**answer, "result": result, "message": message, "terms": shown}


def find_hint(message: str, view: DeviceView) -> str:
    """What was probably meant by a name that the device does not have; empty where nothing is near."""
    absent = _ABSENT.search(message)
    if absent is None:
        return ""
    kinds = {"attributes": view.known, "capacity": view.amounts}
    here = {name: kind for kind, named in kinds.items() for domain, name in named if domain == absent[2]}
    elsewhere = {name: domain for named in kinds.values() for domain, name in named}
    if absent[1] in here:
        return f'it is in device.{here[absent[1]]}["{absent[2]}"]'
    if absent[1] in elsewhere:
        return f'it is in "{elsewhere[absent[1]]}"'
    by_folded = {name.casefold(): name for name in here}
    near = difflib.get_close_matches(absent[1].casefold(), list(by_folded), n=1)
    return f"did you mean {by_folded[near[0]]}?" if near else ""


def build_tables(selector: Selector, answers: Sequence[Answer], cost: ControllerCost | None = None) -> RenderableType:
    """Devices with their answers, and a summary of the terms that said no."""
    matching = sum(answer["result"] is True for answer in answers)
    failing = sum(answer["result"] == "evaluation_error" for answer in answers)
    headline = Text(f"{matching} of {len(answers)} {'device matches' if len(answers) == 1 else 'devices match'}", style="bold")
    headline.append(f"; the selector fails on {failing}: kube-scheduler gives up the pod" if failing else "")
    costs = _costs(selector, cost)
    if not answers:
        return Group(Text("there are no devices to match", style="bold"), *costs)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("pool", "device", "match", "why not"):
        table.add_column(title, overflow="fold")
    for answer in answers:
        word, style = _WORDS[answer["result"]]
        table.add_row(answer["pool"], answer["device"], Text(word, style=style), _why(answer))
    parts: list[RenderableType] = [headline, *costs, Text(), table]
    counted = Counter(term["term"] for answer in answers for term in answer["terms"])
    if counted and len(answers) > 1:
        parts += [Text(), Text("Terms that did not say yes", style="bold"), _build_counts(counted)]
    return Group(*parts)


def _build_counts(counted: Counter[str]) -> Table:
    """A term that is too long for its line goes on below itself, not below its count."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for text, count in counted.most_common():
        table.add_row(f"{count} x", text)
    return table


def _costs(selector: Selector, cost: ControllerCost | None) -> list[RenderableType]:
    estimate = Text(f"estimated cost {selector.max_cost} of at most 1000000", style="dim")
    if cost is None or not cost.evaluations:
        return [estimate]
    if cost.refusal:
        return [estimate, Text(f"gpu-dra controller refuses it: {cost.refusal}", style="bold")]
    devices = "one device" if cost.evaluations == 1 else f"{cost.evaluations} devices"
    return [estimate, Text(f"cost for gpu-dra controller: {cost.units:,} units on {devices} that differ for it", style="dim")]


_WORDS: dict[bool | str, tuple[str, str]] = {True: ("yes", "green"), False: ("no", ""), "evaluation_error": ("fails", "red")}


def _why(answer: Answer) -> str:
    if answer["result"] is True:
        return ""
    reasons = ["; ".join(filter(None, (_term(term), term["hint"]))) for term in answer["terms"]]
    return "; ".join(reasons) or answer["message"]


def _term(term: Answer) -> str:
    return f"{term['term']}: {term['message']}" if term["message"] else str(term["term"])
