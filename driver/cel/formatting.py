"""``"%s is %d".format([a, b])``, with what Kubernetes' version of it makes of numbers: thousands have commas, %e is no C."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

from driver.cel.conversions import TO_TEXT, text_of
from driver.cel.equality import LISTS, MAPS
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.kinds import type_name
from driver.cel.times import format_duration, format_timestamp
from driver.cel.values import Duration, Timestamp, Uint

MOST_CHARACTERS = 10_000_000
"""Beyond this a text is not built: its cost would be beyond the limit too."""

_VERB = re.compile(r"%(?:(\.)([0-9]*))?(.?)", re.DOTALL)
_MOST_PRECISION = 1_000_000
_SUPERSCRIPTS = str.maketrans("0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b")
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'}


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a format: text, or a verb with its precision."""

    text: str
    verb: str = ""
    precision: int | None = None


def parse_format(source: str) -> Iterator[Clause]:
    """The parts of a format, in order.

    Raises:
        EvaluationError: a clause that is none; what came before was yielded.
    """
    position = 0
    while position < len(source):
        mark = source.find("%", position)
        if mark < 0:
            yield Clause(source[position:])
            return
        if mark > position:
            yield Clause(source[position:mark])
        if source.startswith("%%", mark):
            yield Clause("%")
            position = mark + 2
            continue
        found = _VERB.match(source, mark)
        assert found is not None  # noqa: S101 - the pattern matches every percent sign
        point, digits, verb = found.groups()
        if verb not in tuple("sdfebxXo") or (point and (not digits or len(digits) > 18)):
            raise EvaluationError(f"{found.group()[:20]!r} is no clause of a format; there are %s %d %f %e %b %x %X %o")
        yield Clause("", verb, int(digits) if point else None)
        position = found.end()


def format_text(source: str, args: list[Any]) -> str:
    """The text of a format with its arguments.

    Raises:
        EvaluationError: a wrong clause, an argument of the wrong type, or too few of them.
    """
    parts: list[str] = []
    size = used = 0
    for clause in parse_format(source):
        text = clause.text
        if clause.verb:
            if used >= len(args):
                raise EvaluationError(f"the format has no argument {used}")
            text = _FORMATTERS[clause.verb](args[used], clause)
            used += 1
        size += len(text)
        if size > MOST_CHARACTERS:
            raise EvaluationAborted("the formatted text is too long")
        parts.append(text)
    return "".join(parts)


def _wrong(value: Any, verb: str) -> EvaluationError:
    return EvaluationError(f"%{verb} cannot format a value of type {type_name(value)}")


def _string(value: Any, _: Clause) -> str:
    if type(value) in LISTS or type(value) in MAPS:
        return _nested(value, [0])
    if value is None:
        return "null"
    if type(value) not in TO_TEXT:
        raise _wrong(value, "s")
    return text_of(value)


def _nested(value: Any, size: list[int]) -> str:
    """Elements of lists and maps are written as in CEL, strings with quotes."""
    kind = type(value)
    if kind in LISTS:
        text = "[" + ", ".join(_nested(element, size) for element in value) + "]"
    elif kind in MAPS:
        text = _nested_map(value, size)
    elif kind is float:
        text = _plain_double(value)
    elif kind is Timestamp:
        text = f"timestamp({quote_go(format_timestamp(value))})"
    elif kind is Duration:
        text = f"duration({quote_go(format_duration(value))})"
    elif kind is str:
        text = quote_go(value)
    elif kind is bytes:
        text = "b" + quote_go(text_of(value))
    elif value is None or kind in TO_TEXT:
        text = "null" if value is None else text_of(value)
    else:
        raise _wrong(value, "s")
    size[0] += len(text)
    if size[0] > MOST_CHARACTERS:
        raise EvaluationAborted("the formatted text is too long")
    return text


def _nested_map(value: Any, size: list[int]) -> str:
    entries: list[tuple[str, str]] = []
    for key, item in value.items():
        if type(key) not in (str, bool, int, Uint):
            raise _wrong(key, "s")
        entries.append((_nested(key, size), _nested(item, size)))
    entries.sort(key=lambda entry: entry[0])
    return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"


def _plain_double(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"+Inf"' if value > 0 else '"-Inf"'
    return f"{value:.6f}"


def _decimal(value: Any, _: Clause) -> str:
    if type(value) not in (int, Uint):
        raise _wrong(value, "d")
    return str(int(value))


def _double_of(value: Any, verb: str) -> float:
    if type(value) is str and value in _SPECIAL:
        return float(value.replace("Infinity", "inf"))
    if type(value) is not float:
        raise _wrong(value, verb)
    return value


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "\u221e" if value > 0 else "-\u221e"


def _fixed(value: Any, clause: Clause) -> str:
    number = _double_of(value, "f")
    if not math.isfinite(number):
        return _not_finite(number)
    precision = 6 if clause.precision is None else clause.precision
    if precision > _MOST_PRECISION:
        raise EvaluationAborted("the precision of a format is too large")
    with localcontext() as context:
        context.prec = 330 + precision
        rounded = Decimal(number).quantize(Decimal(1).scaleb(-precision), rounding=ROUND_HALF_EVEN)
    text = f"{rounded:,f}"
    return text.removeprefix("-") if number == 0 else text


def _scientific(value: Any, clause: Clause) -> str:
    number = _double_of(value, "e")
    if math.isfinite(number):
        mantissa, _, exponent = f"{0.0 if number == 0 else number:.6e}".partition("e")
        text = f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"
    else:
        text = _not_finite(number)
    # The precision becomes a width, as it does in Kubernetes.
    width = 6 if clause.precision is None else clause.precision
    if width > _MOST_PRECISION:
        raise EvaluationAborted("the precision of a format is too large")
    return text.rjust(width)


def _binary(value: Any, _: Clause) -> str:
    if type(value) not in (int, Uint, bool):
        raise _wrong(value, "b")
    return f"{int(value):b}"


def _hex(value: Any, clause: Clause) -> str:
    if type(value) is str:
        text = value.encode(errors="replace").hex()
    elif type(value) is bytes:
        text = value.hex()
    elif type(value) in (int, Uint):
        text = f"{int(value):x}"
    else:
        raise _wrong(value, "x")
    return text.upper() if clause.verb == "X" else text


def _octal(value: Any, _: Clause) -> str:
    if type(value) not in (int, Uint):
        raise _wrong(value, "o")
    return f"{int(value):o}"


_FORMATTERS = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _hex,
    "o": _octal,
}


def quote_go(text: str) -> str:
    """With double quotes, and everything that does not print escaped."""
    return '"' + "".join(map(_quote_character, text)) + '"'


def _quote_character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_cel(text: str) -> str:
    """What ``strings.quote`` makes: only the named escapes."""
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'
