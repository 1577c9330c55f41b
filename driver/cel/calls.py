"""Which implementation a call gets: the one overload that it can mean, or a choice while the selector runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driver.cel.ast import Call
from driver.cel.costs import COMPARABLE
from driver.cel.equality import LISTS
from driver.cel.kinds import PYTHON_TYPES, is_of_type, no_overload
from driver.cel.overload_table import IMPLEMENTATIONS, SINGLETONS
from driver.cel.signatures import Overload
from driver.cel.signatures_libraries import functions, overloads_by_id
from driver.cel.types import LIST, Kind

CONVERSIONS = ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
REGEXES = ("matches", "find", "findAll")
PANICS: dict[str, tuple[int, tuple[type, ...]]] = {
    "list_distinct": (0, LISTS),
    "list_flatten_int": (1, (int,)),
    **{
        f"list_{name}_{suffix}": (position, LISTS)
        for name in COMPARABLE
        for suffix, position in (("sort", 0), ("sortByAssociatedKeys", 1))
    },
}
"""Overloads at which Kubernetes' evaluator panics, while it counts costs, if the argument at a place is of another type."""

_OPEN = (Kind.DYN, Kind.ANY, Kind.PARAM)


def overload_of(node: Call) -> str:
    """The one overload that a call can mean, or an empty text."""
    return node.overloads[0] if len(node.overloads) == 1 else ""


def is_chosen_late(node: Call) -> bool:
    """Whether the overload is chosen from the values, which then are evaluated only up to the first error."""
    if node.function in SINGLETONS or len(node.overloads) == 1:
        return overload_of(node) == "string_format"
    return len(functions(has_includes=True)[node.function]) > 1


def implementation_of(node: Call) -> Callable[..., Any]:
    """What to call with the values of target and arguments."""
    if node.function in SINGLETONS:
        if node.function == "matches":
            return _guarded(overloads_by_id()["matches"], SINGLETONS["matches"])
        if node.function in ("sort", "@sortByAssociatedKeys"):
            return _guard_lists(node.function, SINGLETONS[node.function])
        return SINGLETONS[node.function]
    known = overloads_by_id()
    if len(node.overloads) == 1:
        overload = known[node.overloads[0]]
        return _guarded(overload, IMPLEMENTATIONS.get(overload.id))
    return _choice(node.function, functions(has_includes=True)[node.function])


def _guard_lists(function: str, run: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*values: Any) -> Any:
        if not all(is_of_type(value, _ANY_LIST) for value in values):
            raise no_overload(function, *values)
        return run(*values)

    return checked


_ANY_LIST = overloads_by_id()["list_reverse"].args[0]


def _guarded(overload: Overload, run: Callable[..., Any] | None) -> Callable[..., Any]:
    """The implementation behind a check of the values' types."""
    if run is None:
        return _missing(overload.function)
    # What is in the list does not matter here: flatten() asks no more than that it is one.
    args = (LIST, *overload.args[1:]) if overload.function == "flatten" else overload.args
    if not args:
        return run
    plain = [PYTHON_TYPES.get(arg) for arg in args]
    if len(args) == 1 and plain[0]:
        return _one_guard(overload.function, run, plain[0])
    if len(args) == 2 and plain[0] and plain[1]:
        return _two_guards(overload.function, run, plain[0], plain[1])

    def checked(*values: Any) -> Any:
        if not all(map(is_of_type, values, args)):
            raise no_overload(overload.function, *values)
        return run(*values)

    return checked if any(arg.kind not in _OPEN for arg in args) else run


def _missing(function: str) -> Callable[..., Any]:
    def fail(*values: Any) -> Any:
        raise no_overload(function, *values)

    return fail


def _one_guard(function: str, run: Callable[..., Any], kinds: tuple[type, ...]) -> Callable[..., Any]:
    def checked(value: Any) -> Any:
        if type(value) not in kinds:
            raise no_overload(function, value)
        return run(value)

    return checked


def _two_guards(
    function: str, run: Callable[..., Any], first: tuple[type, ...], second: tuple[type, ...]
) -> Callable[..., Any]:
    def checked(one: Any, other: Any) -> Any:
        if type(one) not in first or type(other) not in second:
            raise no_overload(function, one, other)
        return run(one, other)

    return checked


def _choice(function: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    def choose(*values: Any) -> Any:
        for overload in overloads:
            run = IMPLEMENTATIONS.get(overload.id)
            if run is not None and len(overload.args) == len(values) and all(map(is_of_type, values, overload.args)):
                return run(*values)
        raise no_overload(function, *values)

    return choose
