"""URLs as Go's net/url reads them."""

from __future__ import annotations

import pytest

from driver.cel.urls import is_url, parse_url
from tests.unit.cel.engine import answer

_BASE = "url('https://user:pass@example.com:8080/a%20b/c?x=1&x=2&y=#frag')"


@pytest.mark.parametrize(
    "source",
    [
        f"{_BASE}.getScheme() == 'https'",
        f"{_BASE}.getHost() == 'example.com:8080'",
        f"{_BASE}.getHostname() == 'example.com'",
        f"{_BASE}.getPort() == '8080'",
        f"{_BASE}.getEscapedPath() == '/a%20b/c'",
        f"{_BASE}.getQuery() == {{'x': ['1', '2'], 'y': ['']}}",
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://[::1]/').getPort() == ''",
        "url('/path').getScheme() == '' && url('/path').getHost() == ''",
        "url('https://a/b') == url('https://a/b')",
        "url('https://a/b') != url('https://a/c')",
    ],
)
def test_the_parts(source: str) -> None:
    assert answer(source) is True


@pytest.mark.parametrize("text", ["https://a", "/a", "https://a/?x=%zz", "HTTP://A", "http://a:", "mailto:x@y.z"])
def test_what_is_a_url(text: str) -> None:
    assert is_url(text)


@pytest.mark.parametrize("text", ["https://a/%zz", "https://%41/%4", "1http://a", "http://[fe80::1%en0]/", "a\x7f"])
def test_what_is_none(text: str) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", {}),
        ("a", {"a": [""]}),
        ("a=1&b=2&a=3", {"a": ["1", "3"], "b": ["2"]}),
        ("a=x+y", {"a": ["x y"]}),
        ("a=%41", {"a": ["A"]}),
        ("&&a=1", {"a": ["1"]}),
    ],
)
def test_the_query(query: str, values: dict[str, list[str]]) -> None:
    assert parse_url(f"https://a/?{query}").query_values() == values
