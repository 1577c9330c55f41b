"""What would be right instead: a few words after an error of msgspec, which says only what was wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import inspect

_UNKNOWN_KEY = re.compile(r"unknown field `([^`]{1,80})`")
_UNKNOWN_WORD = re.compile(r"Invalid (?:enum )?value '([^']{1,80})'")
_NUMBER_FOR_TEXT = re.compile(r"Expected `str(?: \| [^`]*)?`, got `(?:int|float)`")
_NO_LIST = re.compile(r"Expected `array`, got ")
_PATH = re.compile(r" - at (`key` in )?`\$([^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def add_hint(message: str, kind: Any) -> str:
    """``message``, of a ``msgspec.ValidationError`` for ``kind``, and what would be right where that can be told."""
    path = _PATH.search(message)
    nodes = _resolve(inspect.type_info(kind), path[2] if path else "", is_key=bool(path and path[1]))
    hint = _find_hint(message, nodes)
    return f"{message}; {hint}" if hint else message


def _find_hint(message: str, nodes: list[inspect.Type]) -> str:
    key, word = _UNKNOWN_KEY.search(message), _UNKNOWN_WORD.search(message)
    if key:
        return _nearest(key[1], [field.encode_name for node in nodes for field in getattr(node, "fields", ())])
    if word:
        return _nearest(word[1], _words(nodes))
    if _NUMBER_FOR_TEXT.search(message):
        return "write it in quotes" + next((f', such as "{example}"' for example in _examples(nodes)), "")
    if _NO_LIST.search(message):
        return "write a list, [a, b], also for one"
    return next((f"such as {example}" for example in _examples(nodes) if "matching regex" in message), "")


def _nearest(word: str, known: Iterable[str]) -> str:
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(names)}" if names else ""


def _words(nodes: Iterable[inspect.Type]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, inspect.LiteralType):
            yield from map(str, node.values)
        elif isinstance(node, inspect.EnumType):
            yield from (str(member.value) for member in node.cls)


def _examples(nodes: Iterable[inspect.Type]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, inspect.Metadata):
            yield from (node.extra_json_schema or {}).get("examples", [])


def _resolve(root: inspect.Type, path: str, *, is_key: bool) -> list[inspect.Type]:
    """What may stand at ``path``, as msgspec writes paths: ``.gpus[0].pci``, with ``[...]`` for a mapping's value."""
    nodes = [root]
    for step in _STEP.finditer(path):
        nodes = [inner for node in _flatten(nodes) for inner in _inside(node, step[1])]
    if is_key:
        nodes = [node.key_type for node in _flatten(nodes) if isinstance(node, inspect.DictType)]
    return list(_flatten(nodes))


def _flatten(nodes: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """The types of unions, and what has metadata besides the metadata."""
    for node in nodes:
        yield node
        if isinstance(node, inspect.UnionType):
            yield from _flatten(node.types)
        elif isinstance(node, inspect.Metadata):
            yield from _flatten([node.type])


def _inside(node: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    if isinstance(node, inspect.StructType):
        if name is not None and name == node.tag_field:
            yield inspect.LiteralType((node.tag,))
        yield from (field.type for field in node.fields if field.encode_name == name)
    elif name is None and isinstance(node, inspect.CollectionType):
        yield node.item_type
    elif name is None and isinstance(node, inspect.DictType):
        yield node.value_type
