"""YAML text to checked values: bounded, strict, and never more than plain data.

The text may come from a user. So nothing in it can name a Python type, repeat itself by anchors and aliases, nest without end,
say a key twice, or turn into something that it does not look like: YAML 1.1 reads ``06:00.0`` as a number in base 60 and ``no``
as false, this reader reads both as text.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
import yaml

from driver.errors import MachineInvalid
from driver.nvml.mock.hints import add_hint

MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 16
_MAX_NODES = 100_000

_T = TypeVar("_T")
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(_BASE):  # type: ignore[misc]
    """PyYAML's safe loader with YAML 1.2's few plain types, and unique keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own form

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key_node.start_mark)
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key_node.value!r} is there twice", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"-?(?:0|[1-9][0-9]{0,17})|0x[0-9a-fA-F]{1,15}", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}", "-0123456789"),
    ("null", r"null|~|", ["n", "~", ""]),
):
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def _check_events(text: str) -> None:
    """Refuses what must not even be composed.

    Raises:
        yaml.YAMLError: the text is no YAML, or more than plain data of a bounded size.
    """
    depth = documents = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=_BASE)):
        problem = None
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            problem = "anchors and aliases are not read: write the value out"
        elif getattr(event, "tag", None) is not None:
            problem = "tags such as !!str are not read: leave them away"
        elif depth > _MAX_DEPTH or nodes > _MAX_NODES or documents > 1:
            problem = f"more than one document, {_MAX_DEPTH} levels or {_MAX_NODES} nodes"
        if problem is not None:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def decode_yaml(data: bytes, kind: type[_T], *, source: str) -> _T:
    """``data`` as a ``kind``; ``source`` names it in errors.

    Raises:
        MachineInvalid: with the place in the text, or the path in the document, and what was expected there.
    """
    if len(data) > MAX_BYTES:
        raise MachineInvalid(f"{source}: {len(data)} bytes, but at most {MAX_BYTES} are read")
    try:
        text = data.decode("utf-8")
        _check_events(text)
        plain = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise MachineInvalid(f"{source}: no readable YAML: {_build_place(err)}") from err
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as err:
        raise MachineInvalid(f"{source}: {add_hint(str(err), kind)}") from err


def _build_place(err: Exception) -> str:
    mark = getattr(err, "problem_mark", None)
    if mark is None:
        return " ".join(str(err).split())[:300]
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(err, 'problem', None)}"
