"""Moments and durations: how they are read, written and taken apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel.errors import EvaluationError
from driver.cel.times import (
    DURATION_PARTS,
    SECOND,
    TIMESTAMP_PARTS,
    format_duration,
    format_timestamp,
    offset_of,
    parse_duration,
    parse_timestamp,
)
from driver.cel.values import INT_MAX, INT_MIN, Duration, Timestamp


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        pytest.param("0", 0, id="zero needs no unit"),
        pytest.param("-0", 0, id="negative zero"),
        pytest.param("1h30m", 5400 * SECOND, id="hours and minutes"),
        pytest.param("-1.5s", -1_500_000_000, id="a negative fraction"),
        pytest.param("+1s", SECOND, id="a plus sign"),
        pytest.param(".5s", 500_000_000, id="no whole part"),
        pytest.param("1.s", SECOND, id="no fraction after the point"),
        pytest.param("1s1s", 2 * SECOND, id="a unit twice"),
        pytest.param("1ms2us3ns", 1_002_003, id="small units"),
        pytest.param("1µs", 1_000, id="the micro sign"),
        pytest.param("1μs", 1_000, id="the Greek letter"),
        pytest.param("9223372036854775807ns", INT_MAX, id="the longest"),
        pytest.param("-9223372036854775808ns", INT_MIN, id="the shortest"),
    ],
)
def test_a_duration_is_read(text: str, ns: int) -> None:
    assert parse_duration(text).ns == ns


@pytest.mark.parametrize("text", ["", "-", "1", "s", "1x", ".s", "1 s", "1s ", "1h-1m", "9223372036854775808ns", "3000000h"])
def test_a_text_that_is_no_duration(text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        parse_duration(text)
    assert str(caught.value) == f"{text!r} is no duration such as 1h30m"


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (5400 * SECOND, "5400s"), (-SECOND // 2, "-0.5s"), (1, "0.000000001s"), (INT_MAX, "9223372036.854776s")],
)
def test_a_duration_is_written_in_seconds(ns: int, text: str) -> None:
    assert format_duration(Duration(ns)) == text


@given(st.integers(-(10**15), 10**15))
@settings(max_examples=60, deadline=None)
def test_a_duration_that_was_written_is_read_again(us: int) -> None:
    assert parse_duration(format_duration(Duration(us * 1000))).ns == pytest.approx(us * 1000, abs=1000)


@pytest.mark.parametrize(
    ("part", "ns", "value"),
    [
        pytest.param("getHours", 5400 * SECOND, 1, id="hours"),
        pytest.param("getMinutes", 5400 * SECOND, 90, id="all minutes"),
        pytest.param("getSeconds", -1_500_000_000, -1, id="seconds towards zero"),
        pytest.param("getMilliseconds", 1_500_000_000, 1500, id="all milliseconds"),
    ],
)
def test_the_parts_of_a_duration_are_the_whole_in_that_unit(part: str, ns: int, value: int) -> None:
    assert DURATION_PARTS[part](Duration(ns)) == value


_MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
_OFFSETS = st.integers(-14 * 60, 14 * 60).filter(bool)


def _ns(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


@given(_MOMENTS, _OFFSETS)
@settings(max_examples=150, deadline=None)
def test_a_moment_is_the_calendars(moment: datetime, offset_minutes: int) -> None:
    local = moment.astimezone(timezone(timedelta(minutes=offset_minutes)))
    found = parse_timestamp(local.isoformat())
    assert (found.ns, found.offset_s) == (_ns(moment), offset_minutes * 60)
    assert parse_timestamp(format_timestamp(found)).ns == found.ns
    parts = {name: part(found, offset_minutes * 60) for name, part in TIMESTAMP_PARTS.items()}
    assert parts == {
        "getFullYear": local.year,
        "getMonth": local.month - 1,
        "getDayOfYear": local.timetuple().tm_yday - 1,
        "getDayOfMonth": local.day - 1,
        "getDate": local.day,
        "getDayOfWeek": local.isoweekday() % 7,
        "getHours": local.hour,
        "getMinutes": local.minute,
        "getSeconds": local.second,
        "getMilliseconds": local.microsecond // 1000,
    }


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", id="the beginning"),
        pytest.param("2024-02-29T23:59:59.500Z", "2024-02-29T23:59:59.5Z", id="a fraction without zeros"),
        pytest.param("2024-02-29T23:59:59,5Z", "2024-02-29T23:59:59.5Z", id="a comma"),
        pytest.param("2024-01-01T1:00:00Z", "2024-01-01T01:00:00Z", id="one digit of an hour"),
        pytest.param("2024-01-01T00:00:00.1234567899Z", "2024-01-01T00:00:00.123456789Z", id="more than nanoseconds"),
        pytest.param("2024-01-01T00:00:00-08:30", "2024-01-01T00:00:00-08:30", id="an offset stays"),
        pytest.param("2024-01-01T00:00:00+00:00", "2024-01-01T00:00:00Z", id="no offset is Z"),
    ],
)
def test_a_moment_is_written_in_its_own_offset(text: str, written: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", " such as 2024-05-01T12:00:00Z", id="nothing"),
        pytest.param("2024-01-01", " such as 2024-05-01T12:00:00Z", id="a day"),
        pytest.param("2024-01-01T00:00:00", " such as 2024-05-01T12:00:00Z", id="no offset"),
        pytest.param("2024-01-01t00:00:00z", " such as 2024-05-01T12:00:00Z", id="small letters"),
        pytest.param("2024-01-01 00:00:00Z", " such as 2024-05-01T12:00:00Z", id="a blank"),
        pytest.param("2024-01-01T24:00:00Z", ": a part of it is out of range", id="hour 24"),
        pytest.param("2024-01-01T00:60:00Z", ": a part of it is out of range", id="minute 60"),
        pytest.param("2024-01-01T00:00:60Z", ": a part of it is out of range", id="a leap second"),
        pytest.param("2023-02-29T00:00:00Z", ": it has no such day", id="February 29 of another year"),
        pytest.param("2100-02-29T00:00:00Z", ": it has no such day", id="February 29 of a century"),
        pytest.param("2024-13-01T00:00:00Z", ": it has no such day", id="month 13"),
        pytest.param("2024-04-31T00:00:00Z", ": it has no such day", id="April 31"),
        pytest.param("2024-01-00T00:00:00Z", ": it has no such day", id="day 0"),
    ],
)
def test_a_text_that_is_no_moment(text: str, reason: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        parse_timestamp(text)
    assert str(caught.value) == f"{text!r} is no timestamp{reason}"


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("UTC", 0, id="UTC"),
        pytest.param("America/New_York", -4, id="a city in summer"),
        pytest.param("+01:00", 1, id="an offset"),
        pytest.param("-00:30", -0.5, id="a negative offset of minutes"),
        pytest.param("5:30", 5.5, id="an offset without sign"),
    ],
)
def test_the_offset_of_a_zone(zone: str, hours: float) -> None:
    assert offset_of(zone, parse_timestamp("2024-07-01T00:00:00Z")) == hours * 3600


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        pytest.param("Nowhere/AtAll", "'Nowhere/AtAll' is no time zone", id="no such name"),
        pytest.param("../../etc/passwd", "'../../etc/passwd' is no time zone", id="a path"),
        pytest.param("a\x00b", "'a\\x00b' is no time zone", id="a null character"),
        pytest.param("x:00", "'x:00' is no offset from UTC such as -08:00", id="a letter in an offset"),
        pytest.param("1:2:3", "'1:2:3' is no offset from UTC such as -08:00", id="seconds in an offset"),
    ],
)
def test_a_zone_that_there_is_not(zone: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        offset_of(zone, Timestamp(0))
    assert str(caught.value) == message
