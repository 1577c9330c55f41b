"""Type parameters: which are bound to what, and whether one type can stand for another."""

from __future__ import annotations

from collections.abc import Sequence

from driver.cel.types import DYN, Kind, Type, is_dyn, is_dyn_or_error, list_of, map_of, opaque, type_of

_LEGACY_NULLABLE = (Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP)
_MOST_STEPS = 20_000


class Bindings:
    """Type parameters by name, with what each is bound to. A failed attempt changes nothing."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._steps = 0

    def find(self, this: Type) -> Type | None:
        """What a type parameter is bound to."""
        return self._bound.get(this.name) if this.kind is Kind.PARAM else None

    def is_assignable(self, one: Type, other: Type) -> bool:
        """Whether one can stand for the other; binds parameters if so."""
        return self.are_assignable((one,), (other,))

    def are_assignable(self, ones: Sequence[Type], others: Sequence[Type]) -> bool:
        """As ``is_assignable``, for all at once."""
        before = dict(self._bound)
        if len(ones) == len(others) and all(self._unify(a, b) for a, b in zip(ones, others, strict=True)):
            return True
        self._bound = before
        return False

    def substitute(self, this: Type, *, free_is_dyn: bool) -> Type:
        """The type with bound parameters replaced; with ``free_is_dyn`` the others become dyn."""
        if this.kind is Kind.PARAM:
            bound = self._bound.get(this.name)
            if bound is not None:
                return self.substitute(bound, free_is_dyn=free_is_dyn)
            return DYN if free_is_dyn else this
        if not this.parameters:
            return this
        inner = tuple(self.substitute(part, free_is_dyn=free_is_dyn) for part in this.parameters)
        return rebuild(this, inner)

    def _unify(self, one: Type, other: Type) -> bool:  # noqa: PLR0911 - the rules, in their order
        if other.kind is Kind.PARAM:
            is_valid, is_bound = self._try_bind(one, other)
            if is_valid or is_bound:
                return is_valid
        if one.kind is Kind.PARAM:
            return self._try_bind(other, one)[0]
        if is_dyn_or_error(one) or is_dyn_or_error(other):
            return True
        if one.kind is Kind.NULL:
            return _takes_null(other)
        if other.kind is Kind.NULL:
            return _takes_null(one)
        if one.kind is Kind.TYPE:
            return other.kind is Kind.TYPE
        if one.kind in (Kind.OPAQUE, Kind.LIST, Kind.MAP):
            return (
                one.kind is other.kind
                and one.name == other.name
                and len(one.parameters) == len(other.parameters)
                and all(self._unify(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
            )
        return other.is_assignable_from(one)

    def _try_bind(self, to: Type, param: Type) -> tuple[bool, bool]:  # noqa: PLR0911 - the rules, in their order
        """Whether the parameter can be bound to the type, and whether it was bound before."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return False, True
        if to.is_same(param):
            return True, True
        bound = self._bound.get(param.name)
        if bound is None:
            if self._occurs(param, to):
                return False, False
            self._bound[param.name] = to
            return True, False
        if to.is_same(bound):
            return True, True
        if not self._unify(to, bound):
            return False, True
        general = most_general(to, bound)
        if not self._occurs(param, general):
            self._bound[param.name] = general
        return True, True

    def _occurs(self, param: Type, within: Type) -> bool:
        if param.is_same(within):
            return True
        if within.kind is Kind.PARAM:
            bound = self._bound.get(within.name)
            return bound is not None and self._occurs(param, bound)
        return any(self._occurs(param, part) for part in within.parameters)


def rebuild(this: Type, parameters: tuple[Type, ...]) -> Type:
    """The same type with other parameters."""
    if this.kind is Kind.LIST:
        return list_of(*parameters)
    if this.kind is Kind.MAP:
        return map_of(*parameters)
    if this.kind is Kind.TYPE:
        return type_of(*parameters)
    return opaque(this.name, *parameters)


def most_general(one: Type, other: Type) -> Type:
    """The one of two matching types that says less."""
    return one if _says_no_more(one, other) else other


def _says_no_more(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind is Kind.PARAM:
        return True
    if is_dyn(other) or other.kind is Kind.PARAM or one.kind is not other.kind:
        return False
    if one.kind is Kind.TYPE:
        return True
    if one.kind in (Kind.OPAQUE, Kind.LIST, Kind.MAP):
        return (
            one.name == other.name
            and len(one.parameters) == len(other.parameters)
            and all(_says_no_more(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
        )
    return one.is_same(other)


def _takes_null(this: Type) -> bool:
    return this.is_nullable or this.kind in _LEGACY_NULLABLE or this.kind is Kind.NULL
