"""What Kubernetes refuses after types are right: wrong literals of times and patterns, mixed literals, formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from driver.cel import types
from driver.cel.ast import Call, ListLiteral, Literal, MapLiteral, Node, children
from driver.cel.conversions import timestamp_of_int
from driver.cel.errors import EvaluationError, Span
from driver.cel.formatting import parse_format
from driver.cel.regex import compile_pattern
from driver.cel.times import parse_duration, parse_timestamp
from driver.cel.types import Kind, Type

Fault = tuple[Span, str]

_EXEMPT = "format"


def find_faults(root: Node) -> list[Fault]:
    """All faults of a tree that has its types."""
    faults: list[Fault] = []
    for node, is_exempt in _walk(root, is_exempt=False):
        match node:
            case Call():
                faults += _check_argument(node)
                faults += _check_format(node)
            case ListLiteral() if not is_exempt:
                faults += _check_list(node)
            case MapLiteral() if not is_exempt:
                faults += _check_map(node)
    return faults


def _walk(node: Node, *, is_exempt: bool) -> Iterator[tuple[Node, bool]]:
    stack = [(node, is_exempt)]
    while stack:
        current, exempt = stack.pop()
        yield current, exempt
        inner = exempt or (isinstance(current, Call) and current.function == _EXEMPT)
        stack.extend((child, inner) for child in reversed(children(current)))


def _timestamp(value: object) -> object:
    return timestamp_of_int(value) if type(value) is int else parse_timestamp(str(value))


_LITERALS: dict[str, Callable[[object], object]] = {
    "duration": lambda value: parse_duration(str(value)),
    "timestamp": _timestamp,
    "matches": lambda value: compile_pattern(str(value)),
}


def _check_argument(node: Call) -> list[Fault]:
    check = _LITERALS.get(node.function)
    # The first argument, as Kubernetes does: of matches(text, pattern) it is the text that must be a pattern.
    if check is None or not node.args or not isinstance(node.args[0], Literal):
        return []
    try:
        check(node.args[0].value)
    except EvaluationError as err:
        return [(Span(node.args[0].start), str(err))]
    return []


def _element_type(node: Node, *, is_optional: bool) -> Type | None:
    """The type of an element; None for an optional one of which nothing is known, at which Kubernetes panics."""
    if not is_optional:
        return node.type
    return node.type.parameters[0] if node.type.parameters else None


def _compare(node: Node, wanted: Type, kind: Type | None) -> list[Fault]:
    if kind is None:
        return [(Span(node.start), "an optional element must be known to be an optional value")]
    if wanted.is_same(kind, by_name=False):
        return []
    return [(Span(node.start), f"this must be of type {wanted.short_name()} as those before it, and is {kind.short_name()}")]


def _check_list(node: ListLiteral) -> list[Fault]:
    wanted: Type | None = None
    for index, element in enumerate(node.elements):
        kind = _element_type(element, is_optional=index in node.optional)
        faults = _compare(element, wanted or kind or types.DYN, kind)
        if faults:
            return faults
        wanted = wanted or kind
    return []


def _check_map(node: MapLiteral) -> list[Fault]:
    faults: list[Fault] = []
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        kind = _element_type(entry.value, is_optional=entry.is_optional)
        faults += _compare(entry.key, key or entry.key.type, entry.key.type)
        faults += _compare(entry.value, value or kind or types.DYN, kind)
        key, value = key or entry.key.type, value or kind
    return faults


_NUMBERS = (Kind.INT, Kind.UINT)
_ALLOWED: dict[str, tuple[Kind, ...]] = {
    "s": (
        *(Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING),
        *(Kind.TIMESTAMP, Kind.BYTES, Kind.DURATION, Kind.TYPE, Kind.NULL),
    ),
    "d": _NUMBERS,
    "f": (Kind.DOUBLE, Kind.STRING),
    "e": (Kind.DOUBLE, Kind.STRING),
    "b": (*_NUMBERS, Kind.BOOL),
    "x": (*_NUMBERS, Kind.STRING, Kind.BYTES),
    "X": (*_NUMBERS, Kind.STRING, Kind.BYTES),
    "o": _NUMBERS,
}


def _check_format(node: Call) -> list[Fault]:  # noqa: PLR0911 - one for each fault
    """A format that is a constant, with a list of arguments that is written out."""
    if node.function != "format" or node.overloads != ("string_format",) or len(node.args) != 1:
        return []
    target, args = node.target, node.args[0]
    if not isinstance(target, Literal) or not isinstance(args, ListLiteral):
        return []
    used = 0
    try:
        for clause in parse_format(str(target.value)):
            if not clause.verb:
                continue
            if used >= len(args.elements):
                return [(Span(node.start), f"the format has no argument {used}")]
            wrong = _find_wrong(args.elements[used], clause.verb)
            if wrong is not None:
                return [(Span(wrong.start), f"%{clause.verb} cannot format a value of type {wrong.type.short_name()}")]
            used += 1
    except EvaluationError as err:
        return [(Span(target.start), str(err))]
    if len(args.elements) > used:
        return [(Span(node.start), f"the format takes {used} arguments, and is given {len(args.elements)}")]
    return []


def _find_wrong(node: Node, verb: str) -> Node | None:
    """The part of an argument that the verb cannot format."""
    if node.type is not types.DYN and node.type.kind not in _ALLOWED[verb]:
        return node
    if verb != "s" or not isinstance(node, ListLiteral | MapLiteral):
        return None
    return next((wrong for part in children(node) if (wrong := _find_wrong(part, verb)) is not None), None)
