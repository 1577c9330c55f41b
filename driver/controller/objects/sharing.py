"""One object for all that are equal: what the API sends 80,000 times would otherwise be there as often."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_MOST = 4096
NOTHING: dict[str, Any] = {}
"""Stands for all dictionaries without entries; nobody writes to any that was decoded."""
Value = TypeVar("Value")


class Shared(Generic[Value]):
    """Equal values are one object as long as there are few; where each is another one, none is kept here."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: dict[Hashable, Value] | None = {}

    def of(self, key: Hashable, value: Value) -> Value:
        """The object that stands for ``key``: ``value`` where it is the first."""
        if self._known is None:
            return value
        known = self._known.setdefault(key, value)
        if len(self._known) > self._most:
            self._known = None
        return known
