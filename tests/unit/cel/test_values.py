"""Versions, times, texts, patterns, addresses and formats, each by itself."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cel import texts
from driver.cel.equality import compare_numbers, equal
from driver.cel.errors import EvaluationError
from driver.cel.formatting import format_text
from driver.cel.intervals import Interval, exactly
from driver.cel.lists import distinct, flatten, range_to, slice_of
from driver.cel.network import parse_cidr, parse_ip
from driver.cel.regex import find, find_all, is_match
from driver.cel.semver import normalize_semver, parse_semver
from driver.cel.times import format_duration, format_timestamp, parse_duration, parse_timestamp
from driver.cel.urls import is_url, parse_url

_INTS = st.integers(-(2**63), 2**63 - 1)
_NUMBERS = st.integers(0, 999)


@given(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), st.tuples(_NUMBERS, _NUMBERS, _NUMBERS))
def test_versions_are_ordered_by_their_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    left, right = (parse_semver(".".join(map(str, numbers))) for numbers in (one, other))
    assert left.compare(right) == (one > other) - (one < other)


@pytest.mark.parametrize(("small", "large"), [("1.0.0-alpha", "1.0.0"), ("1.0.0-1", "1.0.0-a"), ("1.0.0-2", "1.0.0-10")])
def test_a_version_before_its_release(small: str, large: str) -> None:
    assert parse_semver(small).compare(parse_semver(large)) == -1


@pytest.mark.parametrize("text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.x", "1.2.3.4", "-1.2.3"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_semver(text)


@pytest.mark.parametrize(
    ("text", "version"), [("v1", "1.0.0"), ("1.2", "1.2.0"), ("v01.02.03", "1.2.3"), ("1.2.3-a", "1.2.3-a")]
)
def test_a_version_is_made_whole(text: str, version: str) -> None:
    assert normalize_semver(text) == version


@pytest.mark.parametrize(
    ("text", "written"),
    [("90s", "90s"), ("1.5h", "5400s"), ("-1m30s", "-90s"), ("100ms", "0.1s"), ("0", "0s"), ("1us", "0.000001s")],
)
def test_durations(text: str, written: str) -> None:
    assert format_duration(parse_duration(text)) == written


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1 s", "--1s", "1s-", "9999999999h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["2026-01-31T23:59:59Z", "2024-02-29T00:00:00Z", "1999-12-31T23:59:59.5Z", "0001-01-01T00:00:00Z"]
)
def test_a_timestamp_is_written_as_it_was_read(text: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == text


@pytest.mark.parametrize("text", ["", "2026-01-01", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z"])
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_timestamp(text)


@given(_INTS, st.floats(allow_nan=False))
def test_numbers_compare_by_value(one: int, other: float) -> None:
    expected = (one > other) - (one < other)
    assert compare_numbers(one, other) == expected
    assert compare_numbers(other, one) == -expected
    assert equal(one, other) == (expected == 0)


@given(st.text(), st.text(min_size=1))
def test_split_and_join_undo_each_other(text: str, separator: str) -> None:
    assert texts.join(texts.split(text, separator), separator) == text


@given(st.text(), st.text())
def test_index_of_a_part(text: str, part: str) -> None:
    assert texts.index_of(text, part) == text.find(part)


@given(st.text())
def test_only_ascii_letters_change_their_case(text: str) -> None:
    assert texts.upper_ascii(texts.lower_ascii(text)) == texts.upper_ascii(text)
    assert [c for c in texts.lower_ascii(text) if not c.isascii()] == [c for c in text if not c.isascii()]


@given(st.text(), st.integers(-2, 20))
def test_a_substring_lies_in_the_text(text: str, start: int) -> None:
    if 0 <= start <= len(text):
        assert texts.substring(text, start) == text[start:]
    else:
        with pytest.raises(EvaluationError):
            texts.substring(text, start)


@pytest.mark.parametrize(
    ("clause", "args", "text"),
    [
        ("%s|%s", ["a", 1], "a|1"),
        ("%d%%", [5], "5%"),
        ("%.3f", [1.0], "1.000"),
        ("%x %X", [255, 255], "ff FF"),
        ("%x", ["hi"], "6869"),
        ("%o %b", [8, 5], "10 101"),
        ("%e", [1000.0], "1.000000\u00d710⁰³"),
        ("%s", [[1, "a"]], '[1, "a"]'),
    ],
)
def test_formats(clause: str, args: list[object], text: str) -> None:
    assert format_text(clause, args) == text


@pytest.mark.parametrize(("clause", "args"), [("%", []), ("%s", []), ("%q", [1]), ("%d", ["a"]), ("%f", ["x"])])
def test_formats_that_fail(clause: str, args: list[object]) -> None:
    with pytest.raises(EvaluationError):
        format_text(clause, args)


def test_patterns() -> None:
    assert is_match("^a+$", "aaa")
    assert not is_match("b", "aaa")
    assert find("[0-9]+", "a12b3") == "12"
    assert find("x", "abc") == ""
    assert find_all("[0-9]", "1a2b3", -1) == ["1", "2", "3"]
    assert find_all("[0-9]", "1a2b3", 2) == ["1", "2"]
    assert find_all("é", "é-é", -1) == ["é", "é"]


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "\\1", "[", "a{1001}", "(?<!a)"])
def test_patterns_that_re2_refuses(pattern: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        is_match(pattern, "a")


@given(st.ip_addresses())
def test_addresses(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if "ffff:" in str(address):
        return
    assert parse_ip(str(address)).address == address
    block = parse_cidr(f"{address}/{address.max_prefixlen // 2}")
    assert block.contains(address)
    assert block.masked().contains_block(block)


@pytest.mark.parametrize("text", ["", "1.2.3", "01.2.3.4", "1.2.3.256", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4/8", "x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_ip(text)


@pytest.mark.parametrize("text", ["", "1.2.3.4", "1.2.3.4/33", "1.2.3.4/-1", "::/129", "1.2.3.4/08"])
def test_what_is_no_block(text: str) -> None:
    with pytest.raises((EvaluationError, ValueError)):
        parse_cidr(text)


def test_a_url() -> None:
    url = parse_url("https://user@example.com:8080/a%20b?x=1&x=2&y=#frag")
    assert (url.scheme, url.host) == (b"https", b"example.com:8080")
    assert url.host_and_port() == (b"example.com", b"8080")
    assert url.query_values() == {"x": ["1", "2"], "y": [""]}


@given(st.text(max_size=40))
def test_no_text_crashes_the_url_parser(text: str) -> None:
    assert is_url(text) in (True, False)


@pytest.mark.parametrize("text", ["", "a", "../a", "https://[::1", "http://a b/", "://a", "http://a:b/"])
def test_what_is_no_url(text: str) -> None:
    assert not is_url(text)


def test_lists() -> None:
    assert distinct([1, 1.0, "a", "a"]) == [1, "a"]
    assert flatten([[1], [[2]]], 1) == [1, [2]]
    assert flatten([[1], [[2]]], 2) == [1, 2]
    assert range_to(3) == [0, 1, 2]
    assert slice_of([1, 2, 3], 1, 3) == [2, 3]
    with pytest.raises(EvaluationError):
        slice_of([1], 1, 0)


@given(st.integers(0, 2**64), st.integers(0, 2**64))
def test_estimates_stop_at_64_bits(one: int, other: int) -> None:
    most = 2**64 - 1
    total = exactly(min(one, most)).plus(Interval(0, min(other, most)))
    assert 0 <= total.least <= total.most <= most
    assert exactly(min(one, most)).times(exactly(min(other, most))).most <= most
