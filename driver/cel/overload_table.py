"""What each overload does. Arguments have the types of its signature when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driver.cel import arithmetic, conversions, lists, texts
from driver.cel.errors import EvaluationError
from driver.cel.formatting import format_text, quote_cel
from driver.cel.network import (
    Ip,
    is_global_unicast,
    is_link_local_multicast,
    is_link_local_unicast,
    is_loopback,
    parse_cidr,
    parse_ip,
)
from driver.cel.quantity import Quantity, parse_quantity
from driver.cel.regex import find, find_all, is_match
from driver.cel.semver import Semver, normalize_semver, parse_semver
from driver.cel.times import DURATION_PARTS, TIMESTAMP_PARTS, offset_of, parse_duration, parse_timestamp
from driver.cel.urls import is_url, parse_url, text_of
from driver.cel.values import INT_MAX, NONE, Duration, Map, MutableMap, Optional, Timestamp, Uint
from driver.cel.well_known_formats import FORMATS

Implementation = Callable[..., Any]


def _is(parse: Callable[..., Any]) -> Callable[..., bool]:
    def run(*args: Any) -> bool:
        try:
            parse(*args)
        except EvaluationError:
            return False
        return True

    return run


def _semver(text: str, is_normalized: Any = False) -> Semver:
    return parse_semver(normalize_semver(text) if is_normalized else text)


def _wrapped(value: int) -> int:
    return value if value <= INT_MAX else value - (1 << 64)


def _as_integer(value: Quantity) -> int:
    number = value.as_integer()
    if number is None:
        raise EvaluationError("the quantity is no 64-bit integer in Kubernetes' reading")
    return number


def _dereference(value: Optional) -> Any:
    if not value.has_value:
        raise EvaluationError("optional.none() has no value")
    return value.value


def _of_non_zero(value: Any) -> Optional:
    if type(value) is Optional or not hasattr(type(value), "__len__"):
        is_zero = value is None or value is False or (type(value) in (int, Uint, float) and value == 0)
        is_zero = is_zero or (type(value) is Duration and value.ns == 0)
        is_zero = is_zero or (type(value) is Timestamp and value.ns == _ZERO_TIME_NS)
        return NONE if is_zero else Optional(value)
    return Optional(value) if len(value) else NONE


_ZERO_TIME_NS = -62135596800 * 1_000_000_000


def _insert(target: Map, key: Any, value: Any) -> Map:
    if target.find(key) is not None:
        raise EvaluationError("the map has this key already")
    if type(target) is not MutableMap:
        target = Map(target.items())
    target.put(key, value)
    return target


def _insert_all(target: Map, update: Map) -> Map:
    for key, value in list(update.items()):
        target = _insert(target, key, value)
    return target


def _validate(named: Any, text: str) -> Optional:
    faults = named.faults(text)
    return Optional(faults) if faults else NONE


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _query(url: Any) -> Map:
    return Map(url.query_values().items())


def _extremes() -> dict[str, Implementation]:
    kinds = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
    zeros: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
    table: dict[str, Implementation] = {}
    for kind in kinds:
        table[f"list_{kind}_is_sorted_bool"] = lists.is_sorted
        table[f"list_{kind}_max_{kind}"] = lambda items: lists.extreme(items, 1)
        table[f"list_{kind}_min_{kind}"] = lambda items: lists.extreme(items, -1)
    for kind, zero in zeros.items():
        table[f"list_{kind}_sum_{kind}"] = lambda items, zero=zero: lists.add_up(items, zero)
    return table


def _part(function: str) -> dict[str, Implementation]:
    part = TIMESTAMP_PARTS[function]
    return {"": lambda value: part(value, 0), "tz": lambda value, zone: part(value, offset_of(zone, value))}


def _times() -> dict[str, Implementation]:
    from driver.cel.signatures_libraries import functions  # noqa: PLC0415 - only for the ids of these overloads

    table: dict[str, Implementation] = {}
    for function in TIMESTAMP_PARTS:
        for overload in functions(has_includes=True)[function]:
            if overload.id.startswith("duration"):
                table[overload.id] = DURATION_PARTS[function]
            else:
                table[overload.id] = _part(function)["tz" if len(overload.args) == 2 else ""]
    return table


_CONVERSIONS: dict[str, Implementation] = {
    "string_to_bool": conversions.bool_of_text,
    "string_to_bytes": conversions.bytes_of_text,
    "int64_to_double": float,
    "string_to_double": conversions.double_of_text,
    "uint64_to_double": float,
    "string_to_duration": parse_duration,
    "double_to_int64": conversions.int_of_double,
    "duration_to_int64": lambda value: value.ns,
    "string_to_int64": conversions.int_of_text,
    "timestamp_to_int64": lambda value: value.ns // 1_000_000_000,
    "uint64_to_int64": conversions.int_of_uint,
    "ip_to_string": str,
    "cidr_to_string": str,
    "int64_to_timestamp": conversions.timestamp_of_int,
    "string_to_timestamp": parse_timestamp,
    "double_to_uint64": conversions.uint_of_double,
    "int64_to_uint64": conversions.uint_of_int,
    "string_to_uint64": conversions.uint_of_text,
    **dict.fromkeys(("bool_to_string", "bytes_to_string", "double_to_string", "duration_to_string"), conversions.text_of),
    **dict.fromkeys(("int64_to_string", "timestamp_to_string", "uint64_to_string"), conversions.text_of),
    **{
        f"{name}_to_{name}": lambda value: value
        for name in ("bool", "bytes", "double", "duration", "int64", "string", "timestamp", "uint64")
    },
}
_TEXTS: dict[str, Implementation] = {
    "contains_string": lambda text, part: part in text,
    "ends_with_string": lambda text, part: text.endswith(part),
    "starts_with_string": lambda text, part: text.startswith(part),
    "string_char_at_int": texts.char_at,
    "string_find_string": lambda text, pattern: find(pattern, text),
    "string_find_all_string": lambda text, pattern: find_all(pattern, text, -1),
    "string_find_all_string_int": lambda text, pattern, most: find_all(pattern, text, most),
    "string_format": format_text,
    "string_index_of_string": texts.index_of,
    "string_index_of_string_int": texts.index_of,
    "list_join": texts.join,
    "list_join_string": texts.join,
    "string_last_index_of_string": texts.last_index_of,
    "string_last_index_of_string_int": texts.last_index_from,
    "string_lower_ascii": texts.lower_ascii,
    "string_replace_string_string": texts.replace,
    "string_replace_string_string_int": texts.replace,
    "string_split_string": texts.split,
    "string_split_string_int": texts.split,
    "strings_quote": quote_cel,
    "string_substring_int": texts.substring,
    "string_substring_int_int": texts.substring_range,
    "string_trim": texts.trim,
    "string_upper_ascii": texts.upper_ascii,
}
_LISTS: dict[str, Implementation] = {
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert_all,
    "list_distinct": lists.distinct,
    "list_flatten": lists.flatten,
    "list_flatten_int": lists.flatten,
    "list_a_index_of_int": lists.index_of,
    "list_a_last_index_of_int": lists.last_index_of,
    "lists_range": lists.range_to,
    "list_reverse": lambda items: items[::-1],
    "list_sets_contains_list": lists.has_all,
    "list_sets_equivalent_list": lambda one, other: lists.has_all(one, other) and lists.has_all(other, one),
    "list_sets_intersects_list": lists.has_any,
    "list_slice": lists.slice_of,
    "list_includes_dyn_dyn": lists.includes,
    "list_first": lambda items: Optional(items[0]) if items else NONE,
    "list_last": lambda items: Optional(items[-1]) if items else NONE,
    "optional_hasValue": lambda value: value.has_value,
    "optional_none": lambda: NONE,
    "optional_of": Optional,
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_unwrap": lists.unwrap,
    "optional_unwrapOpt": lists.unwrap,
    "optional_value": _dereference,
}
_NETWORK: dict[str, Implementation] = {
    "string_to_cidr": parse_cidr,
    "cidr_contains_cidr_string": lambda block, text: block.contains_block(parse_cidr(text)),
    "cidr_contains_cidr": lambda block, other: block.contains_block(other),
    "cidr_contains_ip_string": lambda block, text: block.contains(parse_ip(text).address),
    "cidr_contains_ip_ip": lambda block, other: block.contains(other.address),
    "ip_family": lambda value: value.address.version,
    "url_get_escaped_path": lambda url: text_of(url.escaped_path()),
    "url_get_host": lambda url: text_of(url.host),
    "url_get_hostname": lambda url: text_of(url.host_and_port()[0]),
    "url_get_port": lambda url: text_of(url.host_and_port()[1]),
    "url_get_query": _query,
    "url_get_scheme": lambda url: text_of(url.scheme),
    "string_to_ip": parse_ip,
    "cidr_ip": lambda block: Ip(block.address),
    "ip_is_canonical": lambda text: str(parse_ip(text)) == text,
    "is_cidr": _is(parse_cidr),
    "ip_is_global_unicast": lambda value: is_global_unicast(value.address),
    "is_ip": _is(parse_ip),
    "ip_is_link_local_multicast": lambda value: is_link_local_multicast(value.address),
    "ip_is_link_local_unicast": lambda value: is_link_local_unicast(value.address),
    "ip_is_loopback": lambda value: is_loopback(value.address),
    "is_url_string": is_url,
    "ip_is_unspecified": lambda value: value.address.is_unspecified,
    "cidr_masked": lambda block: block.masked(),
    "cidr_prefix_length": lambda block: block.prefix_length,
    "string_to_url": parse_url,
}
_KUBERNETES: dict[str, Implementation] = {
    "quantity_add": lambda one, other: one.add(other),
    "quantity_add_int": lambda one, number: one.add(Quantity(number)),
    "quantity_sub": lambda one, other: one.sub(other),
    "quantity_sub_int": lambda one, number: one.sub(Quantity(number)),
    "quantity_get_float": lambda value: value.as_float(),
    "quantity_get_int": _as_integer,
    "quantity_compare_to": lambda one, other: one.compare_and_settle(other),
    "quantity_is_greater_than": lambda one, other: one.compare_and_settle(other) > 0,
    "quantity_is_less_than": lambda one, other: one.compare_and_settle(other) < 0,
    "quantity_is_integer": lambda value: value.as_integer() is not None,
    "quantity_sign": lambda value: value.sign(),
    "is_quantity_string": _is(parse_quantity),
    "string_to_quantity": parse_quantity,
    "semver_compare_to": lambda one, other: one.compare(other),
    "semver_is_greater_than": lambda one, other: one.key > other.key,
    "semver_is_less_than": lambda one, other: one.key < other.key,
    "semver_major": lambda value: _wrapped(value.major),
    "semver_minor": lambda value: _wrapped(value.minor),
    "semver_patch": lambda value: _wrapped(value.patch),
    "is_semver_string": _is(_semver),
    "is_semver_string_bool": _is(_semver),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "format-named": _named,
    "format-validate": _validate,
    **{f"format.{name}": lambda value=value: value for name, value in FORMATS.items()},
}
IMPLEMENTATIONS: dict[str, Implementation] = {
    **_CONVERSIONS,
    **_TEXTS,
    **_LISTS,
    **_NETWORK,
    **_KUBERNETES,
    **_extremes(),
    **_times(),
}

SINGLETONS: dict[str, Implementation] = {
    "!_": arithmetic.invert,
    "-_": arithmetic.negate,
    "@in": arithmetic.is_in,
    "_%_": arithmetic.modulo,
    "_*_": arithmetic.multiply,
    "_+_": arithmetic.add,
    "_-_": arithmetic.subtract,
    "_/_": arithmetic.divide,
    "_<_": arithmetic.less,
    "_<=_": arithmetic.less_equals,
    "_>_": arithmetic.greater,
    "_>=_": arithmetic.greater_equals,
    "size": arithmetic.size,
    "type": arithmetic.type_of,
    "dyn": lambda value: value,
    "matches": lambda text, pattern: is_match(pattern, text),
    "sort": lambda items: lists.sort_by(items, items),
    "@sortByAssociatedKeys": lists.sort_by,
}
"""Functions whose overloads are one: they look at the values themselves."""
