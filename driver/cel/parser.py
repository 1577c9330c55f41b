"""Parses a selector, with the limits that Kubernetes' parser has: what is nested too deeply does not parse there either."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from driver.cel.ast import Call, Entry, Ident, ListLiteral, Literal, MapLiteral, Message, Node, Select
from driver.cel.lexer import Token
from driver.cel.literals import parse_bytes, parse_float, parse_int, parse_string, parse_uint
from driver.cel.macros import Expander, MacroError
from driver.cel.token_stream import TokenStream

_RESERVED = (
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
    *("package", "namespace", "return", "var", "void", "while"),
)
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_FRAMES_NEEDED = 12_000
_LITERALS: dict[str, Callable[[str], object]] = {
    "int": parse_int,
    "uint": parse_uint,
    "float": parse_float,
    "string": parse_string,
    "bytes": parse_bytes,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}


def parse(source: str) -> Node:
    """The tree of a selector, macros expanded.

    Raises:
        SelectorError: it does not parse; the error has the first fault only.
    """
    _grant_frames()
    return _Parser(source).parse()


def _grant_frames() -> None:
    # The deepest tree that the limits allow needs more frames than Python grants at first. Python's own calls take no C stack.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_NEEDED))


# Once early too: who raises the limit for a while and puts back what it found would complain about a change meanwhile.
_grant_frames()


class _Parser(TokenStream):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._expander = Expander()

    def parse(self) -> Node:
        node = self._expression()
        if self.kind != "end":
            self.fail_here()
        return node

    def _expression(self) -> Node:
        self.enter("expr")
        node = self._logical("||", "_||_", lambda: self._logical("&&", "_&&_", self._relation))
        mark = self.take("?")
        if mark is not None:
            yes = self._logical("||", "_||_", lambda: self._logical("&&", "_&&_", self._relation))
            self.expect(":")
            no = self._expression()
            node = self.nested(Call(mark.start, "_?_:_", [node, yes, no]), node, yes, no)
        self.leave("expr")
        return node

    def _logical(self, sign: str, function: str, term: Callable[[], Node]) -> Node:
        first = term()
        if self.kind != sign:
            return first
        terms, start = [first], self.token.start
        while self.take(sign):
            terms.append(term())
        return self.nested(Call(start, function, terms), *terms, is_counted=False)

    def _relation(self) -> Node:
        self.enter("relation")
        node = self._sum()
        while self.kind in _RELATIONS:
            operator = self.next()
            self.enter("relation")
            right = self._sum()
            self.leave("relation")
            node = self.nested(Call(operator.start, _RELATIONS[operator.kind], [node, right]), node, right)
        self.leave("relation")
        return node

    def _sum(self) -> Node:
        self.enter("calc")
        node = self._product(self._unary())
        while self.kind in _SUMS:
            operator = self.next()
            self.enter("calc")
            right = self._product(self._unary())
            self.leave("calc")
            node = self.nested(Call(operator.start, _SUMS[operator.kind], [node, right]), node, right)
        self.leave("calc")
        return node

    def _product(self, node: Node) -> Node:
        while self.kind in _PRODUCTS:
            operator = self.next()
            self.enter("calc")
            right = self._unary()
            self.leave("calc")
            node = self.nested(Call(operator.start, _PRODUCTS[operator.kind], [node, right]), node, right)
        return node

    def _unary(self) -> Node:
        start, sign = self.token.start, self.kind
        if sign not in ("!", "-") or (sign == "-" and self.peek(1).kind in ("int", "float")):
            return self._member()
        count = 0
        while self.kind == sign:
            # Of several minus signs the last one is an operator too, even before a number.
            self.next()
            count += 1
        node = self._member(may_be_negative=sign == "!")
        if count % 2 == 0:
            return node
        return self.nested(Call(start, "!_" if sign == "!" else "-_", [node]), node, is_counted=False)

    def _member(self, *, may_be_negative: bool = True) -> Node:
        self.enter("member")
        node = self._primary(may_be_negative=may_be_negative)
        while self.kind in (".", "["):
            node = self._index(node) if self.kind == "[" else self._select(node)
        self.leave("member")
        return node

    def _index(self, target: Node) -> Node:
        start = self.next().start
        function = "_[?_]" if self.take("?") else "_[_]"
        index = self._expression()
        self.expect("]")
        return self.nested(Call(start, function, [target, index]), target, index)

    def _select(self, target: Node) -> Node:
        start = self.next().start
        is_optional = self.take("?") is not None
        name = self.token
        if name.kind not in ("name", "quoted"):
            self.fail(f"{self.shown} is no field name")
        self.next()
        field = name.text if name.kind == "name" else name.text[1:-1]
        if is_optional:
            return self.nested(Call(start, "_?._", [target, Literal(name.start, field)]), target)
        if name.kind == "name" and self.kind == "(":
            open_at = self.next().start
            args = self._arguments()
            return self.nested(self._expanded(Call(open_at, field, args, target)), target, *args)
        return self.nested(Select(start, target, field), target)

    def _arguments(self) -> list[Node]:
        if self.take(")"):
            return []
        args = [self._expression()]
        while self.take(","):
            args.append(self._expression())
        self.expect(")")
        return args

    def _expanded(self, call: Call) -> Node:
        try:
            return self._expander.expand(call)
        except MacroError as err:
            self.fail(str(err), err.start)

    def _primary(self, *, may_be_negative: bool) -> Node:
        token = self.token
        if token.kind == "-" and may_be_negative and self.peek(1).kind in ("int", "float"):
            self.next()
            number = self.next()
            return self._literal(Token(number.kind, "-" + number.text, token.start))
        if token.kind in _LITERALS:
            return self._literal(self.next())
        if token.kind in ("name", "."):
            return self._name()
        if token.kind == "(":
            self.next()
            node = self._expression()
            self.expect(")")
            return node
        if token.kind not in ("[", "{"):
            self.fail_here()
        self.next()
        return self._list(token.start) if token.kind == "[" else self._map(token.start)

    def _literal(self, token: Token) -> Node:
        try:
            return Literal(token.start, _LITERALS[token.kind](token.text))
        except ValueError as err:
            self.fail(str(err), token.start)

    def _name(self) -> Node:
        start = self.token.start
        dot = "." if self.take(".") else ""
        name = self.expect("name").text
        message = self._message_name(name)
        if message is not None:
            return self._message(start, dot + message)
        if name in _RESERVED:
            self.fail(f"{name!r} is a reserved word", start)
        if self.kind == "(":
            open_at = self.next().start
            args = self._arguments()
            return self.nested(self._expanded(Call(open_at, dot + name, args)), *args, is_counted=False)
        return Ident(start, dot + name)

    def _message_name(self, first: str) -> str | None:
        """The name before ``{``, which is taken then; None, and nothing taken, if there is none."""
        ahead, name = 0, first
        while self.peek(ahead).kind == "." and self.peek(ahead + 1).kind == "name":
            name += "." + self.peek(ahead + 1).text
            ahead += 2
        if self.peek(ahead).kind != "{":
            return None
        self.next(ahead)
        return name

    def _message(self, start: int, name: str) -> Node:
        self.next()
        entries: list[Entry] = []
        for _ in self._until("}"):
            is_optional = self.take("?") is not None
            field = self.token
            if field.kind not in ("name", "quoted"):
                self.fail(f"{self.shown} is no field name")
            self.next()
            colon = self.expect(":").start
            text = field.text if field.kind == "name" else field.text[1:-1]
            entries.append(Entry(colon, Literal(field.start, text), self._expression(), is_optional))
        node = Message(start, name, entries)
        return self.nested(node, *(entry.value for entry in entries), is_counted=False)

    def _list(self, start: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        for _ in self._until("]"):
            if self.take("?"):
                optional.add(len(elements))
            elements.append(self._expression())
        return self.nested(ListLiteral(start, elements, frozenset(optional)), *elements, is_counted=False)

    def _map(self, start: int) -> Node:
        entries: list[Entry] = []
        for _ in self._until("}"):
            is_optional = self.take("?") is not None
            key = self._expression()
            colon = self.expect(":").start
            entries.append(Entry(colon, key, self._expression(), is_optional))
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return self.nested(MapLiteral(start, entries), *parts, is_counted=False)

    def _until(self, closer: str) -> Iterator[None]:
        """Stops before each element, and takes the commas between them and the closer."""
        if self.take(","):
            self.expect(closer)
            return
        while not self.take(closer):
            yield
            if not self.take(","):
                self.expect(closer)
                return
