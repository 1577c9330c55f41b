"""Selections such as ``device.attributes["domain"].?id``: what they find, step by step and quickly for the common forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from driver.cel.equality import LISTS, MAPS
from driver.cel.errors import EvaluationError
from driver.cel.messages import MessageValue
from driver.cel.steps import Run
from driver.cel.values import NONE, Optional, Uint, index_of


@dataclass(slots=True)
class Qualifier:
    """One selection: a key, and whether it may be missing, or is only asked for."""

    key: Run
    is_optional: bool = False
    is_test: bool = False
    constant: Any = None
    is_constant: bool = False


_MISSING: Final = object()
KEY_TYPES: Final = (str, int, Uint, bool, float)
"""What a selection can have as its key."""


def _look_up(value: Any, key: Any) -> Any:
    """What a selection finds, or ``_MISSING``.

    Raises:
        EvaluationError: the key is none for such a value.
    """
    if type(key) not in KEY_TYPES:
        raise EvaluationError("a value of this type cannot be a key")
    kind = type(value)
    if kind in MAPS:
        found = value.find(key)
        return _MISSING if found is None else found[1]
    if kind in LISTS:
        index = index_of(key)
        return value[index] if 0 <= index < len(value) else _MISSING
    if kind is MessageValue:
        if key not in value.fields:
            raise EvaluationError(f"a message {value.name} has no field {key}")
        return value.fields[key]
    return _MISSING


def select(root: Run, qualifiers: Sequence[Qualifier], *, cost: int | None) -> Run:
    """The general way. ``cost`` is that of the root, or None where costs are not counted."""
    is_counted = cost is not None
    is_test = bool(qualifiers) and qualifiers[-1].is_test
    absent = False if is_test else NONE

    def step(frame: Any) -> Any:
        if cost:
            frame.charge(cost)
        value = root(frame)
        is_optional = type(value) is Optional
        if is_optional:
            if not value.has_value:
                return False if is_test else value
            value = value.value
        for qualifier in qualifiers:
            is_optional = is_optional or qualifier.is_optional
            found = _follow(qualifier, frame, value, is_counted=is_counted, is_optional=is_optional)
            if found is _MISSING:
                return absent if is_optional else False
            value = found
        if is_test:
            return True
        return Optional(value) if is_optional else value

    return step


def _follow(qualifier: Qualifier, frame: Any, value: Any, *, is_counted: bool, is_optional: bool) -> Any:
    """One selection; ``_MISSING`` where that is an answer."""
    if is_counted and not is_optional:
        frame.charge(1)
    key = qualifier.key(frame)
    found = _look_up(value, key)
    if found is _MISSING and not is_optional and not qualifier.is_test:
        raise EvaluationError(f"no such key: {key!s:.80}")
    if is_counted and is_optional and found is not _MISSING:
        frame.charge(1)
    return found


def select_quickly(qualifiers: Sequence[Qualifier]) -> Run | None:
    """A selection of the device whose keys are all constant texts; None for those that have no quick way."""
    keys = [qualifier.constant for qualifier in qualifiers]
    plain = [not (qualifier.is_optional or qualifier.is_test) for qualifier in qualifiers]
    if not keys or not plain[0]:
        return None
    if len(keys) == 1:
        return _FIELDS.get(keys[0])
    if len(keys) != 3 or keys[0] not in ("attributes", "capacity") or not plain[1]:
        return None
    if type(keys[1]) is not str or type(keys[2]) is not str:
        return None
    return _select_leaf("known" if keys[0] == "attributes" else "amounts", (keys[1], keys[2]), qualifiers[2])


_FIELDS: dict[str, Run] = {
    "driver": lambda device: device.driver,
    "attributes": lambda device: device.attributes,
    "capacity": lambda device: device.capacity,
    "allowMultipleAllocations": lambda device: device.multi,
}


def _select_leaf(source: str, key: tuple[str, str], last: Qualifier) -> Run:
    is_known = source == "known"
    if last.is_test:
        return (lambda device: key in device.known) if is_known else (lambda device: key in device.amounts)
    if last.is_optional:

        def optional(device: Any) -> Optional:
            value = (device.known if is_known else device.amounts).get(key, _MISSING)
            return NONE if value is _MISSING else Optional(value)

        return optional

    def attribute(device: Any) -> Any:
        try:
            return device.known[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key[1]} (in {key[0]})") from None

    def amount(device: Any) -> Any:
        try:
            return device.amounts[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key[1]} (in {key[0]})") from None

    return attribute if is_known else amount
