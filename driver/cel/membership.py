"""``x in ["a", "b"]``: with constants in the list it is one look-up, with Kubernetes' rules for numbers of different types."""

from __future__ import annotations

import math
from typing import Any

from driver.cel.errors import EvaluationAborted
from driver.cel.hashing import UNHASHABLE
from driver.cel.steps import Run
from driver.cel.values import INT_MAX, INT_MAX_AS_DOUBLE, UINT_MAX_AS_DOUBLE, Uint, key_of


def in_constant_list(wanted: Run, items: list[Any]) -> Run | None:
    """The look-up; None if an element is of a type that Kubernetes does not look up in this way."""
    keys: set[Any] = set()
    for item in items:
        kind = type(item)
        if kind not in (str, bool, int, Uint, float):
            return None
        keys.add(key_of(item))
        keys.update(key_of(other) for other in _also(item))

    def step(frame: Any) -> bool:
        value = wanted(frame)
        if type(value) in UNHASHABLE:
            raise EvaluationAborted("a value of this type cannot be looked up in a list of constants")
        return key_of(value) in keys

    return step


def _also(item: Any) -> list[Any]:
    """The same number in other types."""
    kind = type(item)
    if kind is int:
        return [float(item), *([Uint(item)] if item >= 0 else [])]
    if kind is Uint:
        return [float(int(item)), *([int(item)] if item <= INT_MAX else [])]
    if kind is not float or math.isnan(item):
        return []
    others: list[Any] = []
    if -INT_MAX_AS_DOUBLE < item < INT_MAX_AS_DOUBLE and item.is_integer():
        others.append(int(item))
    if 0 <= item < UINT_MAX_AS_DOUBLE and item.is_integer():
        others.append(Uint(int(item)))
    return others
