"""The estimated cost of calls, function by function."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driver.cel import types
from driver.cel.ast import Literal
from driver.cel.costs import LIST_CREATION, MESSAGE_CREATION
from driver.cel.estimate_arguments import REGEX_FACTOR, TEXT_FACTOR, Argument, Estimate, NamedRule, Rule
from driver.cel.estimate_extensions import BY_OVERLOAD
from driver.cel.intervals import MOST, ONE, ZERO, Interval, add, exactly
from driver.cel.types import Kind

_NAMED_FORMAT_REGEX_BYTES = 128
_NAMED_FORMAT_BYTES = 64


def estimate_call(function: str, overload: str, target: Argument | None, args: Sequence[Argument]) -> Estimate:
    """The cost of a call without its arguments', and the size of its result."""
    own = BY_OVERLOAD.get(overload)
    found = own(target, args) if own is not None else None
    if found is None and function in _BY_FUNCTION:
        found = _BY_FUNCTION[function](target, args, overload)
    if found is None and overload in _STANDARD:
        found = _STANDARD[overload](target, args)
    return found or (ONE, None)


# Kubernetes' libraries, by function


def _fixed(cost: int) -> NamedRule:
    return lambda _target, _args, _overload: (exactly(cost), None)


def _over_list(function: str) -> NamedRule:
    def rule(target: Argument | None, _args: Sequence[Argument], _overload: str) -> Estimate | None:
        if target is None:
            return None
        element = target.element()
        if element is None:
            return (target.size if function == "includes" else target.size.scaled(TEXT_FACTOR)), None
        cost = ONE
        if element.type.kind in (Kind.STRING, Kind.BYTES):
            cost = add(cost, element.size.scaled(TEXT_FACTOR))
        return target.size.times(cost), None

    return rule


def _first_argument(factor: float, *, is_result: bool = False) -> NamedRule:
    def rule(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
        return (args[0].size.scaled(factor), args[0].size if is_result else None) if args else None

    return rule


def _same_text(target: Argument | None, _args: Sequence[Argument], _overload: str) -> Estimate | None:
    return None if target is None else (target.size.scaled(TEXT_FACTOR), target.size)


def _selector(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if len(args) != 1:
        return None
    size = args[0].size
    each = size.scaled(0.5).scaled(LIST_CREATION + MESSAGE_CREATION)
    return add(exactly(LIST_CREATION), size.scaled(TEXT_FACTOR), each), None


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
    return size.scaled(2 * TEXT_FACTOR), result


def _split(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value % (MOST + 1)
    return target.size.scaled(2 * TEXT_FACTOR), Interval(0, most)


def _join(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None:
        return None
    element = target.element()
    size = ZERO if element is None else target.size.times(element.size)
    if args:
        between = Interval(max(0, target.size.least - 1), max(0, target.size.most - 1))
        size = size.plus(args[0].size.times(between))
    return size.scaled(TEXT_FACTOR), size


def _find(target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if target is None or not args:
        return None
    cost = target.size.plus(ONE).scaled(TEXT_FACTOR).times(args[0].size.scaled(REGEX_FACTOR))
    return cost, Interval(0, target.size.most)


_ADDRESS_BYTES = Interval(4, 16)


def _ip(target: Argument | None, args: Sequence[Argument], overload: str) -> Estimate | None:
    return (ONE, None) if overload == "cidr_ip" else _first_argument(TEXT_FACTOR)(target, args, overload)


def _contains(*, is_block: bool) -> NamedRule:
    def rule(_target: Argument | None, args: Sequence[Argument], overload: str) -> Estimate | None:
        if not args:
            return None
        cost = _ADDRESS_BYTES.plus(_ADDRESS_BYTES).scaled(TEXT_FACTOR)
        if is_block:
            cost = add(cost, _ADDRESS_BYTES.scaled(TEXT_FACTOR), ONE)
        if overload.endswith("_string"):
            cost = add(cost, args[0].size.scaled(TEXT_FACTOR))
        return cost, None

    return rule


def _validate(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    return (args[0].size.scaled(TEXT_FACTOR).scaled(_NAMED_FORMAT_REGEX_BYTES * REGEX_FACTOR), None) if args else None


_FREE_STRUCTS = (types.QUANTITY, types.SEMVER)


def _equals(_target: Argument | None, args: Sequence[Argument], _overload: str) -> Estimate | None:
    if len(args) != 2 or args[0].type.name != args[1].type.name:
        return None
    kind = args[0].type
    if kind in (types.IP, types.CIDR) or kind in _FREE_STRUCTS or kind.name.startswith("kubernetes.authorization."):
        return ONE, None
    if kind is types.NAMED_FORMAT:
        return Interval(1, _NAMED_FORMAT_BYTES).scaled(TEXT_FACTOR), None
    if kind is types.URL:
        size = args[1].known_size
        return Interval(1, 1 if size is None else size.most).scaled(TEXT_FACTOR), None
    return None


_BY_FUNCTION: dict[str, NamedRule] = {
    "check": _fixed(350_000),
    **dict.fromkeys(["serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"], _fixed(1)),
    **dict.fromkeys(["allowed", "reason", "error", "errored"], _fixed(1)),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **{name: _over_list(name) for name in ["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"]},
    "url": _first_argument(TEXT_FACTOR, is_result=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_text),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"], _first_argument(TEXT_FACTOR)),
    "ip": _ip,
    "ip.isCanonical": _first_argument(2 * TEXT_FACTOR),
    "containsIP": _contains(is_block=False),
    "containsCIDR": _contains(is_block=True),
    "validate": _validate,
    "_==_": _equals,
}


# the language itself, by overload


def _scan(_target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    return (args[0].size_inside.scaled(TEXT_FACTOR), None) if args else None


def _format(target: Argument | None, _args: Sequence[Argument]) -> Estimate | None:
    return None if target is None else (target.size_inside.scaled(TEXT_FACTOR), None)


def _to_bytes(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(TEXT_FACTOR), Interval(size.least, size.most * 4 % (MOST + 1))


def _to_text(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(TEXT_FACTOR), Interval(size.least // 4, size.most)


def _quote(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    size = args[0].size_inside
    return size.scaled(TEXT_FACTOR), Interval(size.least + 2, (size.most * 2 + 2) % (MOST + 1))


def _in_list(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    return args[1].size_inside.scaled(1), None


def _matches(target: Argument | None, args: Sequence[Argument]) -> Estimate:
    text, pattern = (args[0], args[1]) if target is None else (target, args[0])
    cost = text.size_inside.plus(ONE).scaled(TEXT_FACTOR)
    return cost.times(pattern.size_inside.scaled(REGEX_FACTOR)), None


def _contains_text(target: Argument | None, args: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    return target.size_inside.scaled(TEXT_FACTOR).times(args[0].size_inside.scaled(TEXT_FACTOR)), None


def _concatenate(*, is_list: bool) -> Rule:
    def rule(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
        size = args[0].size_inside.plus(args[1].size_inside)
        return (ONE if is_list else size.scaled(TEXT_FACTOR)), size

    return rule


def _compare(_target: Argument | None, args: Sequence[Argument]) -> Estimate:
    most = min(args[0].size_inside.most, args[1].size_inside.most)
    return Interval(int(most > 0), most).scaled(TEXT_FACTOR), None


_ORDERED = [f"{name}_{kind}" for name in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")]
_STANDARD: dict[str, Rule] = {
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
