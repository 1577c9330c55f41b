"""Conversions between types: ``int("12")``, ``string(1.5)``, ``bytes("a")`` and so on."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from driver.cel.errors import EvaluationError
from driver.cel.times import SECOND, format_duration, format_timestamp
from driver.cel.types import Type
from driver.cel.values import (
    INT_MAX,
    INT_MAX_AS_DOUBLE,
    INT_MIN,
    TIMESTAMP_MAX_S,
    TIMESTAMP_MIN_S,
    UINT_MAX,
    UINT_MAX_AS_DOUBLE,
    Duration,
    Timestamp,
    Uint,
)

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F_]+(?:\.[0-9a-fA-F_]*)?|\.[0-9a-fA-F_]+)[pP][+-]?[0-9]+")
_NAMED = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE | re.ASCII)
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def _wrong(value: str, what: str) -> EvaluationError:
    return EvaluationError(f"{value[:80]!r} is no {what}")


def int_of_text(value: str) -> int:
    """A decimal integer of 64 bits."""
    if re.fullmatch(r"[+-]?[0-9]+", value) is None or len(value.lstrip("+-0")) > 19:
        raise _wrong(value, "int")
    number = int(value.lstrip("+-0") or "0") * (-1 if value.startswith("-") else 1)
    if not INT_MIN <= number <= INT_MAX:
        raise _wrong(value, "int of 64 bits")
    return number


def uint_of_text(value: str) -> Uint:
    """A decimal unsigned integer of 64 bits, without sign."""
    if re.fullmatch(r"[0-9]+", value) is None or len(value.lstrip("0")) > 20:
        raise _wrong(value, "uint")
    number = int(value.lstrip("0") or "0")
    if number > UINT_MAX:
        raise _wrong(value, "uint of 64 bits")
    return Uint(number)


def double_of_text(value: str) -> float:
    """A double: decimal, hexadecimal with exponent, infinite or not a number."""
    if _NAMED.fullmatch(value):
        return float(value)
    try:
        number = (
            float(value)
            if _DECIMAL.fullmatch(value)
            else float.fromhex(value.replace("_", ""))
            if _HEX.fullmatch(value)
            else math.inf
        )
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise _wrong(value, "double")
    return number


def bool_of_text(value: str) -> bool:
    """``true``, ``t``, ``1`` and so on."""
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _wrong(value, "bool")


def text_of_double(value: float) -> str:  # noqa: PLR0911 - one for each form
    """The shortest text that reads as the same number; with an exponent when it is long."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    figures = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    dash = "-" if sign else ""
    if point - 1 < -4 or point - 1 >= 6:
        tail = "." + figures[1:] if len(figures) > 1 else ""
        return f"{dash}{figures[0]}{tail}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{dash}0.{'0' * -point}{figures}"
    if point >= len(figures):
        return dash + figures.ljust(point, "0")
    return f"{dash}{figures[:point]}.{figures[point:]}"


def int_of_double(value: float) -> int:
    """Without the fraction."""
    if math.isnan(value) or value <= -INT_MAX_AS_DOUBLE or value >= INT_MAX_AS_DOUBLE:
        raise EvaluationError("integer overflow")
    return int(value)


def uint_of_double(value: float) -> Uint:
    """Without the fraction."""
    if math.isnan(value) or value < 0 or value >= UINT_MAX_AS_DOUBLE:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def uint_of_int(value: int) -> Uint:
    """The same number, if it is not negative."""
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def int_of_uint(value: Uint) -> int:
    """The same number, if it fits."""
    if value > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(value)


def timestamp_of_int(value: int) -> Timestamp:
    """Seconds since 1970."""
    if not TIMESTAMP_MIN_S <= value <= TIMESTAMP_MAX_S:
        raise EvaluationError("timestamp overflow")
    return Timestamp(value * SECOND)


def text_of_bytes(value: bytes) -> str:
    """UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as err:
        raise EvaluationError("these bytes are no UTF-8") from err


def bytes_of_text(value: str) -> bytes:
    """UTF-8."""
    return value.encode(errors="replace")


def text_of(value: Any) -> str:
    """What ``string()`` and ``%s`` make of a plain value."""
    return str(TO_TEXT[type(value)](value))


TO_TEXT: dict[type, Any] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    bytes: text_of_bytes,
    float: text_of_double,
    Duration: format_duration,
    int: str,
    Timestamp: format_timestamp,
    Uint: lambda value: str(int(value)),
    Type: lambda value: value.name,
}
