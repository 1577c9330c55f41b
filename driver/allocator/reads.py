"""What of a device a selector reads, so that devices that agree on that need only be asked about once.

Ten thousand nodes have eighty thousand devices, and most selectors read a product's name or a driver's version, of which there
are a handful. The answer is told from the text alone, and only where it is certain: each mention of ``device`` leads straight
to one attribute or capacity by constant names. Everything else reads the whole device.
"""

from __future__ import annotations

from typing import NamedTuple

from driver.cel.ast import Call, Fold, Ident, Literal, Node, Select, children

_MAPS = ("attributes", "capacity")
_FIELDS = ("driver", "allowMultipleAllocations")


class Read(NamedTuple):
    """One attribute or capacity, or a field of the device itself (with no domain)."""

    kind: str
    """``attributes``, ``capacity``, or a field's name."""
    domain: str = ""
    name: str = ""


def find_reads(root: Node) -> frozenset[Read] | None:
    """Everything that the selector reads; None where that is not certain."""
    reads: set[Read] = set()
    rest = [root]
    while rest:
        node = rest.pop()
        read = _read_of(node)
        if read is not None:
            reads.add(read)
        elif _is_device(node) or (isinstance(node, Fold) and "device" in (node.var, node.var2, node.accu)):
            return None
        else:
            rest += children(node)
    return frozenset(reads)


def _read_of(node: Node) -> Read | None:
    if isinstance(node, Select):
        if _is_device(node.operand) and node.field in _FIELDS:
            return Read(node.field)
        return _within(node.operand, node.field)
    if isinstance(node, Call) and node.function in ("_[_]", "_?._") and len(node.args) == 2:
        name = node.args[1]
        return _within(node.args[0], name.value) if isinstance(name, Literal) and isinstance(name.value, str) else None
    return None


def _within(domain: Node, name: str) -> Read | None:
    """``device.<map>["<domain>"]`` with a name behind it."""
    if not isinstance(domain, Call) or domain.function != "_[_]" or len(domain.args) != 2:
        return None
    of, key = domain.args
    is_map = isinstance(of, Select) and of.field in _MAPS and not of.is_test and _is_device(of.operand)
    if isinstance(of, Select) and is_map and isinstance(key, Literal) and isinstance(key.value, str):
        return Read(of.field, key.value, name)
    return None


def _is_device(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == "device"
