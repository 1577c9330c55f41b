"""Selectors: compiled once, evaluated on many devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from driver.cel import types
from driver.cel.ast import Ident, Node, children
from driver.cel.checker import Checker
from driver.cel.costs import LIMIT
from driver.cel.device import DeviceView
from driver.cel.environment import Environment, Features
from driver.cel.errors import EvaluationError, SelectorError, SelectorRefused, Span
from driver.cel.estimate import estimate
from driver.cel.frame import Frame
from driver.cel.kinds import type_name
from driver.cel.parser import parse
from driver.cel.planner import Planner
from driver.cel.steps import Run
from driver.cel.types import TypeTooLarge
from driver.cel.validators import find_faults
from driver.cel.values import Optional

MOST_BYTES = 10 * 1024
"""The longest selector that the API server takes."""

DEFAULT_FEATURES = Features()
"""What Kubernetes has on unless somebody changes it."""

_QUICK_LIMIT = LIMIT // 4
"""Up to this estimate costs need not be counted: no evaluation comes near the limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one counted evaluation says: a match, or why there is none, and what it cost."""

    is_match: bool
    error: EvaluationError | None
    cost: int


class Selector:
    """A compiled selector. It has no state of its own, so threads can share it.

    ``result_type`` is the type as Kubernetes names it, ``max_cost`` its estimate of the highest cost of an evaluation.
    """

    __slots__ = (
        "_counted",
        "_owns_quantities",
        "_run",
        "_slot_count",
        "_takes_view",
        "features",
        "max_cost",
        "result_type",
        "root",
        "source",
    )

    def __init__(self, source: str, root: Node, environment: Environment) -> None:
        self.source = source
        self.features = environment.features
        self.result_type = root.type.full_name()
        self.max_cost = estimate(root, environment)
        self.root = root
        self._owns_quantities = _mentions_integers(root)
        is_quick = self.max_cost <= _QUICK_LIMIT and not self._owns_quantities
        self._run, self._slot_count = _plan(source, root, is_counted=not is_quick)
        self._takes_view = is_quick and not self._slot_count
        self._counted: tuple[Run, int] | None = None if is_quick else (self._run, self._slot_count)

    def matches(self, view: DeviceView) -> bool:
        """Whether the selector takes the device.

        Raises:
            EvaluationError: it has no answer for this device; kube-scheduler would give up the whole pod.
        """
        if view.fault:
            raise EvaluationError(view.fault)
        result = self._run(view if self._takes_view else self._frame(view, self._slot_count))
        if result is True or result is False:
            return bool(result)
        return as_bool(result)

    def _frame(self, view: DeviceView, slot_count: int, limit: int = LIMIT) -> Frame:
        frame = Frame(view, slot_count, limit=limit)
        if self._owns_quantities:
            frame.own_quantities()
        return frame

    def answer(self, view: DeviceView, *, limit: int = LIMIT) -> Answer:
        """As ``matches``, with the cost of the evaluation as Kubernetes counts it; ended where it passes ``limit``. Slower."""
        if view.fault:
            return Answer(is_match=False, error=EvaluationError(view.fault), cost=0)
        if self._counted is None:
            self._counted = _plan(self.source, self.root, is_counted=True)
        run, slot_count = self._counted
        frame = self._frame(view, slot_count, limit)
        try:
            return Answer(is_match=as_bool(run(frame)), error=None, cost=frame.cost)
        except EvaluationError as err:
            return Answer(is_match=False, error=err, cost=frame.cost)


def compile_selector(source: str, *, features: Features = DEFAULT_FEATURES) -> Selector:
    """Compile a selector as Kubernetes does when a request or a class that has it is written.

    Raises:
        SelectorError: Kubernetes would not compile it.
    """
    # A lone surrogate cannot come over the API, which carries UTF-8.
    source = source.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    environment = _environment(features)
    try:
        root = parse(source)
        checker = Checker(environment)
        checker.check(root)
        if checker.faults:
            raise SelectorError(source, checker.faults)
        faults = find_faults(root)
        if faults:
            raise SelectorError(source, faults)
        if not (root.type.is_same(types.BOOL) or root.type is environment.attribute):
            text = f"a selector must be of type bool or of an attribute's type, and this one is {root.type.short_name()}"
            raise SelectorError(source, [(Span(0), text)])
        _refuse_unusable_names(source, root)
        return Selector(source, root, environment)
    except TypeTooLarge:
        raise SelectorError(source, [(Span(0), "the type of a part of this selector is too large")]) from None


def check_admission(selector: Selector) -> None:
    """What the API server checks beyond compiling, when an object with the selector is written.

    Raises:
        SelectorRefused: it would refuse the object.
    """
    size = len(selector.source.encode())
    if size > MOST_BYTES:
        raise SelectorRefused(f"the selector has {size} bytes; the API server takes at most {MOST_BYTES}")
    if selector.max_cost > LIMIT:
        raise SelectorRefused(
            f"the selector may cost {selector.max_cost} to evaluate, and the API server takes at most {LIMIT}: "
            "look at what it loops over or compares, or bound strings by comparing them with =="
        )


def as_bool(result: Any) -> bool:
    """The answer in a result; an optional one counts as what it holds."""
    while type(result) is Optional and result.has_value:
        result = result.value
    if type(result) is not bool:
        raise EvaluationError(f"the selector's result is of type {type_name(result)}, not bool")
    return result


@lru_cache(maxsize=8)
def _environment(features: Features) -> Environment:
    return Environment(features)


def _plan(source: str, root: Node, *, is_counted: bool) -> tuple[Run, int]:
    planner = Planner(source, is_counted=is_counted)
    return planner.plan(root).run, planner.slot_count


def _nodes(root: Node) -> list[Node]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(children(node))
    return found


def _mentions_integers(root: Node) -> bool:
    return any(getattr(node, "function", "") in ("isInteger", "asInteger") for node in _nodes(root))


def _refuse_unusable_names(source: str, root: Node) -> None:
    """Some types are known to the checker and to nobody else."""
    for node in _nodes(root):
        name = getattr(node, "ident", None) or node
        if isinstance(name, Ident) and name.is_global and not name.is_constant and name.name != "device":
            raise SelectorError(source, [(Span(name.start), f"the type {name.name} cannot be used as a value")])
