"""Opaque parameters, read strictly: bounded, no key twice, every fault with its path. Knows no kind of config.

The API server checks nothing of what is inside of opaque parameters, so a lenient reader would turn a typing mistake into a
setting that silently does not apply (B67).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from driver.api.resource_v1 import OPAQUE_PARAMETERS_MAX_BYTES

MAX_DEPTH = 16
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


class OpaqueFault(ValueError):
    """The text as a whole cannot be read; the message says why."""


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which of its keys stood there twice."""

    twice: tuple[str, ...] = ()


def parse_object(text: bytes) -> Mapping[str, Any]:
    """The JSON object in ``text``; keys that stand twice are found by ``find_duplicates``.

    Raises:
        OpaqueFault: longer than the API allows, nested deeper than ``MAX_DEPTH``, no JSON, or no object.
    """
    if len(text) > OPAQUE_PARAMETERS_MAX_BYTES:
        raise OpaqueFault(f"{len(text)} bytes, at most {OPAQUE_PARAMETERS_MAX_BYTES} are allowed")
    if _depth(text) > MAX_DEPTH:
        raise OpaqueFault(f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_refuse_constant)
    except ValueError as err:
        raise OpaqueFault(f"not JSON ({err})") from err
    if not isinstance(value, dict):
        raise OpaqueFault(f"must be an object, not {describe(value)}")
    return value


def find_duplicates(value: object, path: str = "") -> list[str]:
    """One fault for each key that stands twice in an object that ``parse_object`` gave, at any depth."""
    faults: list[str] = []
    if isinstance(value, _Pairs):
        faults += [f"{join(path, key)}: stands there twice" for key in value.twice]
    if isinstance(value, dict):
        for key, each in value.items():
            faults += find_duplicates(each, join(path, key))
    if isinstance(value, list):
        for position, each in enumerate(value):
            faults += find_duplicates(each, f"{path}[{position}]")
    return faults


def validate_keys(value: Mapping[str, Any], allowed: Iterable[str], path: str = "") -> list[str]:
    """One fault for each key that is not allowed, with the key that was probably meant. Case counts."""
    names = sorted(allowed)
    by_folded = {name.casefold(): name for name in names}
    faults = []
    for key in value:
        if key in names:
            continue
        near = by_folded.get(key.casefold()) or next(iter(difflib.get_close_matches(key, names, n=1)), None)
        hint = f"; did you mean {near!r}?" if near else ""
        faults.append(f"{join(path, key)}: unknown field, allowed are {', '.join(names)}{hint}")
    return faults


def join(path: str, key: str) -> str:
    """``path.key``, and ``key`` alone at the top. A key that no field name could be is quoted and cut."""
    name = key if re.fullmatch(r"[\w-]{1,63}", key, re.ASCII) else repr(key[:63])
    return f"{path}.{name}" if path else name


def describe(value: object) -> str:
    """What a JSON value is, short enough for a message: ``'mps'``, ``a list``."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 64 else f"{text[:60]}...{text[-1]}"


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    made = _Pairs(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        made.twice = tuple(sorted({key for key in keys if keys.count(key) > 1}))
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _depth(text: bytes) -> int:
    """How deep brackets nest; counted before parsing, which would recurse."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(_STRING.sub(b"", text)):
        depth += 1 if match.group() in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
