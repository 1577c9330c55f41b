"""The rules of the random selectors: what an expression of a type may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hack.oracle.grammar import Generator

_STRINGS = (
    '""',
    '"a"',
    '"abc"',
    '"H100"',
    '"gpu.example.com"',
    '"1.2.3"',
    '"80Gi"',
    '"x,y"',
    '"10.0.0.1"',
    '"h\\u00e9"',
    '"12"',
    '"true"',
    '"1h"',
    "r'^[a-z]+$'",
)
_INTS = ("0", "1", "2", "3", "-1", "7", "9223372036854775807", "-9223372036854775808", "100")
_DOUBLES = ("0.0", "1.0", "2.5", "-1.5", "1e3", "3.0")
_UINTS = ("0u", "1u", "3u", "18446744073709551615u")
_QUANTITIES = ("1", "1.5Gi", "80Gi", "500m", "1e3", "-2Ki", "0", "1n", "9223372036854775808", "x")
_SEMVERS = ("1.2.3", "560.35.3", "9.0.0", "1.2.3-rc.1", "1.2.3+b", "1.2")
_DURATIONS = ("1h", "90m", "1.5s", "-1s", "0", "x")
_TIMESTAMPS = ("2024-05-01T12:00:00Z", "2024-12-31T23:59:59.5+02:00", "1970-01-01T00:00:00Z", "x")
_PATTERNS = ("'a'", "'^H'", "'[0-9]+'", "'('", "'.*'", "'(?i)h100'")

Rule = Callable[["Generator", int], str]


def _text(*options: str) -> list[Rule]:
    def rule(option: str) -> Rule:
        return lambda _generator, _depth: option

    return [rule(option) for option in options]


def _fill(*templates: str) -> list[Rule]:
    def rule(template: str) -> Rule:
        return lambda generator, depth: generator.fill(template, depth)

    return [rule(template) for template in templates]


EXTRARULES: dict[str, Rule] = {
    "attr": lambda generator, depth: generator.attribute(depth),
    "pattern": lambda generator, _: generator.pick(*_PATTERNS),
    "op": lambda generator, _: generator.pick("==", "!="),
    "order": lambda generator, _: generator.pick("<", "<=", ">", ">="),
    "number": lambda generator, depth: generator.of(generator.pick("int", "uint", "double"), depth),
    "digit": lambda generator, _: generator.pick("0", "1", "2", "5", "-1"),
}


def _common(kind: str) -> list[Rule]:
    return [
        *_fill(
            f"(<bool> ? <{kind}> : <{kind}>)", f"<optional_{kind}>.orValue(<{kind}>)" if kind in _OPTIONAL else f"(<{kind}>)"
        ),
        lambda generator, depth: generator.bind(depth, kind),
    ]


_OPTIONAL = ("int", "string", "bool")
_BOOL: list[Rule] = [
    *_fill("<bool> && <bool>", "<bool> || <bool>", "!<bool>", "(<bool> || <bool>) && <bool>", "<attr>", "<attr> <op> <int>"),
    *_fill(
        "<attr> <op> <string>", "<attr> <op> <attr>", "<attr> <order> <number>", "<number> <order> <number>", "<int> <op> <int>"
    ),
    *_fill(
        "<string> <op> <string>", "<double> <op> <double>", "<uint> <op> <uint>", "<bool> <op> <bool>", "<bytes> <op> <bytes>"
    ),
    *_fill("<string> <order> <string>", "<int> in <list_int>", "<string> in <list_string>", "<attr> in <list_string>"),
    *_fill("<list_int> <op> <list_int>", "<list_string> == <list_string>", "<map> <op> <map>", "<string> in <map>"),
    *_fill(
        "<string>.startsWith(<string>)",
        "<attr>.startsWith(<string>)",
        "<string>.contains(<string>)",
        "<attr>.contains(<string>)",
    ),
    *_fill(
        "<string>.endsWith(<string>)", "<string>.matches(<pattern>)", "<attr>.matches(<pattern>)", "<string>.matches(<string>)"
    ),
    *_fill("<quantity>.isGreaterThan(<quantity>)", "<quantity>.isLessThan(<quantity>)", "<quantity>.isInteger()"),
    *_fill(
        "<quantity> == <quantity>", "<semver> == <semver>", "<semver>.isLessThan(<semver>)", "<attr>.isGreaterThan(<semver>)"
    ),
    *_fill("<attr> == <semver>", "isQuantity(<string>)", "isSemver(<string>)", "isSemver(<string>, <bool>)", "isIP(<string>)"),
    *_fill("<list_int>.isSorted()", "sets.contains(<list_int>, <list_int>)", "sets.intersects(<list_string>, <list_string>)"),
    *_fill("sets.equivalent(<list_int>, <list_int>)", "<optional_int>.hasValue()", "<optional_string> == <optional_string>"),
    *_fill("<duration> <order> <duration>", "<timestamp> <order> <timestamp>", "<duration> == <duration>", "bool(<string>)"),
    *_fill("isURL(<string>)", "isCIDR(<string>)", "ip(<string>).isLoopback()", 'cidr("10.0.0.0/8").containsIP(<string>)'),
    *_fill(
        "has(<map>.a)",
        'has(device.attributes["gpu.example.com"].index)',
        "has(device.attributes.x.y)",
        "dyn(<int>) == <double>",
    ),
    *_fill("type(<int>) == int", "type(<attr>) == string", "format.dns1123Label().validate(<string>).hasValue()"),
    *[lambda generator, depth, name=name: generator.macro(depth, name) for name in ("all", "exists", "exists_one")],
    *[lambda generator, depth, name=name: generator.macro_two(depth, name) for name in ("all", "exists", "existsOne")],
    *_common("bool"),
]
RULES: dict[str, tuple[list[Rule], list[Rule]]] = {
    "bool": (_text("true", "false", 'device.attributes["gpu.example.com"].nvlink', "device.allowMultipleAllocations"), _BOOL),
    "int": (
        [*_text(*_INTS), lambda generator, _: generator.attribute(0)],
        [
            *_fill(
                "<int> + <int>",
                "<int> - <int>",
                "<int> * <int>",
                "<int> / <int>",
                "<int> % <int>",
                "-<int>",
                "(<int> + <attr>)",
            ),
            *_fill(
                "<string>.size()", "size(<list_int>)", "<list_string>.size()", "<map>.size()", "int(<string>)", "int(<double>)"
            ),
            *_fill("int(<uint>)", "<string>.indexOf(<string>)", "<string>.lastIndexOf(<string>)", "<list_int>[<digit>]"),
            *_fill(
                "<list_int>.sum()", "<list_int>.max()", "<list_int>.min()", "<list_int>.indexOf(<int>)", "<map>.a", '<map>["b"]'
            ),
            *_fill("<quantity>.asInteger()", "<quantity>.compareTo(<quantity>)", "<semver>.major()", "sign(<quantity>)"),
            *_fill("<duration>.getSeconds()", "<timestamp>.getHours()", "<timestamp>.getDayOfYear()", "<optional_int>.value()"),
            *_fill("int(<timestamp>)", "<string>.indexOf(<string>, <digit>)"),
            *_common("int"),
        ],
    ),
    "uint": (_text(*_UINTS), _fill("<uint> + <uint>", "<uint> * <uint>", "uint(<int>)", "uint(<double>)", "<uint> - <uint>")),
    "double": (
        _text(*_DOUBLES),
        _fill(
            "<double> + <double>", "<double> * <double>", "double(<int>)", "double(<string>)", "<quantity>.asApproximateFloat()"
        ),
    ),
    "string": (
        [*_text(*_STRINGS), *_text("device.driver", 'device.attributes["gpu.example.com"].productName')],
        [
            *_fill("<string> + <string>", "<string>.lowerAscii()", "<string>.upperAscii()", "<string>.trim()", "string(<int>)"),
            *_fill("<string>.substring(<digit>)", "<string>.substring(<digit>, <digit>)", "<string>.charAt(<digit>)"),
            *_fill(
                "<string>.replace(<string>, <string>)",
                "<list_string>.join(<string>)",
                "<list_string>.join()",
                "string(<double>)",
            ),
            *_fill(
                "string(<bool>)", "string(<bytes>)", "string(<duration>)", "string(<timestamp>)", "<string>.find(<pattern>)"
            ),
            *_fill(
                '"%s-%d".format([<string>, <int>])',
                '"%.2f".format([<double>])',
                '"%s".format([<list_int>])',
                "<list_string>[<digit>]",
            ),
            *_fill('"%x".format([<int>])', "strings.quote(<string>)", "(<attr> + <string>)", "<optional_string>.value()"),
            *_common("string"),
        ],
    ),
    "bytes": (_text('b"a"', 'b"\\xff"', 'b""'), _fill("bytes(<string>)", "<bytes> + <bytes>")),
    "list_int": (
        _text("[1, 2, 3]", "[]", "[1]", "[3, 1, 2]", "lists.range(3)"),
        [
            *_fill(
                "[<int>, <int>]",
                "[<int>]",
                "<list_int> + <list_int>",
                "<list_int>.sort()",
                "<list_int>.reverse()",
                "[?<optional_int>, 1]",
            ),
            *_fill(
                "<list_int>.distinct()",
                "<list_int>.slice(<digit>, <digit>)",
                "lists.range(<digit>)",
                "[<list_int>, <list_int>].flatten()",
            ),
            lambda generator, depth: generator.transform(depth, "int"),
        ],
    ),
    "list_string": (
        _text('["a", "b"]', "[]", '["H100", "A100"]', '["x"]'),
        [
            *_fill(
                "[<string>, <string>]",
                "<string>.split(<string>)",
                "<string>.split(<string>, <digit>)",
                "<list_string> + <list_string>",
            ),
            *_fill(
                "<list_string>.sort()", "<list_string>.reverse()", "<string>.findAll(<pattern>)", "<list_string>.distinct()"
            ),
            lambda generator, depth: generator.transform(depth, "string"),
        ],
    ),
    "list_double": (_text("[1.5, 2.5]", "[]", "[1.0]"), _fill("[<double>, <double>]", "<list_double> + <list_double>")),
    "map": (
        _text('{"a": 1}', "{}", '{"a": 1, "b": 2}'),
        _fill('{"a": <int>}', "{<string>: <int>}", '{?"a": <optional_int>}', "{<string>: <int>, <string>: <int>}"),
    ),
    "quantity": (
        [
            *_text(*[f'quantity("{text}")' for text in _QUANTITIES]),
            *_text('device.capacity["gpu.example.com"].memory', 'device.capacity["gpu.example.com"].multiprocessors'),
        ],
        _fill("quantity(<string>)", "<quantity>.add(<quantity>)", "<quantity>.sub(<quantity>)", "<quantity>.add(<int>)"),
    ),
    "semver": (_text(*[f'semver("{text}")' for text in _SEMVERS]), _fill("semver(<string>)", "semver(<string>, <bool>)")),
    "duration": (
        _text(*[f'duration("{text}")' for text in _DURATIONS]),
        _fill("<duration> + <duration>", "-<duration>", "<timestamp> - <timestamp>", "duration(<string>)"),
    ),
    "timestamp": (
        _text(*[f'timestamp("{text}")' for text in _TIMESTAMPS]),
        _fill("<timestamp> + <duration>", "timestamp(<int>)", "<timestamp> - <duration>"),
    ),
    "optional_int": (
        _text("optional.none()", "optional.of(1)"),
        [
            *_fill(
                "optional.of(<int>)", "optional.ofNonZeroValue(<int>)", "<list_int>[?<digit>]", "<map>.?a", "<map>[?<string>]"
            ),
            *_fill(
                "<optional_int>.or(<optional_int>)",
                "<optional_int>.optMap(o, o + 1)",
                "<list_int>.first()",
                "<list_int>.last()",
            ),
            *_fill('device.attributes["gpu.example.com"].?index', "<optional_int>.optFlatMap(o, optional.of(o))"),
        ],
    ),
    "optional_string": (
        _text("optional.none()", 'optional.of("a")'),
        _fill("optional.of(<string>)", "<list_string>[?<digit>]", 'device.attributes["gpu.example.com"].?productName'),
    ),
    "optional_bool": (
        _text("optional.none()", "optional.of(true)"),
        _fill("optional.of(<bool>)", "optional.ofNonZeroValue(<bool>)"),
    ),
}
