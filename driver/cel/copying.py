"""Copies of trees: a macro that uses an argument twice needs two of it, since the checker notes types on nodes."""

from __future__ import annotations

from dataclasses import replace

from driver.cel.ast import Call, Entry, Fold, ListLiteral, MapLiteral, Message, Node, Select


def copy_tree(node: Node) -> tuple[Node, int]:
    """A copy, and how many nodes it has."""
    counter = [0]
    return _copy(node, counter), counter[0]


def _copy(node: Node, counter: list[int]) -> Node:  # noqa: PLR0911 - one for each kind
    counter[0] += 1
    match node:
        case Select():
            return replace(node, operand=_copy(node.operand, counter))
        case Call():
            target = None if node.target is None else _copy(node.target, counter)
            return replace(node, target=target, args=[_copy(arg, counter) for arg in node.args])
        case ListLiteral():
            return replace(node, elements=[_copy(element, counter) for element in node.elements])
        case MapLiteral():
            return replace(node, entries=_copy_entries(node.entries, counter))
        case Message():
            return replace(node, entries=_copy_entries(node.entries, counter))
        case Fold():
            return Fold(
                node.start,
                _copy(node.range, counter),
                node.var,
                node.var2,
                node.accu,
                _copy(node.init, counter),
                _copy(node.condition, counter),
                _copy(node.step, counter),
                _copy(node.result, counter),
            )
    return replace(node)


def _copy_entries(entries: list[Entry], counter: list[int]) -> list[Entry]:
    return [replace(entry, key=_copy(entry.key, counter), value=_copy(entry.value, counter)) for entry in entries]
