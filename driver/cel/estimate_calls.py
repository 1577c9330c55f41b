"""The estimated cost of calls, function by function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.cel import types
from driver.cel.ast import Literal, Node
from driver.cel.costs import LIST_CREATION, MESSAGE_CREATION
from driver.cel.estimate_sizes import DeviceSizes
from driver.cel.intervals import MOST, ONE, UNKNOWN, ZERO, Interval, add, exactly
from driver.cel.types import Kind, Type

Estimate = tuple[Interval, Interval | None]
"""Cost, and the size of the result."""

_TEXT, _REGEX = 0.1, 0.25
_NAMED_FORMAT_REGEX_BYTES = 128
_NAMED_FORMAT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, with what is known of its size."""

    node: Node | None
    type: Type
    path: tuple[str, ...]
    known_size: Interval | None
    device: DeviceSizes

    @property
    def size(self) -> Interval:
        """The size, or that it can be anything."""
        return self.known_size or self.device.size(self.path) or UNKNOWN

    @property
    def size_inside(self) -> Interval:
        """As ``size``, without a look at the path."""
        return self.known_size or UNKNOWN

    def element(self) -> Argument | None:
        """What the list holds; None if it is no list (or any other type with parameters)."""
        if not self.type.parameters:
            return None
        path = (*self.path, "@items") if self.path else ()
        return Argument(None, self.type.parameters[0], path, None, self.device)

    def constant(self, otherwise: int) -> int:
        """The number that the argument is, at least 0."""
        if isinstance(self.node, Literal) and type(self.node.value) is int:
            return max(0, self.node.value)
        return otherwise


def estimate_call(function: str, overload: str, target: Argument | None, args: Sequence[Argument]) -> Estimate:
    """The cost of a call without its arguments', and the size of its result."""
    own = _BY_OVERLOAD.get(overload)
    found = own(target, args) if own is not None else None
    if found is None and function in _BY_FUNCTION:
        found = _BY_FUNCTION[function](target, args, overload)
    if found is None and overload in _STANDARD:
        found = _STANDARD[overload](target, args)
    return found or (ONE, None)


_Rule = Callable[[Argument | None, Sequence[Argument]], Estimate | None]
_NamedRule = Callable[[Argument | None, Sequence[Argument], str], Estimate | None]


# Kubernetes' libraries, by function


def _fixed(cost: int) -> _NamedRule:
    return lambda _target, _args, _overload: (exactly(cost), None)


def _over_list(function: str) -> _NamedRule:
    def rule(target: Argument | None, _args: Sequence[Argument], _overload: str) -> Estimate | None:
        if target is None:
            return None
        element = target.element()
        if element is None:
            return (target.size if function == "includes" else target.size.scaled(_TEXT)), None
        cost = ONE
        if element.type.kind in (Kind.STRING, Kind.BYTES):
            cost = add(cost, element.size.scaled(_TEXT))
        return target.size.times(cost), None

    return rule


