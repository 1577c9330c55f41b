"""Which functions there are, with which arguments: the language itself and its standard functions.

A line is ``function overload(arguments) result``; a dot before the overload makes it a method, whose first argument is the
value before the dot. One-letter upper-case names are type parameters. The order of overloads is the order of dispatch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from driver.cel import types
from driver.cel.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One way to call a function."""

    function: str
    id: str
    is_method: bool
    args: tuple[Type, ...]
    result: Type
    parameters: tuple[str, ...]


_NAMES = {
    "any": types.ANY,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "int": types.INT,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint": types.UINT,
    "Quantity": types.QUANTITY,
    "Semver": types.SEMVER,
    "URL": types.URL,
    "NamedFormat": types.NAMED_FORMAT,
    "IP": types.IP,
    "CIDR": types.CIDR,
}
_AUTHORIZATION = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
_NAMES |= {name: types.struct(f"kubernetes.authorization.{name}") for name in _AUTHORIZATION}
_CONTAINERS: dict[str, Callable[..., Type]] = {
    "list": types.list_of,
    "map": types.map_of,
    "optional": types.optional_of,
    "type": types.type_of,
}
_LINE = re.compile(r"(\S+) (\.?)([^(\s]+)\((.*)\) (\S+)")


@cache
def parse_type(text: str) -> Type:
    """A type as the tables write it."""
    name, bracket, inner = text.partition("(")
    if bracket:
        return _CONTAINERS[name](*map(parse_type, _split(inner[:-1], ",")))
    return types.parameter(name) if len(name) == 1 else _NAMES[name]


def _split(text: str, separator: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == separator and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


def parse_signatures(table: str) -> list[Overload]:
    """The overloads of a table, in its order."""
    overloads = []
    for line in filter(None, map(str.strip, table.splitlines())):
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"no signature: {line}")
        function, dot, overload_id, args, result = found.groups()
        parameters = tuple(sorted(set(re.findall(r"\b[A-Z]\b", args + " " + result))))
        arg_types = tuple(map(parse_type, _split(args, " ")))
        overloads.append(Overload(function, overload_id, bool(dot), arg_types, parse_type(result), parameters))
    return overloads


_ORDERED = (
    ("_<=_", "less_equals"),
    ("_<_", "less"),
    ("_>=_", "greater_equals"),
    ("_>_", "greater"),
)
_PAIRS = (
    ("bool", "bool bool"),
    ("int64", "int int"),
    ("int64_double", "int double"),
    ("int64_uint64", "int uint"),
    ("uint64", "uint uint"),
    ("uint64_double", "uint double"),
    ("uint64_int64", "uint int"),
    ("double", "double double"),
    ("double_int64", "double int"),
    ("double_uint64", "double uint"),
    ("string", "string string"),
    ("bytes", "bytes bytes"),
    ("timestamp", "timestamp timestamp"),
    ("duration", "duration duration"),
)
_COMPARISONS = "\n".join(f"{operator} {name}_{suffix}({args}) bool" for operator, name in _ORDERED for suffix, args in _PAIRS)

