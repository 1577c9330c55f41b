"""Static types of CEL, as the checker knows them. Types are compared by value; each is made once and kept."""

from __future__ import annotations

from enum import IntEnum, auto
from functools import lru_cache


class Kind(IntEnum):
    """Families of types that the rules tell apart."""

    ANY = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    DURATION = auto()
    DYN = auto()
    ERROR = auto()
    INT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    OPAQUE = auto()
    STRING = auto()
    STRUCT = auto()
    TIMESTAMP = auto()
    TYPE = auto()
    PARAM = auto()
    UINT = auto()


class TypeTooLarge(Exception):
    """A type of types of types: a short selector can name one that no machine can hold."""


_MOST_PARTS = 4096


class Type:
    """A type. Use the constants and functions below: equal types are the same object."""

    __slots__ = ("is_nullable", "kind", "name", "parameters", "weight")

    def __init__(self, kind: Kind, name: str, parameters: tuple[Type, ...] = (), *, is_nullable: bool = False) -> None:
        self.kind = kind
        self.name = name
        self.parameters = parameters
        self.is_nullable = is_nullable
        self.weight: int = 1 + sum(part.weight for part in parameters)
        if self.weight > _MOST_PARTS:
            raise TypeTooLarge

    def __repr__(self) -> str:
        return self.full_name()

    def full_name(self) -> str:
        """As Kubernetes names it: ``list(string)``, ``google.protobuf.Any``."""
        if self.kind is Kind.PARAM:
            return f"<{self.name}>"
        name = f"wrapper({self.name})" if self.is_nullable else self.name
        return f"{name}({', '.join(map(Type.full_name, self.parameters))})" if self.parameters else name

    def short_name(self) -> str:
        """As messages name it: ``any``, ``duration``."""
        short = _SHORT.get(self.kind, self.name)
        return f"{short}({', '.join(map(Type.short_name, self.parameters))})" if self.parameters else short

    def is_assignable_from(self, other: Type) -> bool:
        """Whether a value of the other type can stand for one of this, without type parameters being bound."""
        if self.is_nullable and other.kind is Kind.NULL:
            return True
        if self is other or self.kind in _OPEN:
            return True
        return (
            self.kind is other.kind
            and self.name == other.name
            and len(self.parameters) == len(other.parameters)
            and all(mine.is_assignable_from(theirs) for mine, theirs in zip(self.parameters, other.parameters, strict=True))
        )

    def is_same(self, other: Type, *, by_name: bool = True) -> bool:
        """The same type; with ``by_name`` off, type parameters of any name are the same."""
        if self is other:
            return True
        if self.kind is not other.kind or len(self.parameters) != len(other.parameters):
            return False
        if (by_name or self.kind is not Kind.PARAM) and self.name != other.name:
            return False
        return all(
            mine.is_same(theirs, by_name=by_name) for mine, theirs in zip(self.parameters, other.parameters, strict=True)
        )


_SHORT = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}
_OPEN = (Kind.DYN, Kind.ANY, Kind.PARAM)

ANY = Type(Kind.ANY, "google.protobuf.Any")
BOOL = Type(Kind.BOOL, "bool")
BYTES = Type(Kind.BYTES, "bytes")
DOUBLE = Type(Kind.DOUBLE, "double")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "error")
INT = Type(Kind.INT, "int")
NULL = Type(Kind.NULL, "null_type")
STRING = Type(Kind.STRING, "string")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")
UINT = Type(Kind.UINT, "uint")


@lru_cache(maxsize=4096)
def list_of(element: Type) -> Type:
    """``list(element)``."""
    return Type(Kind.LIST, "list", (element,))


@lru_cache(maxsize=4096)
def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``."""
    return Type(Kind.MAP, "map", (key, value))


@lru_cache(maxsize=4096)
def opaque(name: str, *parameters: Type) -> Type:
    """A type that only its own functions understand."""
    return Type(Kind.OPAQUE, name, parameters)


def optional_of(element: Type) -> Type:
    """``optional_type(element)``."""
    return opaque("optional_type", element)


@lru_cache(maxsize=4096)
def type_of(named: Type) -> Type:
    """The type of a type's name."""
    return Type(Kind.TYPE, "type", (named,))


@lru_cache(maxsize=4096)
def parameter(name: str) -> Type:
    """A type parameter."""
    return Type(Kind.PARAM, name)


@lru_cache(maxsize=256)
def struct(name: str) -> Type:
    """A type with fields, or one of Kubernetes' own (``kubernetes.Quantity``)."""
    return Type(Kind.STRUCT, name)


@lru_cache(maxsize=32)
def nullable(wrapped: Type) -> Type:
    """A protobuf wrapper: the type itself, or null."""
    return Type(wrapped.kind, wrapped.name, wrapped.parameters, is_nullable=True)


LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = optional_of(DYN)
QUANTITY = struct("kubernetes.Quantity")
SEMVER = struct("kubernetes.Semver")
URL = struct("kubernetes.URL")
NAMED_FORMAT = struct("kubernetes.NamedFormat")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
DEVICE = struct("kubernetes.DRADevice")


def is_dyn(this: Type) -> bool:
    """Whether nothing is known about values of the type."""
    return this.kind in (Kind.DYN, Kind.ANY)


def is_dyn_or_error(this: Type) -> bool:
    """As ``is_dyn``, or something that was refused already."""
    return this.kind in (Kind.DYN, Kind.ANY, Kind.ERROR)


def unwrap_optional(this: Type) -> tuple[Type, bool]:
    """What an optional holds, and whether it is one."""
    if this.kind is Kind.OPAQUE and this.name == "optional_type":
        return this.parameters[0], True
    return this, False
