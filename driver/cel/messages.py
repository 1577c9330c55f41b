"""Protobuf messages that a selector can build: the well-known ones, most of which are plain values."""

from __future__ import annotations

from typing import Any

from driver.cel.errors import EvaluationError
from driver.cel.values import Duration, Map, Timestamp, Uint

_NANOS = 1_000_000_000
_ZEROS: dict[str, Any] = {
    "google.protobuf.BoolValue": False,
    "google.protobuf.BytesValue": b"",
    "google.protobuf.DoubleValue": 0.0,
    "google.protobuf.FloatValue": 0.0,
    "google.protobuf.Int32Value": 0,
    "google.protobuf.Int64Value": 0,
    "google.protobuf.StringValue": "",
    "google.protobuf.UInt32Value": Uint(0),
    "google.protobuf.UInt64Value": Uint(0),
}


class MessageValue:
    """A message without a CEL value of its own."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields

    def identity(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What makes two messages equal."""
        return self.name, tuple(sorted((name, repr(value)) for name, value in self.fields.items()))


def build_message(name: str, fields: dict[str, Any]) -> Any:
    """The value of a message.

    Raises:
        EvaluationError: it has no value, or a field does not fit.
    """
    if name in _ZEROS:
        return _wrapped(name, fields.get("value", _ZEROS[name]))
    if name in ("google.protobuf.Duration", "google.protobuf.Timestamp"):
        return _time(name, fields)
    if name == "google.protobuf.Struct":
        return fields.get("fields", Map())
    if name == "google.protobuf.ListValue":
        return fields.get("values", [])
    if name == "google.protobuf.Value":
        return next(reversed(fields.values())) if fields else None
    if name == "google.protobuf.Empty":
        return MessageValue(name, {})
    raise EvaluationError(f"a message of type {name} cannot be made")


def _wrapped(name: str, value: Any) -> Any:
    if type(value) is not type(_ZEROS[name]):
        raise EvaluationError(f"the value of {name} is of another type")
    if "32" in name and not -(1 << 31) <= value < (1 << (31 if name.endswith("Int32Value") and "U" not in name else 32)):
        raise EvaluationError("integer overflow")
    return value


def _time(name: str, fields: dict[str, Any]) -> Any:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if type(seconds) is not int or type(nanos) is not int:
        raise EvaluationError(f"the fields of {name} are integers")
    total = seconds * _NANOS + nanos
    return Duration(total) if name.endswith("Duration") else Timestamp(total)
