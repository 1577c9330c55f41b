"""Durations and timestamps: reading, writing and taking apart, as Go does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from driver.cel.errors import EvaluationError
from driver.cel.values import INT_MAX, Duration, Timestamp

SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile("([0-9]*)(?:(\\.)([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)(?![^0-9.])")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_OFFSET_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def parse_duration(text: str) -> Duration:
    """A duration such as ``1h30m`` or ``-1.5s``.

    Raises:
        EvaluationError: no duration, or one beyond 64 bits of nanoseconds.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return Duration(0)
    total = position = 0
    while position < len(body):
        found = _PART.match(body, position)
        if found is None or not (found[1] or found[3]):
            break
        total += _part_ns(found[1], found[3] or "", _UNITS[found[4]], text)
        position = found.end()
    if position < len(body) or not body or total > INT_MAX + (sign < 0):
        raise EvaluationError(f"{text[:80]!r} is no duration such as 1h30m")
    return Duration(sign * total)


def _part_ns(whole: str, fraction: str, unit: int, text: str) -> int:
    if len(whole.lstrip("0")) > 19:
        raise EvaluationError(f"{text[:80]!r} is no duration: it is too long")
    value, scale = 0, 1.0
    for digit in fraction:
        # Go stops reading when the digits no longer fit; what is left is below a nanosecond.
        if value > (INT_MAX - 9) // 10:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return int(whole or "0") * unit + int(value * (unit / scale))


def format_duration(value: Duration) -> str:
    """In seconds, as in ``5400s`` and ``0.5s``."""
    ns = abs(value.ns)
    seconds = ns // SECOND + ns % SECOND / 1e9
    return ("-" if value.ns < 0 else "") + shortest(seconds) + "s"


def shortest(value: float) -> str:
    """The shortest text of a double, without exponent."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_timestamp(text: str) -> Timestamp:
    """A moment in RFC 3339.

    Raises:
        EvaluationError: no such text, or a moment outside of the years 1 to 9999.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise EvaluationError(f"{text[:80]!r} is no timestamp such as 2024-05-01T12:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, offset_h, offset_m = found.groups()[6:]
    if hour > 23 or minute > 59 or second > 59 or int(offset_h or 0) > 24 or int(offset_m or 0) > 60:
        raise EvaluationError(f"{text[:80]!r} is no timestamp: a part of it is out of range")
    offset_s = (int(offset_h or 0) * 60 + int(offset_m or 0)) * 60 * (-1 if sign == "-" else 1)
    seconds = _days_of(year, month, day, text) * 86400 + hour * 3600 + minute * 60 + second - offset_s
    return Timestamp(seconds * SECOND + int((fraction or "0")[:9].ljust(9, "0")), offset_s)


def _days_of(year: int, month: int, day: int, text: str) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if is_leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        raise EvaluationError(f"{text[:80]!r} is no timestamp: it has no such day")
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + sum(lengths[: month - 1]) + day - 719163


def format_timestamp(value: Timestamp) -> str:
    """RFC 3339 in the offset that the moment was written in, with as many digits as it needs."""
    year, month, day, _ = _date_of(value, value.offset_s)
    ns = (value.ns + value.offset_s * SECOND) % (86400 * SECOND)
    seconds = ns // SECOND
    fraction = f".{ns % SECOND:09d}".rstrip("0") if ns % SECOND else ""
    offset = "Z"
    if value.offset_s:
        minutes = abs(value.offset_s) // 60
        offset = f"{'-' if value.offset_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}{offset}"
    )


def _date_of(value: Timestamp, offset_s: int) -> tuple[int, int, int, int]:
    """Year, month, day and day of the year (from 0), for any year."""
    days = (value.ns // SECOND + offset_s) // 86400 + 719468
    era, day_of_era = divmod(days, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return year, month, day, (day_of_year - 306 if month <= 2 else day_of_year + 59 + is_leap)


def offset_of(zone: str, value: Timestamp) -> int:
    """The offset of a time zone at a moment, in seconds; the zone is a name or ``-08:00``.

    Raises:
        EvaluationError: no such zone.
    """
    if ":" in zone:
        return _parse_offset(zone)
    if zone in ("", "UTC"):
        return 0
    try:
        # Years at the very ends have no date in Python; a day more or less does not change a zone's offset there.
        seconds = min(max(value.ns // SECOND, -62135000000), 253402000000)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return int((moment.astimezone(ZoneInfo(zone)).utcoffset() or timedelta()).total_seconds())
    except (KeyError, ValueError, OSError, OverflowError) as err:
        raise EvaluationError(f"{zone[:80]!r} is no time zone") from err


def _parse_offset(zone: str) -> int:
    hours_text, _, minutes_text = zone.partition(":")
    if _OFFSET_NUMBER.fullmatch(hours_text) is None or _OFFSET_NUMBER.fullmatch(minutes_text) is None:
        raise EvaluationError(f"{zone[:80]!r} is no offset from UTC such as -08:00")
    hours, minutes = int(hours_text), int(minutes_text)
    return (hours * 60 + (-minutes if zone.startswith("-") else minutes)) * 60


def _local_ns(value: Timestamp, offset_s: int) -> int:
    return (value.ns + offset_s * SECOND) % (86400 * SECOND)


TIMESTAMP_PARTS: dict[str, Callable[[Timestamp, int], int]] = {
    "getFullYear": lambda value, offset: _date_of(value, offset)[0],
    "getMonth": lambda value, offset: _date_of(value, offset)[1] - 1,
    "getDayOfYear": lambda value, offset: _date_of(value, offset)[3],
    "getDayOfMonth": lambda value, offset: _date_of(value, offset)[2] - 1,
    "getDate": lambda value, offset: _date_of(value, offset)[2],
    "getDayOfWeek": lambda value, offset: ((value.ns // SECOND + offset) // 86400 + 4) % 7,
    "getHours": lambda value, offset: _local_ns(value, offset) // (3600 * SECOND),
    "getMinutes": lambda value, offset: _local_ns(value, offset) // (60 * SECOND) % 60,
    "getSeconds": lambda value, offset: _local_ns(value, offset) // SECOND % 60,
    "getMilliseconds": lambda value, _: value.ns % SECOND // 1_000_000,
}
"""Parts of a moment by the function that asks for them, given the offset from UTC in seconds."""


def _truncate(ns: int, unit: int) -> int:
    return ns // unit if ns >= 0 else -(-ns // unit)


DURATION_PARTS: dict[str, Callable[[Duration], int]] = {
    "getHours": lambda value: _truncate(value.ns, 3600 * SECOND),
    "getMinutes": lambda value: _truncate(value.ns, 60 * SECOND),
    "getSeconds": lambda value: _truncate(value.ns, SECOND),
    "getMilliseconds": lambda value: _truncate(value.ns, 1_000_000),
}
