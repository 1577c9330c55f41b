"""How a selector is cut into tokens: the longest match wins, and every character is accounted for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.cel.errors import SelectorError
from driver.cel.lexer import MOST_CHARACTERS, tokenize


def _kinds(source: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(source)[:-1]]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param("0", "int", id="zero"),
        pytest.param("0x1F", "int", id="hexadecimal integer"),
        pytest.param("12u", "uint", id="unsigned integer"),
        pytest.param("0xaU", "uint", id="unsigned hexadecimal integer"),
        pytest.param("1.5", "float", id="double"),
        pytest.param(".5", "float", id="double without a whole part"),
        pytest.param("1e9", "float", id="double with an exponent only"),
        pytest.param("1.5e-3", "float", id="double with a negative exponent"),
        pytest.param("_a9", "name", id="name"),
        pytest.param("inner", "name", id="name that begins with a keyword"),
        pytest.param("truex", "name", id="name that begins with a literal"),
        pytest.param("r", "name", id="a prefix without quotes is a name"),
        pytest.param("`a-b/c.d e`", "quoted", id="quoted field name"),
        pytest.param("''", "string", id="empty string"),
        pytest.param('"a\'b"', "string", id="string with the other quote"),
        pytest.param(r"'a\'b'", "string", id="string with its own quote escaped"),
        pytest.param("'''a\n'b'''", "string", id="long string over two lines"),
        pytest.param(r"r'\d'", "string", id="raw string"),
        pytest.param('R"""a\\"""', "string", id="raw long string may end in a backslash"),
        pytest.param(r"'\x41\u0041\U00000041\101\n\?\`'", "string", id="string with each kind of escape"),
        pytest.param("b'a'", "bytes", id="bytes"),
        pytest.param("br'a'", "bytes", id="raw bytes"),
        pytest.param("in", "in", id="keyword"),
        pytest.param("true", "true", id="literal word"),
        pytest.param("null", "null", id="null"),
        pytest.param("==", "==", id="operator of two characters"),
        pytest.param("?", "?", id="operator of one character"),
    ],
)
def test_it_is_one_token(source: str, kind: str) -> None:
    assert _kinds(source) == [(kind, source)]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        pytest.param("a.b", ["a", ".", "b"], id="a selection is three tokens"),
        pytest.param("1.a", ["1", ".", "a"], id="a dot before a letter is no fraction"),
        pytest.param("1.5.5", ["1.5", ".5"], id="the longest number comes first"),
        pytest.param("1e", ["1", "e"], id="an exponent needs digits"),
        pytest.param("0x", ["0", "x"], id="a hexadecimal number needs digits"),
        pytest.param("12ul", ["12u", "l"], id="one suffix only"),
        pytest.param("a<=b<c", ["a", "<=", "b", "<", "c"], id="an operator is as long as it can be"),
        pytest.param("!!=", ["!", "!="], id="a not before a difference"),
        pytest.param("-1", ["-", "1"], id="a sign is no part of a number"),
        pytest.param("''''''", ["''''''"], id="six quotes are one empty long string"),
        pytest.param("'' ''", ["''", "''"], id="four quotes apart are two empty strings"),
        pytest.param("'a'//'b'\n'c'", ["'a'", "'c'"], id="a comment ends with its line"),
        pytest.param("'//'", ["'//'"], id="a comment does not begin in a string"),
        pytest.param("a\t\r\n\fb", ["a", "b"], id="all kinds of white space are skipped"),
        pytest.param("a// no end", ["a"], id="a comment may be the last thing"),
        pytest.param("rb'a'", ["rb", "'a'"], id="the letter of bytes comes before that of raw"),
        pytest.param(".?a[?1]", [".", "?", "a", "[", "?", "1", "]"], id="signs of optional parts are tokens of their own"),
    ],
)
def test_the_texts_of_tokens(source: str, texts: list[str]) -> None:
    assert [text for _, text in _kinds(source)] == texts


def test_a_token_knows_its_place() -> None:
    assert [(token.text, token.start) for token in tokenize("a // b\n  && 'c'")] == [("a", 0), ("&&", 9), ("'c'", 12), ("", 15)]


@pytest.mark.parametrize("char", [*"=&|;@#$~^\\", "é", "\x00", "\u00a0", "\u2028", "\U0001f600"])
def test_a_character_that_begins_no_token_is_named_with_its_place(char: str) -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize(f"a  {char} b")
    assert [(span.start, text) for span, text in caught.value.faults] == [(3, f"{char!r} begins nothing that CEL knows")]


@pytest.mark.parametrize(
    ("source", "start"),
    [
        pytest.param("a == 'b", 5, id="string without an end"),
        pytest.param('"a\nb"', 0, id="short string over two lines"),
        pytest.param("'''a", 2, id="long string without an end"),
        pytest.param(r"'\q'", 0, id="unknown escape"),
        pytest.param(r"'\400'", 0, id="octal escape beyond a byte"),
        pytest.param(r"'\u12'", 0, id="short Unicode escape"),
        pytest.param(r"'\'", 0, id="escaped last quote"),
        pytest.param("a.``", 2, id="empty quoted name"),
        pytest.param("a.`b", 2, id="quoted name without an end"),
        pytest.param("a.`b$`", 2, id="quoted name with a sign that none has"),
    ],
)
def test_what_is_quoted_and_wrong_is_told_at_its_quote(source: str, start: int) -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize(source)
    text = "what is quoted here has no end, or something in it that CEL does not know"
    assert [(span.start, said) for span, said in caught.value.faults] == [(start, text)]


def test_a_selector_beyond_every_parser_is_not_even_cut() -> None:
    assert len(tokenize(" " * MOST_CHARACTERS)) == 1
    with pytest.raises(SelectorError) as caught:
        tokenize(" " * (MOST_CHARACTERS + 1))
    assert str(caught.value).splitlines()[0] == "1:1: the selector has 100001 characters; at most 100000 can be parsed"


@given(st.lists(st.sampled_from(["a", "1", "1.5", "'x'", "==", "(", ")", "&&", "in", "b'y'", "2u", "//c\n"]), max_size=30))
@settings(max_examples=100, deadline=None)
def test_what_lies_between_tokens_is_white_space_or_comment(parts: list[str]) -> None:
    source = " ".join(parts)
    tokens = tokenize(source)
    assert [token.text for token in tokens[:-1]] == [part for part in parts if not part.startswith("//")]
    assert all(source[token.start : token.start + len(token.text)] == token.text for token in tokens)
