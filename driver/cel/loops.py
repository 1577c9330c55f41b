"""Macros at work: loops with an accumulator, local variables, and the quick forms of the common macros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from driver.cel.ast import Call, Fold, Ident, ListLiteral, Node
from driver.cel.equality import LISTS, MAPS
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.frame import PENDING, Failure
from driver.cel.kinds import no_overload
from driver.cel.lists import check_length
from driver.cel.steps import Run
from driver.cel.values import Map, MutableList, MutableMap


@dataclass(slots=True)
class Loop:
    """A loop's range and the slots of its variables. The accumulator's first value is computed when it is first read."""

    range: Run
    init: Run
    accumulator: int
    first: int
    second: int | None

    def read_accumulator(self, frame: Any) -> Any:
        """The accumulator's value; raises the error that it holds instead."""
        value = frame.slots[self.accumulator]
        if value is PENDING:
            value = self._start(frame)
            frame.slots[self.accumulator] = value
        if type(value) is Failure:
            raise value.error
        return value

    def _start(self, frame: Any) -> Any:
        try:
            value = self.init(frame)
        except EvaluationAborted:
            raise
        except EvaluationError as err:
            return Failure(err)
        if type(value) in LISTS and not value:
            return MutableList()
        if type(value) in MAPS and not value:
            return MutableMap()
        return value

    def rounds(self, frame: Any) -> Iterable[Any]:
        """What the loop goes through: one value a round, or two."""
        source = self.range(frame)
        kind = type(source)
        if kind not in LISTS and kind not in MAPS:
            raise no_overload("a macro", source)
        if self.second is not None:
            return list(source.items()) if kind in MAPS else enumerate(list(source))
        return source.keys() if kind in MAPS else list(source)


def _settle(value: Any) -> Any:
    """A gathered list or map can no longer change once the loop is over."""
    if type(value) is MutableList:
        return list(value)
    if type(value) is MutableMap:
        return Map(value.items())
    return value


def bind(loop: Loop, result: Run) -> Run:
    """A local variable."""

    def step(frame: Any) -> Any:
        frame.slots[loop.accumulator] = PENDING
        return _settle(result(frame))

    return step


def fold(loop: Loop, condition: Run | None, advance: Run, result: Run) -> Run:
    """The general loop. Without a condition it goes to the end."""

    def step(frame: Any) -> Any:
        rounds = loop.rounds(frame)
        slots = frame.slots
        slots[loop.accumulator] = PENDING
        for item in rounds:
            if loop.second is None:
                slots[loop.first] = item
            else:
                slots[loop.first], slots[loop.second] = item
            if condition is not None and not _goes_on(condition, frame):
                break
            try:
                slots[loop.accumulator] = advance(frame)
            except EvaluationAborted:
                raise
            except EvaluationError as err:
                slots[loop.accumulator] = Failure(err)
        return _settle(result(frame))

    return step


def _goes_on(condition: Run, frame: Any) -> bool:
    try:
        return condition(frame) is not False
    except EvaluationAborted:
        raise
    except EvaluationError:
        return True


def fold_quickly(loop: Loop, node: Fold, plan: Callable[[Node], Run]) -> Run | None:
    """The quick forms of all, exists, map and filter, where costs are not counted; None for other loops."""
    step = node.step
    if not isinstance(step, Call) or not isinstance(node.result, Ident):
        return None
    if step.function in ("_&&_", "_||_"):
        return _quantify(loop, plan(step.args[1]), decisive=step.function == "_||_")
    condition: Run | None = None
    if step.function == "_?_:_" and isinstance(step.args[1], Call):
        condition, step = plan(step.args[0]), step.args[1]
    if step.function == "_+_" and isinstance(step.args[1], ListLiteral) and isinstance(node.init, ListLiteral):
        return _gather(loop, condition, plan(step.args[1].elements[0]))
    return None


def _quantify(loop: Loop, predicate: Run, *, decisive: bool) -> Run:
    first, second, other = loop.first, loop.second, not decisive

    def step(frame: Any) -> bool:
        slots = frame.slots
        failure: EvaluationError | None = None
        for item in loop.rounds(frame):
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            try:
                value = predicate(frame)
            except EvaluationAborted:
                raise
            except EvaluationError as err:
                failure = failure or err
                continue
            if value is decisive:
                return bool(decisive)
            if value is not other:
                failure = failure or no_overload("a macro's condition", value)
        if failure is not None:
            raise failure
        return other

    return step


def _gather(loop: Loop, condition: Run | None, element: Run) -> Run:
    first, second = loop.first, loop.second

    def step(frame: Any) -> list[Any]:
        slots = frame.slots
        gathered: list[Any] = []
        for item in loop.rounds(frame):
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if condition is not None:
                is_taken = condition(frame)
                if is_taken is False:
                    continue
                if is_taken is not True:
                    raise no_overload("a macro's condition", is_taken)
            gathered.append(element(frame))
        check_length(len(gathered))
        return gathered

    return step