def _first_argument(factor: float, *, is_result: bool = False) -> _NamedRule:
    def rule(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
        return (args[0].size.scaled(factor), args[0].size if is_result else None) if args else None

    return rule


def _same_text(target: Argument | None, _args: Sequence[Argument], _overload: str) -> Estimate | None:
    return None if target is None else (target.size.scaled(_TEXT), target.size)


def _selector(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if len(args) != 1:
        return None
    size = args[0].size
    each = size.scaled(0.5).scaled(LIST_CREATION + MESSAGE_CREATION)
    return add(exactly(LIST_CREATION), size.scaled(_TEXT), each), None


def _replace(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    if old.least == 0:
        most = (min(size.most + 1, MOST), size.most)
    elif new.most <= old.least:
        most = (0, size.most)
    else:
        most = (math.ceil(float(size.most) / float(old.least)), 0)
    if old.most == 0:
        least = (min(size.least + 1, MOST), size.least)
    elif old.most <= new.least:
        least = (0, size.least)
    else:
        least = (math.ceil(float(size.least) / float(old.most)), 0)
    result = Interval(least[0], min(most[0], MOST)).times(new).plus(Interval(least[1], most[1]))
    return size.scaled(2 * _TEXT), result


def _split(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value % (MOST + 1)
    return target.size.scaled(2 * _TEXT), Interval(0, most)


def _join(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None:
        return None
    element = target.element()
    size = ZERO if element is None else target.size.times(element.size)
    if args:
        between = Interval(max(0, target.size.least - 1), max(0, target.size.most - 1))
        size = size.plus(args[0].size.times(between))
    return size.scaled(_TEXT), size


def _find(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None or not args:
        return None
    cost = target.size.plus(ONE).scaled(_TEXT).times(args[0].size.scaled(_REGEX))
    return cost, Interval(0, target.size.most)


_ADDRESS_BYTES = Interval(4, 16)


def _ip(target: Argument | None, args: Sequence[Argument], overload: str) -> Estimate | None:
    return (ONE, None) if overload == "cidr_ip" else _first_argument(_TEXT)(target, args, overload)


def _contains(*, is_block: bool) -> _NamedRule:
    def rule(_target: Argument | None, args: Sequence[Argument], overload: str) -> Estimate | None:
        if not args:
            return None
        cost = _ADDRESS_BYTES.plus(_ADDRESS_BYTES).scaled(_TEXT)
        if is_block:
            cost = add(cost, _ADDRESS_BYTES.scaled(_TEXT), ONE)
        if overload.endswith("_string"):
            cost = add(cost, args[0].size.scaled(_TEXT))
        return cost, None

    return rule


def _validate(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    return (args[0].size.scaled(_TEXT).scaled(_NAMED_FORMAT_REGEX_BYTES * _REGEX), None) if args else None


_FREE_STRUCTS = (types.QUANTITY, types.SEMVER)


def _equals(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if len(args) != 2 or args[0].type.name != args[1].type.name:
        return None
    kind = args[0].type
    if kind in (types.IP, types.CIDR) or kind in _FREE_STRUCTS or kind.name.startswith("kubernetes.authorization."):
        return ONE, None
    if kind is types.NAMED_FORMAT:
        return Interval(1, _NAMED_FORMAT_BYTES).scaled(_TEXT), None
    if kind is types.URL:
        size = args[1].known_size
        return Interval(1, 1 if size is None else size.most).scaled(_TEXT), None
    return None


_BY_FUNCTION: dict[str, _NamedRule] = {
    "check": _fixed(350_000),
    **dict.fromkeys("serviceAccount path group resource subresource namespace name".split(), _fixed(1)),
    **dict.fromkeys("allowed reason error errored".split(), _fixed(1)),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **{name: _over_list(name) for name in "isSorted sum max min indexOf lastIndexOf includes".split()},
    "url": _first_argument(_TEXT, is_result=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_text),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys("cidr isIP isCIDR quantity isQuantity semver isSemver".split(), _first_argument(_TEXT)),
    "ip": _ip,
    "ip.isCanonical": _first_argument(2 * _TEXT),
    "containsIP": _contains(is_block=False),
    "containsCIDR": _contains(is_block=True),
    "validate": _validate,
    "_==_": _equals,
}


# extensions that bring rules for their own overloads


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


def _sort(name: str, *, is_by_key: bool) -> _Rule:
    factor = 2.0 + (_TEXT if name in ("string", "bytes") else 0.0)

    def rule(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
        node = args[0] if is_by_key else target
        return None if node is None else _allocating(factor, node.size.times(node.size))

    return rule


def _sets(factor: float) -> _Rule:
    return lambda _target, args: (add(args[0].size.times(args[1].size).scaled(factor), ONE), None)


_COMPARABLE = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")
_BY_OVERLOAD: dict[str, _Rule] = {
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


# the language itself, by overload


def _scan(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    return (args[0].size_inside.scaled(_TEXT), None) if args else None


def _format(target: Argument | None, _args: Sequence[Argument]) -> Estimate | None:
    return None if target is None else (target.size_inside.scaled(_TEXT), None)


def _to_bytes(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(_TEXT), Interval(size.least, size.most * 4 % (MOST + 1))


def _to_text(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(_TEXT), Interval(size.least // 4, size.most)


def _quote(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(_TEXT), Interval(size.least + 2, (size.most * 2 + 2) % (MOST + 1))


def _in_list(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    return args[1].size_inside.scaled(1), None


def _matches(target: Argument | None, args: Sequence[Argument]) -> Estimate:
    text, pattern = (args[0], args[1]) if target is None else (target, args[0])
    cost = text.size_inside.plus(ONE).scaled(_TEXT)
    return cost.times(pattern.size_inside.scaled(_REGEX)), None


def _contains_text(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    return target.size_inside.scaled(_TEXT).times(args[0].size_inside.scaled(_TEXT)), None


def _concatenate(*, is_list: bool) -> _Rule:
    def rule(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
        size = args[0].size_inside.plus(args[1].size_inside)
        return (ONE if is_list else size.scaled(_TEXT)), size

    return rule


def _compare(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    most = min(args[0].size_inside.most, args[1].size_inside.most)
    return Interval(int(most > 0), most).scaled(_TEXT), None


_ORDERED = [f"{name}_{kind}" for name in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")]
_STANDARD: dict[str, _Rule] = {
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quote,
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _scan),
    "in_list": _in_list,
    **dict.fromkeys(("matches", "matches_string"), _matches),
    "contains_string": _contains_text,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenate(is_list=False)),
    "add_list": _concatenate(is_list=True),
    **dict.fromkeys((*_ORDERED, "equals", "not_equals"), _compare),
}
