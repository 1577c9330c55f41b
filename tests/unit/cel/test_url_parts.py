"""URLs part by part, as Go's net/url has them, and why a text is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel import EvaluationError
from driver.cel.urls import Url, is_url, parse_url


def _parts(url: Url) -> dict[str, object]:
    """What is not empty."""
    host, port = url.host_and_port()
    parts: dict[str, object] = {
        "scheme": url.scheme,
        "opaque": url.opaque,
        "user": url.user,
        "host": host,
        "port": port,
        "path": url.path,
        "query": url.query,
        "fragment": url.fragment,
    }
    return {name: part.decode() if isinstance(part, bytes) else part for name, part in parts.items() if part}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("https://a", {"scheme": "https", "host": "a"}, id="scheme and host"),
        pytest.param("HTTP://A/B", {"scheme": "http", "host": "A", "path": "/B"}, id="only the scheme is made small"),
        pytest.param("A+B-.1://c", {"scheme": "a+b-.1", "host": "c"}, id="signs in a scheme"),
        pytest.param("/a", {"path": "/a"}, id="a path from the root"),
        pytest.param("//a/b", {"host": "a", "path": "/b"}, id="a host without a scheme"),
        pytest.param("///a", {"path": "///a"}, id="three slashes are a path"),
        pytest.param("file:///etc", {"scheme": "file", "path": "/etc"}, id="no host"),
        pytest.param("*", {"path": "*"}, id="a star"),
        pytest.param("http:", {"scheme": "http"}, id="only a scheme"),
        pytest.param("mailto:x@y.z", {"scheme": "mailto", "opaque": "x@y.z"}, id="what follows a scheme without a slash"),
        pytest.param("x:?y", {"scheme": "x", "query": "y"}, id="a scheme and a query"),
        pytest.param("http://:80", {"scheme": "http", "port": "80"}, id="a port without a host"),
        pytest.param("http://a:", {"scheme": "http", "host": "a"}, id="an empty port"),
        pytest.param("ssh://a:b:22", {"scheme": "ssh", "host": "a:b", "port": "22"}, id="the last colon, outside of http"),
        pytest.param("http://[::1]:80/", {"scheme": "http", "host": "::1", "port": "80", "path": "/"}, id="an IPv6 address"),
        pytest.param(
            "http://[fe80::1%25en0]:8", {"scheme": "http", "host": "fe80::1%en0", "port": "8"}, id="an address with a zone"
        ),
        pytest.param("http://é/", {"scheme": "http", "host": "é", "path": "/"}, id="a host in Unicode"),
        pytest.param("http://%C3%A9/", {"scheme": "http", "host": "é", "path": "/"}, id="a host in escaped Unicode"),
        pytest.param("http://u@a", {"scheme": "http", "user": (b"u", None), "host": "a"}, id="a user"),
        pytest.param("http://u:@a", {"scheme": "http", "user": (b"u", b""), "host": "a"}, id="an empty password"),
        pytest.param(
            "http://u%20v:p:q@a", {"scheme": "http", "user": (b"u v", b"p:q"), "host": "a"}, id="a user and a password"
        ),
        pytest.param("http://u@v@a", {"scheme": "http", "user": (b"u@v", None), "host": "a"}, id="the last at sign"),
        pytest.param("/a%20b%2Fc", {"path": "/a b/c"}, id="escapes in a path"),
        pytest.param("/a:b", {"path": "/a:b"}, id="a colon in a path"),
        pytest.param("http://a//b/../c", {"scheme": "http", "host": "a", "path": "//b/../c"}, id="a path is not shortened"),
        pytest.param("http://a?x/y", {"scheme": "http", "host": "a", "query": "x/y"}, id="a query ends the host"),
        pytest.param("/?x?y", {"path": "/", "query": "x?y"}, id="a question mark in a query"),
        pytest.param("/?x=%zz", {"path": "/", "query": "x=%zz"}, id="a query is not looked into"),
        pytest.param("/#a%20b", {"path": "/", "fragment": "a b"}, id="a fragment"),
        pytest.param("/#a#b", {"path": "/", "fragment": "a#b"}, id="the first number sign"),
    ],
)
def test_the_parts_of_a_url(text: str, parts: dict[str, object]) -> None:
    assert _parts(parse_url(text)) == parts
    assert is_url(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "it is empty", id="nothing"),
        pytest.param("a", "it is neither absolute nor a path from the root", id="a word"),
        pytest.param("./a", "it is neither absolute nor a path from the root", id="a path from here"),
        pytest.param("?x", "it is neither absolute nor a path from the root", id="only a query"),
        pytest.param("#f", "it is neither absolute nor a path from the root", id="only a fragment"),
        pytest.param("1a:b", "it is neither absolute nor a path from the root", id="a scheme that begins with a digit"),
        pytest.param("a_b://c", "it is neither absolute nor a path from the root", id="a scheme with another sign"),
        pytest.param(":80", "its scheme is missing", id="a colon first"),
        pytest.param("/a\nb", "it has a control character", id="a line break"),
        pytest.param("/a\x7f", "it has a control character", id="delete"),
        pytest.param("/%zz", "it has a wrong escape", id="an escape of no digits"),
        pytest.param("/%4", "it has a wrong escape", id="half an escape"),
        pytest.param("http://%41", "its host has an escape that is not allowed", id="an escaped letter in a host"),
        pytest.param("http://a b/", "its host has a character that must be escaped", id="a blank in a host"),
        pytest.param("http://a#f", "its host has a character that must be escaped", id="a fragment right after the host"),
        pytest.param("http://u v@a", "its user has a character that must be escaped", id="a blank in a user"),
        pytest.param("http://a:8x", "its port is no number", id="a letter in a port"),
        pytest.param("http://a:80:90", "its port is no number", id="two ports"),
        pytest.param("http://[::1]x", "its port is no number", id="a letter after an address"),
        pytest.param("http://[::1", "its host has no closing bracket", id="half a bracket"),
        pytest.param("http://a[::1]", "its host has a bracket in the middle", id="a bracket in the middle"),
        pytest.param("http://[1.2.3.4]", "its host in brackets is no IPv6 address", id="an IPv4 address in brackets"),
        pytest.param("http://[fe80::1%en0]", "it has a wrong escape", id="a zone that is not escaped"),
        pytest.param("http://[fe80::1%25]", "the zone of its address is empty", id="an empty zone"),
    ],
)
def test_why_a_text_is_no_url(text: str, reason: str) -> None:
    assert not is_url(text)
    with pytest.raises(EvaluationError) as caught:
        parse_url(text)
    assert str(caught.value) == f"{text!r} is no URL: {reason}"


def test_of_a_long_text_the_message_has_the_beginning() -> None:
    with pytest.raises(EvaluationError) as caught:
        parse_url("a" * 1000)
    assert str(caught.value) == f"'{'a' * 80}' is no URL: it is neither absolute nor a path from the root"


def test_a_wrong_fragment_is_seen_only_by_the_reader() -> None:
    """As in Kubernetes: to ``isURL`` a fragment is the end of the query, or of the path."""
    assert is_url("/a?b#%zz")
    assert not is_url("/a#%zz")
    with pytest.raises(EvaluationError, match="it has a wrong escape"):
        parse_url("/a?b#%zz")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("/a b", "/a%20b", id="a blank is escaped"),
        pytest.param("/a%2fb", "/a%2fb", id="an escaped slash stays"),
        pytest.param("/%61", "/%61", id="a needless escape stays"),
        pytest.param("/[a]!", "/[a]!", id="signs that may stand there stay"),
        pytest.param("/^é", "/%5E%C3%A9", id="signs that may not are escaped"),
        pytest.param("*", "*", id="a star"),
    ],
)
def test_the_escaped_path_is_as_it_was_written_if_that_is_right(text: str, written: str) -> None:
    assert parse_url(text).escaped_path().decode() == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("HTTP://A", "http://A", id="the scheme is small"),
        pytest.param("http://", "http:", id="slashes without a host"),
        pytest.param("http://a@", "http://a@", id="a user without a host"),
        pytest.param("http://u:p:q@a", "http://u:p%3Aq@a", id="a colon in a password"),
        pytest.param("http://u@v@a", "http://u%40v@a", id="an at sign in a user"),
        pytest.param("http://é/", "http://%C3%A9/", id="a host in Unicode"),
        pytest.param("/a?", "/a?", id="an empty query stays"),
        pytest.param("/a#", "/a", id="an empty fragment goes"),
        pytest.param("/a#b c", "/a#b%20c", id="a blank in a fragment"),
        pytest.param("x:/a", "x:/a", id="one slash after the scheme"),
    ],
)
def test_how_a_url_is_written(text: str, written: str) -> None:
    assert str(parse_url(text)) == written


def test_a_query_of_too_many_parameters_has_none() -> None:
    assert len(parse_url("/?" + "&".join(f"a{n}=1" for n in range(10_000))).query_values()) == 10_000
    assert parse_url("/?" + "&".join(f"a{n}=1" for n in range(10_001))).query_values() == {}


@pytest.mark.parametrize(
    ("query", "values"),
    [
        pytest.param("a=1;b=2&c=3", {"c": ["3"]}, id="a semicolon spoils its parameter"),
        pytest.param("a=%zz&b=1", {"b": ["1"]}, id="a wrong escape spoils its parameter"),
        pytest.param("=1&=2", {"": ["1", "2"]}, id="an empty name"),
        pytest.param("a=b=c", {"a": ["b=c"]}, id="the first equals sign"),
        pytest.param("%61=%C3%A9+%2B", {"a": ["é +"]}, id="escapes and plus signs"),
        pytest.param("a=%FF", {"a": ["\ufffd"]}, id="bytes that are no text"),
    ],
)
def test_what_a_query_says(query: str, values: dict[str, list[str]]) -> None:
    assert parse_url(f"/?{query}").query_values() == values


_TEXTS = st.one_of(
    st.text(max_size=30),
    st.text("ab/:@?#%[]4.12&=+ ~é", max_size=30),
    st.text("ab/:@?#%[]4.12&=+~", max_size=20).map(lambda rest: f"http://{rest}"),
)


@given(_TEXTS)
@settings(max_examples=200, deadline=None)
def test_whatever_the_text_it_is_a_url_or_refused(text: str) -> None:
    try:
        url = parse_url(text)
    except EvaluationError:
        return
    assert is_url(text)
    assert isinstance(str(url), str)
    assert isinstance(url.query_values(), dict)


@given(
    st.sampled_from(["/", "x:", "x:/", "http://a/", "http://[::1]:80/", "http://u:p@b"]),
    st.text("ab/:@?#[]4.&=+~ é^!", max_size=20),
)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_again_as_the_same(beginning: str, rest: str) -> None:
    try:
        url = parse_url(beginning + rest)
    except EvaluationError:
        return
    if not (url.scheme or url.host or url.path.startswith(b"/")):
        return  # Two slashes with neither host nor path are written as nothing, in Go too.
    again = parse_url(str(url))
    assert str(again) == str(url)
    assert again.query_values() == url.query_values()
