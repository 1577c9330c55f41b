"""Why a selector does not take a device: the terms of a top-level ``&&``, one by one."""

from __future__ import annotations

from dataclasses import dataclass

from driver.cel.ast import Call, Node
from driver.cel.device import DeviceView
from driver.cel.errors import EvaluationError
from driver.cel.frame import Frame
from driver.cel.kinds import type_name
from driver.cel.lexer import tokenize
from driver.cel.planner import Planner
from driver.cel.selector import Selector, as_bool
from driver.cel.steps import Run

_OPENERS, _CLOSERS = ("(", "[", "{"), (")", "]", "}")


@dataclass(frozen=True, slots=True)
class TermAnswer:
    """What a term says of a device: yes, no, or an error."""

    text: str
    is_true: bool
    error: str = ""


class Explainer:
    """The terms of a selector, each evaluated by itself."""

    def __init__(self, selector: Selector) -> None:
        root = selector.root
        texts = split_terms(selector.source)
        nodes: list[Node] = root.args if isinstance(root, Call) and root.function == "_&&_" else [root]
        if len(nodes) != len(texts):
            texts, nodes = [selector.source.strip()], [root]
        self._terms = [(text, _plan(selector.source, node)) for text, node in zip(texts, nodes, strict=True)]

    def explain(self, view: DeviceView) -> list[TermAnswer]:
        """The answer of each term, in the order of the text."""
        is_whole = len(self._terms) == 1
        return [_evaluate(text, plan, view, is_whole=is_whole) for text, plan in self._terms]


def split_terms(source: str) -> list[str]:
    """The text between the ``&&`` that stand in no bracket, without comments around it."""
    terms: list[str] = []
    depth, start, end = 0, -1, 0
    for token in tokenize(source):
        depth += (token.kind in _OPENERS) - (token.kind in _CLOSERS)
        if token.kind == "end" or (token.kind == "&&" and not depth):
            terms.append(source[max(start, 0) : end])
            start = -1
            continue
        start = token.start if start < 0 else start
        end = token.start + len(token.text)
    return terms


def _plan(source: str, node: Node) -> tuple[Run, int]:
    planner = Planner(source, is_counted=True)
    return planner.plan(node).run, planner.slot_count


def _evaluate(text: str, plan: tuple[Run, int], view: DeviceView, *, is_whole: bool) -> TermAnswer:
    if view.fault:
        return TermAnswer(text, is_true=False, error=view.fault)
    run, slot_count = plan
    frame = Frame(view, slot_count)
    frame.own_quantities()
    try:
        value = run(frame)
        # Only the result of the whole selector can be an optional.
        value = as_bool(value) if is_whole else value
    except EvaluationError as err:
        return TermAnswer(text, is_true=False, error=str(err))
    if type(value) is not bool:
        return TermAnswer(text, is_true=False, error=f"this term is of type {type_name(value)}, not bool")
    return TermAnswer(text, is_true=value)
