"""The tree that a selector is parsed into. The checker notes types and overloads on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driver.cel.types import Type

ACCUMULATOR = "@result"
"""The variable in which a macro gathers its result. It cannot be written in a selector."""

UNUSED = "#unused"
"""The iteration variable of ``cel.bind``, which iterates over nothing."""


@dataclass(slots=True, eq=False)
class Node:
    """Base of all nodes. ``start`` is the offset that messages point at; ``depth`` is bounded by the parser."""

    start: int
    depth: int = field(default=0, kw_only=True)
    type: Type = field(init=False, repr=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant of the text: bool, int, Uint, float, str, bytes or None."""

    value: object


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name. The checker sets ``name`` to what was meant, and ``value`` if it is a type or a constant."""

    name: str
    value: object = None
    is_constant: bool = False
    is_global: bool = False


@dataclass(slots=True, eq=False)
class Select(Node):
    """``operand.field``; with ``is_test`` it is ``has(operand.field)``. ``ident`` is set if it turned out to be one name."""

    operand: Node
    field: str
    is_test: bool = False
    ident: Ident | None = None


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call of a function or operator; ``overloads`` are the ids of all that can apply."""

    function: str
    args: list[Node]
    target: Node | None = None
    overloads: tuple[str, ...] = ()

    def operands(self) -> list[Node]:
        """Target and arguments, in the order in which they are evaluated."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """``[a, ?b]``; ``optional`` are the positions with a question mark."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a map or a field of a message."""

    start: int
    key: Node
    value: Node
    is_optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """``{k: v, ?k: v}``."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Message(Node):
    """``some.Type{field: value}``; the key of each entry is the field's name as a literal."""

    name: str
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Fold(Node):
    """What the macros become: a loop over ``range`` that gathers ``accu``. ``cel.bind`` is one over nothing."""

    range: Node
    var: str
    var2: str
    accu: str
    init: Node
    condition: Node
    step: Node
    result: Node

    @property
    def is_bind(self) -> bool:
        """No loop: the accumulator is a local variable of ``result``."""
        return (
            isinstance(self.range, ListLiteral)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
        )


def children(node: Node) -> list[Node]:  # noqa: PLR0911 - one for each kind
    """The direct children of a node, in the order of the text."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands()
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Message():
            return [entry.value for entry in node.entries]
        case Fold():
            return [node.range, node.init, node.condition, node.step, node.result]
    return []


def qualified_name(node: Node) -> str | None:
    """``a.b.c`` as one name, if the node is nothing else."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))
