"""What the cost estimate knows of values: their sizes, and those of what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from driver.cel.ast import ListLiteral, Literal, MapLiteral, Node
from driver.cel.intervals import ONE, ZERO, Interval, exactly
from driver.cel.types import Kind, Type

_SCALARS = (Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT)


@dataclass(frozen=True, slots=True)
class Entries:
    """What is known of the sizes of a container's keys and values."""

    is_list: bool
    key: Interval
    value: Interval


@dataclass(frozen=True, slots=True)
class Variable:
    """A local variable: where it comes from, and its sizes."""

    path: tuple[str, ...]
    size: Interval | None
    entries: Entries | None


def union_all(sizes: list[Interval]) -> Interval:
    """What holds all sizes."""
    total = sizes[0] if sizes else ZERO
    for size in sizes[1:]:
        total = total.union(size)
    return total


def union_entries(one: Entries | None, other: Entries | None) -> Entries | None:
    """What holds both, if something is known of both."""
    if one is None or other is None:
        return None
    return Entries(one.is_list, one.key.union(other.key), one.value.union(other.value))


def literal_size(node: Node) -> Interval | None:
    """The size of what is written out."""
    match node:
        case Literal():
            return exactly(len(node.value)) if isinstance(node.value, str | bytes) else ONE
        case ListLiteral():
            return exactly(len(node.elements))
        case MapLiteral():
            return exactly(len(node.entries))
    return None


def is_scalar(kind: Type) -> bool:
    """Whether values of the type have no size of their own."""
    if kind.kind is Kind.OPAQUE and kind.name == "optional_type":
        return is_scalar(kind.parameters[0])
    return kind.kind in _SCALARS
