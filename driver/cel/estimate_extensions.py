"""The estimated cost of extensions that bring rules for their own overloads: lists and sets."""

from __future__ import annotations

from collections.abc import Sequence

from driver.cel.costs import LIST_CREATION
from driver.cel.estimate_arguments import TEXT_FACTOR, Argument, Estimate, Rule
from driver.cel.intervals import MOST, ONE, Interval, add, exactly


def _allocating(factor: float, size: Interval) -> Estimate:
    return add(size.scaled(factor), ONE, exactly(LIST_CREATION)), size


def _slice(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    if target is None or len(args) != 2:
        return None
    length = (args[1].constant(target.size.most) - args[0].constant(0)) % (MOST + 1)
    return _allocating(1, exactly(length))


def _range(_target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    return _allocating(1, exactly(args[0].constant(MOST))) if len(args) == 1 else None


def _flatten(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    return _allocating(float(args[0].constant(MOST)) if args else 1.0, target.size)


def _distinct(target: Argument | None, _args: Sequence[Argument]) -> Estimate | None:
    return None if target is None else _allocating(2.0, target.size.times(target.size))


def _sort(name: str, *, is_by_key: bool) -> Rule:
    factor = 2.0 + (TEXT_FACTOR if name in ("string", "bytes") else 0.0)

    def rule(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
        node = args[0] if is_by_key else target
        return None if node is None else _allocating(factor, node.size.times(node.size))

    return rule


def _sets(factor: float) -> Rule:
    return lambda _target, args: (add(args[0].size.times(args[1].size).scaled(factor), ONE), None)


_COMPARABLE = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")
BY_OVERLOAD: dict[str, Rule] = {
    "list_slice": _slice,
    "lists_range": _range,
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_reverse": lambda target, _: None if target is None else _allocating(1, target.size),
    "list_distinct": _distinct,
    **{f"list_{name}_sort": _sort(name, is_by_key=False) for name in _COMPARABLE},
    **{f"list_{name}_sortByAssociatedKeys": _sort(name, is_by_key=True) for name in _COMPARABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
