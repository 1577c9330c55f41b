"""What a checker keeps: faults, types by node, bound type parameters and the local variables in sight."""

from __future__ import annotations

from driver.cel import types
from driver.cel.ast import Node
from driver.cel.environment import Environment
from driver.cel.errors import Span
from driver.cel.signatures import Overload
from driver.cel.signatures_libraries import functions
from driver.cel.types import Type, unwrap_optional
from driver.cel.unify import Bindings, most_general

_MOST_FAULTS = 100


class CheckerState:
    """The state of one check, and the small steps on it."""

    def __init__(self, environment: Environment) -> None:
        self.faults: list[tuple[Span, str]] = []
        self._environment = environment
        self._functions = functions(has_includes=environment.features.list_attributes)
        self._bindings = Bindings()
        self._scopes: list[dict[str, Type]] = []
        self._fresh = 0
        self._nodes: list[Node] = []

    def _fault(self, start: int, text: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append((Span(start), text))

    def _mismatch(self, node: Node, wanted: Type, found: Type) -> None:
        self._fault(node.start, f"this must be of type {wanted.short_name()}, and is {found.short_name()}")

    def _set(self, node: Node, kind: Type) -> None:
        node.type = kind
        self._nodes.append(node)

    def _find_local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _instantiate(self, overload: Overload) -> tuple[list[Type], Type]:
        """Arguments and result with type parameters of their own."""
        if not overload.parameters:
            return list(overload.args), overload.result
        fresh = Bindings()
        for name in overload.parameters:
            fresh.is_assignable(self._new_parameter(), types.parameter(name))
        args = [fresh.substitute(arg, free_is_dyn=False) for arg in overload.args]
        return args, fresh.substitute(overload.result, free_is_dyn=False)

    def _new_parameter(self) -> Type:
        self._fresh += 1
        return types.parameter(f"_{self._fresh}")

    def _check_optional(self, node: Node, *, is_optional: bool) -> Type:
        """The type that an element adds to its container."""
        if not is_optional:
            return node.type
        kind, was_optional = unwrap_optional(node.type)
        if not was_optional and not types.is_dyn(kind):
            self._mismatch(node, types.optional_of(kind), kind)
        return kind

    def _join(self, before: Type | None, kind: Type) -> Type:
        if before is None:
            return kind
        if self._bindings.is_assignable(before, kind):
            return most_general(before, kind)
        return types.DYN  # the validator refuses such a literal, except for the arguments of format()
