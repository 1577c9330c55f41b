"""The tokens of a selector as a parser takes them, and the limits on nesting."""

from __future__ import annotations

from typing import NoReturn

from driver.cel.ast import Node
from driver.cel.errors import SelectorError, Span
from driver.cel.lexer import Token, tokenize

MOST_NESTED = 250
"""How deep each rule of the grammar may nest."""


class TokenStream:
    """Tokens, one after the other. ``kind`` is that of the next one."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens = tokenize(source)
        self._at = 0
        self._depths = dict.fromkeys(("expr", "relation", "calc", "member"), 0)

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self._tokens[self._at].kind

    @property
    def shown(self) -> str:
        """The next token as messages name it."""
        return repr(self.token.text) if self.token.text else "the end"

    def peek(self, ahead: int) -> Token:
        """A token further on."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def next(self, count: int = 1) -> Token:
        """Take tokens, and answer the first of them."""
        token = self._tokens[self._at]
        self._at = min(self._at + count, len(self._tokens) - 1)
        return token

    def take(self, kind: str) -> Token | None:
        """The next token if it is of this kind."""
        return self.next() if self.kind == kind else None

    def expect(self, kind: str) -> Token:
        """The next token, which must be of this kind."""
        if self.kind != kind:
            wanted = "a name" if kind == "name" else repr(kind)
            self.fail(f"{wanted} is missing before {self.shown}")
        return self.next()

    def fail(self, text: str, start: int | None = None) -> NoReturn:
        """End with an error at the next token, or at an offset."""
        span = Span(self.token.start, max(1, len(self.token.text))) if start is None else Span(start)
        raise SelectorError(self.source, [(span, text)])

    def fail_here(self) -> NoReturn:
        """End because the next token cannot stand here."""
        self.fail(f"{self.token.text!r} does not belong here" if self.token.text else "the selector ends too early")

    def enter(self, rule: str) -> None:
        """Note that a rule of the grammar begins."""
        self._depths[rule] += 1
        if self._depths[rule] > MOST_NESTED:
            self.fail(f"this is nested too deeply; at most {MOST_NESTED} levels parse")

    def leave(self, rule: str) -> None:
        """Note that one ends."""
        self._depths[rule] -= 1

    def nested(self, node: Node, *parts: Node, is_counted: bool = True) -> Node:
        """The node, with its depth noted and checked."""
        node.depth = max((part.depth for part in parts), default=0) + is_counted
        if node.depth > MOST_NESTED:
            self.fail(f"this is nested too deeply; at most {MOST_NESTED} levels parse", node.start)
        return node
