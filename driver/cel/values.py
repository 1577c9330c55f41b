"""The values that a selector computes with.

bool, int (64 bits), float, str, bytes, None, list, and the classes below. ``bool`` is a kind of ``int`` in Python and ``Uint``
too, so code asks for ``type(value)``, never ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from driver.cel.errors import EvaluationError

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
INT_MAX_AS_DOUBLE: Final = 9223372036854775808.0
UINT_MAX_AS_DOUBLE: Final = 18446744073709551616.0


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Duration:
    """A span of time in nanoseconds, 64 bits."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        if not INT_MIN <= ns <= INT_MAX:
            raise EvaluationError("duration overflow")
        self.ns = ns


TIMESTAMP_MIN_S: Final = -62135596800
TIMESTAMP_MAX_S: Final = 253402300799


class Timestamp:
    """A moment: nanoseconds since 1970, and the offset from UTC in which it was written."""

    __slots__ = ("ns", "offset_s")

    def __init__(self, ns: int, offset_s: int = 0) -> None:
        if not TIMESTAMP_MIN_S <= ns // 1_000_000_000 <= TIMESTAMP_MAX_S:
            raise EvaluationError("timestamp overflow")
        self.ns = ns
        self.offset_s = offset_s


class Optional:
    """A value that may be absent."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: Any = None, *, has_value: bool = True) -> None:
        self.value = value
        self.has_value = has_value


NONE: Final = Optional(has_value=False)


class MutableList(list[Any]):
    """What a macro gathers a list in: adding to it changes it, as in Kubernetes' evaluator."""

    __slots__ = ()


class Map:
    """A map. Keys of different types are different (1, 1u and true), and numbers are found across types."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[Any, Any]] = ()) -> None:
        self.entries: dict[Any, tuple[Any, Any]] = {}
        for key, value in entries:
            self.put(key, value)

    def put(self, key: Any, value: Any) -> None:
        """Set an entry; the last one of equal keys stays."""
        self.entries[key_of(key)] = (key, value)

    def drop(self, key: Any) -> None:
        """Remove an entry if it is there."""
        self.entries.pop(key_of(key), None)

    def find(self, key: Any) -> tuple[Any, Any] | None:
        """The entry of a key, or None."""
        kind = type(key)
        if kind is str:
            return self.entries.get(key)
        found = self.entries.get(key_of(key))
        if found is None and kind in (int, Uint, float):
            for other in _same_number(key):
                found = self.entries.get((type(other), other))
                if found is not None:
                    return found
        return found

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys with their values."""
        return iter(self.entries.values())

    def keys(self) -> list[Any]:
        """All keys."""
        return [key for key, _ in self.entries.values()]

    def __len__(self) -> int:
        return len(self.entries)


class MutableMap(Map):
    """What a macro gathers a map in."""

    __slots__ = ()


class DeviceMap(Map):
    """A map of the device itself, whose keys are all strings."""

    __slots__ = ()


class DomainMap(DeviceMap):
    """``device.attributes`` and ``device.capacity``: looking up an unknown domain finds an empty map."""

    __slots__ = ()

    def find(self, key: Any) -> tuple[Any, Any] | None:
        """The domain's map, or an empty one."""
        return super().find(key) or (key, EMPTY_MAP)


EMPTY_MAP: Final = Map()


def key_of(key: Any) -> Any:
    """What stands for a map key in a Python dict. Lists and maps are keys by identity, as in Kubernetes' evaluator."""
    kind = type(key)
    if kind is str:
        return key
    if kind in (bool, int, Uint, float, type(None)):
        return (kind, key)
    if kind is Duration or kind is Timestamp:
        return (kind, key.ns)
    return (kind, id(key))


def _same_number(key: Any) -> Iterator[Any]:
    """The same number in the other integer types, in the order in which they are looked up."""
    kind = type(key)
    if kind is not float:
        if kind is int and key >= 0:
            yield Uint(key)
        elif kind is Uint and key <= INT_MAX:
            yield int(key)
        return
    if not key.is_integer():
        return
    if -INT_MAX_AS_DOUBLE < key < INT_MAX_AS_DOUBLE:
        yield int(key)
    if 0 <= key < UINT_MAX_AS_DOUBLE:
        yield Uint(key)


def index_of(index: Any) -> int:
    """A list index as a number.

    Raises:
        EvaluationError: not a whole number.
    """
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is Uint and index <= INT_MAX:
        return int(index)
    if kind is float and index.is_integer() and -INT_MAX_AS_DOUBLE < index < INT_MAX_AS_DOUBLE:
        return int(index)
    raise EvaluationError(f"a list has no index {index!r:.60}")


def actual_size(value: Any) -> int:
    """What Kubernetes counts as the size of a value in its costs: 1 for all that has no size."""
    kind = type(value)
    if kind in (str, bytes, list, MutableList, Map, MutableMap, DeviceMap, DomainMap):
        return len(value)
    return value.cost_size if hasattr(value, "cost_size") else 1


def actual_size_inside(value: Any) -> int:
    """As ``actual_size``, of what an optional holds."""
    while type(value) is Optional and value.has_value:
        value = value.value
    return actual_size(value)
