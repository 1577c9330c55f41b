"""The parts that a plan is put together from: closures over a frame, or over the device itself where that is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from driver.cel.costs import Cost
from driver.cel.equality import equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.kinds import no_overload, type_name
from driver.cel.lists import check_length
from driver.cel.quantity import Quantity
from driver.cel.values import Optional

Run = Callable[[Any], Any]


@dataclass(slots=True)
class Step:
    """A part of a plan. A constant has its value; so has what is only known, which Kubernetes would compute each time."""

    run: Run
    is_constant: bool = False
    value: Any = None
    is_known: bool = False


def constant(value: Any) -> Step:
    """A value that is known before any device is."""
    return Step(lambda _: value, is_constant=True, value=value)


def known(value: Any) -> Step:
    """A value that does not depend on the device, where costs are not counted."""
    if type(value) is Quantity:
        value.is_shared = True
    return Step(lambda _: value, value=value, is_known=True)


def charged(run: Run, cost: int) -> Run:
    """The same, at a cost that does not depend on values."""

    def step(frame: Any) -> Any:
        frame.charge(cost)
        return run(frame)

    return step


def all_of(terms: Sequence[Run], *, decisive: bool) -> Run:
    """``&&`` (decided by false) or ``||`` (by true): a decisive term absorbs the errors of others."""
    other = not decisive

    def step(frame: Any) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationAborted:
                raise
            except EvaluationError as err:
                failure = failure or err
                continue
            if value is other:
                continue
            if value is decisive:
                return bool(decisive)
            failure = failure or no_overload("&&" if other else "||", value)
        if failure is not None:
            raise failure
        return other

    return step


def required(run: Run, kinds: tuple[type, ...]) -> Run:
    """A value without which the whole evaluation ends at once."""

    def step(frame: Any) -> Any:
        try:
            value = run(frame)
        except EvaluationError as err:
            raise EvaluationAborted(str(err)) from err
        if type(value) not in kinds:
            raise EvaluationAborted(f"a value of type {type_name(value)} ends the evaluation here")
        return value

    return step


def call(function: Callable[..., Any], args: Sequence[Run]) -> Run:
    """A call without counting its cost."""
    if len(args) == 1:
        (only,) = args
        return lambda frame: function(only(frame))
    if len(args) == 2:
        first, second = args
        return lambda frame: function(first(frame), second(frame))
    return lambda frame: function(*[arg(frame) for arg in args])


@dataclass(frozen=True, slots=True)
class Price:
    """What a call costs, and when. ``is_late``: it depends on the result. ``is_lazy``: an error ends the arguments."""

    cost: int | Cost
    is_late: bool = False
    is_lazy: bool = False

    def of(self, values: Sequence[Any], result: Any) -> int:
        """The cost of one call."""
        return self.cost if isinstance(self.cost, int) else self.cost(values, result)


def counted_call(function: Callable[..., Any], args: Sequence[Run], price: Price) -> Run:
    """A call with its cost."""

    def step(frame: Any) -> Any:
        values, failure = _evaluate(args, frame, is_lazy=price.is_lazy)
        if failure is not None:
            if len(values) == len(args):
                frame.charge(price.of(values, failure))
            raise failure
        if not price.is_late:
            # Before the call: what costs more than is left must not even begin.
            frame.charge(price.of(values, None))
            return function(*values)
        try:
            result = function(*values)
        except EvaluationAborted:
            raise
        except EvaluationError as err:
            frame.charge(price.of(values, err))
            raise
        frame.charge(price.of(values, result))
        return result

    return step


def _evaluate(args: Sequence[Run], frame: Any, *, is_lazy: bool) -> tuple[list[Any], EvaluationError | None]:
    """The values of arguments, an error standing for one that has none, and the first error."""
    values: list[Any] = []
    failure: EvaluationError | None = None
    for arg in args:
        try:
            values.append(arg(frame))
        except EvaluationAborted:
            raise
        except EvaluationError as err:
            failure = failure or err
            values.append(err)
            if is_lazy:
                break
    return values, failure


def equals(one: Step, other: Step, *, is_negated: bool) -> Run:
    """``==`` and ``!=``, quick where one side is a constant text."""
    first, second = one.run, other.run
    if is_negated:
        return lambda frame: not not_equal_safe(first(frame), second(frame))
    if other.is_constant and type(other.value) in (str, bool):
        wanted, kind = other.value, type(other.value)

        def step(frame: Any) -> bool:
            value = first(frame)
            return bool(value == wanted) if type(value) is kind else equal(value, wanted)

        return step
    return lambda frame: equal(first(frame), second(frame))


def not_equal_safe(one: Any, other: Any) -> bool:
    """As ``equal``; ``!=`` answers true where ``==`` is an error."""
    try:
        return equal(one, other)
    except EvaluationAborted:
        raise
    except EvaluationError:
        return False


def build_list(elements: Sequence[Run], optional: frozenset[int]) -> Run:
    """A list literal."""
    if not optional:
        return lambda frame: [element(frame) for element in elements]

    def step(frame: Any) -> list[Any]:
        values: list[Any] = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional:
                if type(value) is not Optional:
                    raise EvaluationError("an optional element of a list must be an optional value")
                if not value.has_value:
                    continue
                value = value.value
            values.append(value)
        check_length(len(values))
        return values

    return step


def conditional(condition: Run, yes: Run, no: Run) -> Run:
    """``condition ? yes : no``."""

    def step(frame: Any) -> Any:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise no_overload("_?_:_", value)

    return step


def or_value(optional: Run, otherwise: Run, *, is_unwrapped: bool) -> Run:
    """``.orValue()`` (unwrapped) and ``.or()``."""

    def step(frame: Any) -> Any:
        value = optional(frame)
        if type(value) is not Optional:
            raise no_overload("orValue", value)
        if value.has_value:
            return value.value if is_unwrapped else value
        return otherwise(frame)

    return step