OPERATORS = f"""
!_ logical_not(bool) bool
-_ negate_double(double) double
-_ negate_int64(int) int
@in in_list(A list(A)) bool
@in in_map(A map(A,B)) bool
@not_strictly_false not_strictly_false(bool) bool
_!=_ not_equals(A A) bool
_==_ equals(A A) bool
_&&_ logical_and(bool bool) bool
_||_ logical_or(bool bool) bool
_?_:_ conditional(bool A A) A
_%_ modulo_int64(int int) int
_%_ modulo_uint64(uint uint) uint
_*_ multiply_double(double double) double
_*_ multiply_int64(int int) int
_*_ multiply_uint64(uint uint) uint
_+_ add_bytes(bytes bytes) bytes
_+_ add_double(double double) double
_+_ add_duration_duration(duration duration) duration
_+_ add_duration_timestamp(duration timestamp) timestamp
_+_ add_timestamp_duration(timestamp duration) timestamp
_+_ add_int64(int int) int
_+_ add_list(list(A) list(A)) list(A)
_+_ add_string(string string) string
_+_ add_uint64(uint uint) uint
_-_ subtract_double(double double) double
_-_ subtract_duration_duration(duration duration) duration
_-_ subtract_int64(int int) int
_-_ subtract_timestamp_duration(timestamp duration) timestamp
_-_ subtract_timestamp_timestamp(timestamp timestamp) duration
_-_ subtract_uint64(uint uint) uint
_/_ divide_double(double double) double
_/_ divide_int64(int int) int
_/_ divide_uint64(uint uint) uint
_?._ select_optional_field(dyn string) optional(V)
_[?_] list_optindex_optional_int(list(V) int) optional(V)
_[?_] optional_list_optindex_optional_int(optional(list(V)) int) optional(V)
_[?_] map_optindex_optional_value(map(K,V) K) optional(V)
_[?_] optional_map_optindex_optional_value(optional(map(K,V)) K) optional(V)
_[_] index_list(list(A) int) A
_[_] index_map(map(A,B) A) B
_[_] optional_list_index_int(optional(list(V)) int) optional(V)
_[_] optional_map_index_value(optional(map(K,V)) K) optional(V)
{_COMPARISONS}
"""

_TIMES = "\n".join(
    f"{function} .{name}(timestamp) int\n{function} .{name}{tz}(timestamp string) int"
    + (f"\n{function} .duration{name.removeprefix('timestamp')}(duration) int" if has_duration else "")
    for function, name, tz, has_duration in (
        ("getFullYear", "timestamp_to_year", "_with_tz", False),
        ("getMonth", "timestamp_to_month", "_with_tz", False),
        ("getDayOfYear", "timestamp_to_day_of_year", "_with_tz", False),
        ("getDayOfMonth", "timestamp_to_day_of_month", "_with_tz", False),
        ("getDate", "timestamp_to_day_of_month_1_based", "_with_tz", False),
        ("getDayOfWeek", "timestamp_to_day_of_week", "_with_tz", False),
        ("getHours", "timestamp_to_hours", "_with_tz", True),
        ("getMinutes", "timestamp_to_minutes", "_with_tz", True),
        ("getSeconds", "timestamp_to_seconds", "_tz", True),
        ("getMilliseconds", "timestamp_to_milliseconds", "_with_tz", True),
    )
)

STANDARD = f"""
size size_bytes(bytes) int
size .bytes_size(bytes) int
size size_list(list(A)) int
size .list_size(list(A)) int
size size_map(map(A,B)) int
size .map_size(map(A,B)) int
size size_string(string) int
size .string_size(string) int
type type(A) type(A)
dyn to_dyn(A) dyn
bool bool_to_bool(bool) bool
bool string_to_bool(string) bool
bytes bytes_to_bytes(bytes) bytes
bytes string_to_bytes(string) bytes
double double_to_double(double) double
double int64_to_double(int) double
double string_to_double(string) double
double uint64_to_double(uint) double
duration duration_to_duration(duration) duration
duration string_to_duration(string) duration
int int64_to_int64(int) int
int double_to_int64(double) int
int duration_to_int64(duration) int
int string_to_int64(string) int
int timestamp_to_int64(timestamp) int
int uint64_to_int64(uint) int
string string_to_string(string) string
string bool_to_string(bool) string
string bytes_to_string(bytes) string
string double_to_string(double) string
string duration_to_string(duration) string
string int64_to_string(int) string
string timestamp_to_string(timestamp) string
string uint64_to_string(uint) string
string ip_to_string(IP) string
string cidr_to_string(CIDR) string
timestamp timestamp_to_timestamp(timestamp) timestamp
timestamp int64_to_timestamp(int) timestamp
timestamp string_to_timestamp(string) timestamp
uint uint64_to_uint64(uint) uint
uint double_to_uint64(double) uint
uint int64_to_uint64(int) uint
uint string_to_uint64(string) uint
contains .contains_string(string string) bool
endsWith .ends_with_string(string string) bool
startsWith .starts_with_string(string string) bool
matches matches(string string) bool
matches .matches_string(string string) bool
{_TIMES}
"""
