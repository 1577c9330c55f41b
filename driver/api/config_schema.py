"""What the fields of a config may hold, as one table, and the faults of a value against it. Pure.

The node's prepare reads configs with ``find_faults``; the admission policy is generated from the same table
(``driver.api.admission``) and says the same words. So a word here must be one that CEL can say too: values are shown only where
they are short and plain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from driver.api.quantity import parse_quantity

PLAIN = r"^[A-Za-z0-9 ._:/+-]{0,63}$"
"""Text that a message may show as it is."""
DEVICE_KEY = r"^(0|[1-9][0-9]?|(GPU|MIG)-[A-Za-z0-9/-]{1,128})$"
"""A position, or a UUID as NVML says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    def words(self) -> str:
        """What is wrong with a value that is none of them."""
        return f"is not one of {', '.join(self.options)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number."""

    lowest: int
    highest: int

    def words(self) -> str:
        """What is wrong with another value."""
        return f"is no whole number from {self.lowest} to {self.highest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """An amount of memory, as a Kubernetes quantity or a number of bytes."""

    lowest: str
    highest: str

    def words(self) -> str:
        """What is wrong with another value."""
        return f"is no amount of memory from {self.lowest} to {self.highest} such as 10Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Yes or no."""

    def words(self) -> str:
        """What is wrong with another value."""
        return "is neither true nor false"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByDevice:
    """A map from devices, by position or by UUID, to values of one kind."""

    value: Memory
    key_words: str = "is no device: say its position (0 for the first) or its UUID (GPU-... or MIG-...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """An object."""

    fields: Mapping[str, Kind]
    required: tuple[str, ...] = ()
    only_with: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """A field that may stand there only while another field has a value."""


Kind: TypeAlias = Choice | Whole | Memory | Flag | ByDevice | Fields

NO_OBJECT = "is no object"
MISSING = "missing"
ODD_FIELD = "a field with an odd name"
ODD_NUMBER = "a number with a fraction or a very large one"


def find_faults(kind: Kind, value: Any, path: str = "") -> list[str]:
    """One line ``<path>: <what is wrong>`` for each fault of ``value``, at any depth. ``null`` is as good as absent."""
    if value is None:
        return []
    match kind:
        case Fields():
            return _find_object_faults(kind, value, path)
        case ByDevice():
            return _find_map_faults(kind, value, path)
        case _:
            return [] if _is_right(kind, value) else [f"{path}: {describe(value)} {kind.words()}"]


def describe(value: object) -> str:
    """The value in words, as the admission policy has them too."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) < 1 << 63:
            return str(value)
        case int() | float():
            return ODD_NUMBER
        case str():
            return f'"{value}"' if re.fullmatch(PLAIN, value, re.ASCII) else "a text that is not plain"
        case list():
            return "a list"
        case _:
            return "an object"


def build_unknown_words(names: Mapping[str, Kind]) -> str:
    """What is wrong with a field that is none of these."""
    return f"unknown field, allowed are {', '.join(sorted(names))}"


def build_only_with_words(other: str, option: str) -> str:
    """What is wrong with a field that stands beside the wrong value of ``other``."""
    return f"only for {other} {option}; leave it out"


def build_missing_words(kind: Kind) -> str:
    """What is wrong where a required field is not there."""
    return f"{MISSING}, allowed are {', '.join(kind.options)}" if isinstance(kind, Choice) else MISSING


def _find_object_faults(kind: Fields, value: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {describe(value)} {NO_OBJECT}"]
    prefix = f"{path}." if path else ""
    faults = []
    for name in value:
        if name not in kind.fields:
            shown = prefix + name if re.fullmatch(PLAIN, name, re.ASCII) and name else f"{prefix}{ODD_FIELD}"
            faults.append(f"{shown}: {build_unknown_words(kind.fields)}")
    for name, each in kind.fields.items():
        if name in kind.required and value.get(name) is None:
            faults.append(f"{prefix}{name}: {build_missing_words(each)}")
        faults += find_faults(each, value.get(name), f"{prefix}{name}")
    for name, (other, option) in kind.only_with.items():
        if value.get(name) is not None and _is_other_choice(kind.fields[other], value.get(other), option):
            faults.append(f"{prefix}{name}: {build_only_with_words(other, option)}")
    return faults


def _is_other_choice(kind: Kind, value: Any, option: str) -> bool:
    """A value that is allowed and another one: what is wrong altogether has been said already."""
    return isinstance(kind, Choice) and _is_right(kind, value) and value != option


def _find_map_faults(kind: ByDevice, value: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {describe(value)} {NO_OBJECT}"]
    faults = []
    for key, each in value.items():
        if re.fullmatch(DEVICE_KEY, key, re.ASCII) is None:
            faults.append(f"{path}: {describe(key)} {kind.key_words}")
        elif each is None:
            faults.append(f"{path}[{key}]: {MISSING}")
        else:
            faults += find_faults(kind.value, each, f"{path}[{key}]")
    return faults


def _is_right(kind: Choice | Whole | Memory | Flag, value: Any) -> bool:
    match kind:
        case Flag():
            return isinstance(value, bool)
        case Choice():
            return isinstance(value, str) and value in kind.options
        case Whole():
            return isinstance(value, int) and not isinstance(value, bool) and kind.lowest <= value <= kind.highest
        case Memory():
            return _is_memory(kind, value)


def _is_memory(kind: Memory, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return False
    try:
        amount = parse_quantity(str(value))
    except ValueError:
        return False
    return parse_quantity(kind.lowest) <= amount <= parse_quantity(kind.highest)
