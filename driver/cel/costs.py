"""What the call of a function costs while a selector runs, in Kubernetes' units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from driver.cel.equality import LISTS, MAPS
from driver.cel.network import Cidr, Ip
from driver.cel.quantity import Quantity
from driver.cel.semver import Semver
from driver.cel.urls import Url
from driver.cel.values import actual_size, actual_size_inside
from driver.cel.well_known_formats import NamedFormat

Cost = Callable[[Sequence[Any], Any], int]

LIMIT = 1_000_000
"""What one evaluation may cost."""

LIST_CREATION, MAP_CREATION, MESSAGE_CREATION = 10, 30, 40
_TEXT_FACTOR, _REGEX_FACTOR = 0.1, 0.25
_ONE = 1
_FREE_TO_COMPARE = (Quantity, Ip, Cidr, NamedFormat, Url, Semver)


def cost_of(function: str, overload: str) -> int | Cost:
    """The cost of a call: a number, or a function of arguments and result. The overload is empty if it is not known."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _STANDARD.get(overload, _ONE)


def needs_result(function: str, overload: str) -> bool:
    """Whether the cost depends on the result."""
    return function == "join" or overload in ("list_slice", "lists_range", "list_reverse")


def _up(size: float, factor: float) -> int:
    return math.ceil(size * factor)


def _first(factor: float) -> Cost:
    return lambda args, _: _up(actual_size(args[0]), factor)


def traversal(value: Any, known: dict[int, int] | None = None) -> int:
    """What it costs to go through all of a value. Lists that are in it many times over are gone through once."""
    kind = type(value)
    if kind is str:
        return int(len(value.encode(errors="replace")) * _TEXT_FACTOR)
    if kind is bytes:
        return int(len(value) * _TEXT_FACTOR)
    if kind not in LISTS and kind not in MAPS:
        return 1
    known = {} if known is None else known
    if id(value) not in known:
        parts = value if kind in LISTS else (part for entry in value.items() for part in entry)
        known[id(value)] = sum(traversal(part, known) for part in parts)
    return known[id(value)]


def _traversal(args: Sequence[Any], _: Any) -> int:
    return traversal(args[0]) if args else 0


def _regex(text_size: int, pattern_size: int) -> int:
    return _up(1.0 + text_size, _TEXT_FACTOR) * _up(pattern_size, _REGEX_FACTOR)


def _match(args: Sequence[Any], _: Any) -> int:
    return _regex(actual_size_inside(args[0]), actual_size_inside(args[1]))


def _validate(args: Sequence[Any], _: Any) -> int:
    if type(args[0]) is not NamedFormat:
        return 1
    return _regex(actual_size(args[1]), args[0].regex_size)


def _contains_ip(overload: str) -> Cost:
    def cost(args: Sequence[Any], _: Any) -> int:
        return _up(actual_size(args[0]) * 2, _TEXT_FACTOR) + (
            _up(actual_size(args[1]), _TEXT_FACTOR) if overload.endswith("_string") else 0
        )

    return cost


def _contains_block(overload: str) -> Cost:
    base = _contains_ip(overload)
    return lambda args, result: base(args, result) + _up(actual_size(args[0]), _TEXT_FACTOR) + 1


def _smaller(args: Sequence[Any], _: Any) -> int:
    return _up(min(actual_size_inside(args[0]), actual_size_inside(args[1])), _TEXT_FACTOR)


def _equals(args: Sequence[Any], result: Any) -> int:
    return 1 if type(args[0]) in _FREE_TO_COMPARE else _smaller(args, result)


def _both(args: Sequence[Any], _: Any) -> int:
    return _up(actual_size_inside(args[0]) + actual_size_inside(args[1]), _TEXT_FACTOR)


def _product(args: Sequence[Any], _: Any) -> int:
    return _up(actual_size_inside(args[0]), _TEXT_FACTOR) * _up(actual_size_inside(args[1]), _TEXT_FACTOR)


def _allocation(factor: float, size: int) -> int:
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + LIST_CREATION


def _self_compare(position: int) -> Cost:
    def cost(args: Sequence[Any], _: Any) -> int:
        items = args[position]
        if not items:
            return _allocation(2.0, 0)
        return _allocation(2.1 if type(items[0]) in (str, bytes) else 2.0, len(items) ** 2)

    return cost


def _flatten(args: Sequence[Any], _: Any) -> int:
    depth = args[1] if len(args) == 2 and type(args[1]) is int else 1
    return _allocation(float(depth), actual_size(args[0]))


def _sets(factor: int) -> Cost:
    return lambda args, _: 1 + actual_size(args[0]) * actual_size(args[1]) * factor


def _result_list(_: Sequence[Any], result: Any) -> int:
    return _allocation(1, actual_size(result))


COMPARABLE = (
    *("int", "uint", "double", "bool", "string", "bytes"),
    *("google.protobuf.Duration", "google.protobuf.Timestamp"),
)
_BY_OVERLOAD: dict[str, int | Cost] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _result_list),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _self_compare(0),
    **dict.fromkeys((f"list_{name}_sort" for name in COMPARABLE), _self_compare(0)),
    **dict.fromkeys((f"list_{name}_sortByAssociatedKeys" for name in COMPARABLE), _self_compare(1)),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_ip": 1,
    **{name: _contains_ip(name) for name in ("cidr_contains_ip_string", "cidr_contains_ip_ip")},
    **{name: _contains_block(name) for name in ("cidr_contains_cidr_string", "cidr_contains_cidr")},
}
_BY_FUNCTION: dict[str, int | Cost] = {
    "check": 350_000,
    **dict.fromkeys(
        ("fieldSelector", "labelSelector"),
        lambda args, _: (
            10 + _up(actual_size(args[1]), _TEXT_FACTOR) + _up(_up(actual_size(args[1]), 0.5), LIST_CREATION + MESSAGE_CREATION)
        ),
    ),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversal),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"), _first(_TEXT_FACTOR)
    ),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first(_TEXT_FACTOR)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * _TEXT_FACTOR)),
    "join": lambda _, result: _up(actual_size(result), 2 * _TEXT_FACTOR),
    **dict.fromkeys(("find", "findAll"), lambda args, _: _regex(actual_size(args[0]), actual_size(args[1]))),
    "containsIP": _contains_ip(""),
    "containsCIDR": _contains_block(""),
    "validate": _validate,
    "_==_": _equals,
}
_ORDERED = [f"{name}_{kind}" for name in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")]
_STANDARD: dict[str, int | Cost] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda args, _: _up(actual_size_inside(args[1]), _TEXT_FACTOR)),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda args, _: _up(actual_size_inside(args[0]), _TEXT_FACTOR),
    ),
    "in_list": lambda args, _: actual_size_inside(args[1]),
    **dict.fromkeys((*_ORDERED, "not_equals"), _smaller),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    **dict.fromkeys(("matches", "matches_string"), _match),
    "contains_string": _product,
}
