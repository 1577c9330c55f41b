"""Why a selector does not take a device: the terms of a top-level ``&&``, one by one."""

from __future__ import annotations

from dataclasses import dataclass

from driver.cel.ast import Call, Node
from driver.cel.device import DeviceView
from driver.cel.errors import EvaluationError
from driver.cel.frame import Frame
from driver.cel.lexer import tokenize
from driver.cel.planner import Planner
from driver.cel.selector import Selector
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
        self._terms = [(text, *_plan(selector.source, node)) for text, node in zip(texts, nodes, strict=True)]

    def explain(self, view: DeviceView) -> list[TermAnswer]:
        """The answer of each term, in the order of the text."""
        return [_evaluate(text, run, slot_count, view) for text, run, slot_count in self._terms]


def split_terms(source: str) -> list[str]:
    """The text between the ``&&`` that stand in no bracket."""
    cuts, depth = [0], 0
    for token in tokenize(source):
        depth += (token.kind in _OPENERS) - (token.kind in _CLOSERS)
        if token.kind == "&&" and not depth:
            cuts += [token.start, token.start + 2]
    cuts.append(len(source))
    return [source[start:end].strip() for start, end in zip(cuts[::2], cuts[1::2], strict=True)]


def _plan(source: str, node: Node) -> tuple[Run, int]:
    planner = Planner(source, is_counted=True)
    return planner.plan(node).run, planner.slot_count


def _evaluate(text: str, run: Run, slot_count: int, view: DeviceView) -> TermAnswer:
    if view.fault:
        return TermAnswer(text, is_true=False, error=view.fault)
    frame = Frame(view, slot_count)
    frame.own_quantities()
    try:
        value = run(frame)
    except EvaluationError as err:
        return TermAnswer(text, is_true=False, error=str(err))
    if type(value) is not bool:
        return TermAnswer(text, is_true=False, error="the result is not bool")
    return TermAnswer(text, is_true=value)
