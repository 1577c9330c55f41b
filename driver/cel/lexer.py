"""Splits a selector into tokens. The longest match wins, as in the grammar that Kubernetes uses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from driver.cel.errors import SelectorError, Span

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    r'[rR]"""(?s:.*?)"""|[rR]\'\'\'(?s:.*?)\'\'\''
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\''
    r'|[rR]"[^"\n\r]*"|[rR]\'[^\'\n\r]*\''
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"|\'(?:{_ESCAPE}|[^\\\'\n\r])*\''
)
_TOKEN = re.compile(
    rf"(?P<skip>(?:[\t \r\n\f]+|//[^\n]*)+)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
KEYWORDS = frozenset(("in", "true", "false", "null"))

MOST_CHARACTERS = 100_000
"""Beyond this CEL does not even parse (the API server's own limit is far lower)."""


@dataclass(slots=True)
class Token:
    """``kind`` is a group of the pattern above, ``end``, or for operators and keywords the text itself."""

    kind: str
    text: str
    start: int


def tokenize(source: str) -> list[Token]:
    """All tokens of a selector, and one of kind ``end``.

    Raises:
        SelectorError: a character that begins no token, or a selector longer than any parser takes.
    """
    if len(source) > MOST_CHARACTERS:
        raise SelectorError(
            source, [(Span(0), f"the selector has {len(source)} characters; at most {MOST_CHARACTERS} can be parsed")]
        )
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            raise SelectorError(source, [(Span(position), _describe(source[position]))])
        kind, text = str(found.lastgroup), found.group()
        if kind == "op" or text in KEYWORDS:
            kind = text
        if kind != "skip":
            tokens.append(Token(kind, text, position))
        position = found.end()
    tokens.append(Token("end", "", position))
    return tokens


def _describe(char: str) -> str:
    if char in "'\"`":
        return "what is quoted here has no end, or something in it that CEL does not know"
    return f"{char!r} begins nothing that CEL knows"
