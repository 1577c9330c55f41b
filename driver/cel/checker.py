"""Finds the type of every part of a selector, and which overloads its calls can mean; refuses what cannot be meant."""

from __future__ import annotations

from driver.cel import types
from driver.cel.ast import Call, Entry, Fold, Ident, ListLiteral, Literal, MapLiteral, Message, Node, Select, qualified_name
from driver.cel.checker_state import CheckerState
from driver.cel.signatures import Overload
from driver.cel.types import Kind, Type, unwrap_optional
from driver.cel.values import Uint

_LITERALS: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}
_LOGICAL = ("_&&_", "_||_")


class Checker(CheckerState):
    """Checks one selector. ``faults`` are all that is wrong with it."""

    def check(self, root: Node) -> None:
        """Note types on the whole tree."""
        self._check(root)
        for node in self._nodes:
            node.type = self._bindings.substitute(node.type, free_is_dyn=True)

    def _check(self, node: Node) -> None:
        match node:
            case Literal():
                self._set(node, _LITERALS[type(node.value)])
            case Ident():
                self._check_ident(node)
            case Select():
                self._check_select(node)
            case Call():
                self._check_call(node)
            case ListLiteral():
                self._check_list(node)
            case MapLiteral():
                self._check_map(node)
            case Message():
                self._check_message(node)
            case Fold():
                self._check_fold(node)

    # names

    def _check_ident(self, node: Ident) -> None:
        local = self._find_local(node.name)
        if local is not None:
            self._set(node, local)
            return
        if not self._resolve_global(node, node.name):
            self._fault(node.start, f"{node.name} is not declared")
            self._set(node, types.ERROR)

    def _resolve_global(self, node: Ident, name: str) -> bool:
        found = self._environment.find(name.removeprefix("."))
        if found is None:
            return False
        kind, node.value, node.is_constant = found
        node.name = name.removeprefix(".")
        node.is_global = True
        self._set(node, kind)
        return True

    def _check_select(self, node: Select) -> None:
        name = None if node.is_test else qualified_name(node)
        if name is not None and self._find_local(name.partition(".")[0]) is None:
            ident = Ident(node.start, name)
            if self._resolve_global(ident, name):
                node.ident = ident
                self._set(node, ident.type)
                return
        kind = self._field_type(node, node.operand, node.field, is_optional=False)
        self._set(node, types.BOOL if node.is_test else self._bindings.substitute(kind, free_is_dyn=False))

    def _field_type(self, node: Node, operand: Node, field: str, *, is_optional: bool) -> Type:
        self._check(operand)
        target, was_optional = unwrap_optional(self._bindings.substitute(operand.type, free_is_dyn=False))
        result = types.DYN
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif target.kind is Kind.STRUCT:
            result = self._struct_field(node, target, field)
        elif target.kind is Kind.PARAM:
            self._bindings.is_assignable(types.DYN, target)
        elif not types.is_dyn_or_error(target):
            self._fault(node.start, f"a value of type {target.short_name()} has no fields")
        return types.optional_of(result) if was_optional or is_optional else result

    def _struct_field(self, node: Node, target: Type, field: str) -> Type:
        found = self._environment.field(target.name, field)
        if found is None:
            self._fault(node.start, f"{target.short_name()} has no field {field}")
            return types.ERROR
        return found

    # calls

    def _check_call(self, node: Call) -> None:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)  # noqa: S101 - the parser makes no other
            kind = self._field_type(node, node.args[0], str(field.value), is_optional=True)
            field.type = types.STRING
            self._set(node, self._bindings.substitute(kind, free_is_dyn=False))
            node.overloads = ("select_optional_field",)
            return
        for arg in node.args:
            self._check(arg)
        if node.target is not None:
            name = qualified_name(node.target)
            full = f"{name}.{node.function}".removeprefix(".")
            if name is not None and full in self._functions:
                node.function, node.target = full, None
            else:
                self._check(node.target)
        overloads = self._functions.get(node.function.removeprefix("."))
        if overloads is None:
            self._fault(node.start, f"there is no function {node.function}")
            self._set(node, types.ERROR)
            return
        node.function = node.function.removeprefix(".")
        self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        if node.function in _LOGICAL:
            self._check_logical(node, overloads[0])
            return
        given = [operand.type for operand in node.operands()]
        result: Type | None = None
        matching: list[str] = []
        for overload in overloads:
            if overload.is_method != (node.target is not None) or len(overload.args) != len(given):
                continue
            args, overload_result = self._instantiate(overload)
            if not self._bindings.are_assignable(given, args):
                continue
            matching.append(overload.id)
            own = self._bindings.substitute(overload_result, free_is_dyn=False)
            if result is None:
                result = own
            elif not types.is_dyn(result) and not own.is_same(result):
                result = types.DYN
        if result is None:
            shown = [self._bindings.substitute(kind, free_is_dyn=True).short_name() for kind in given]
            call = f"{shown[0]}.({', '.join(shown[1:])})" if node.target is not None else f"({', '.join(shown)})"
            self._fault(node.start, f"{node.function} cannot be applied to {call}")
            self._set(node, types.ERROR)
            return
        node.overloads = tuple(matching)
        self._set(node, result)

    def _check_logical(self, node: Call, overload: Overload) -> None:
        before = len(self.faults)
        for arg in node.args:
            if not self._bindings.is_assignable(arg.type, types.BOOL):
                self._mismatch(arg, types.BOOL, arg.type)
        node.overloads = (overload.id,)
        self._set(node, types.BOOL if len(self.faults) == before else types.ERROR)

    # literals with parts

    def _check_list(self, node: ListLiteral) -> None:
        element: Type | None = None
        for index, part in enumerate(node.elements):
            self._check(part)
            element = self._join(element, self._check_optional(part, is_optional=index in node.optional))
        self._set(node, types.list_of(element or self._new_parameter()))

    def _check_map(self, node: MapLiteral) -> None:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            self._check(entry.key)
            key = self._join(key, entry.key.type)
            self._check(entry.value)
            value = self._join(value, self._check_optional(entry.value, is_optional=entry.is_optional))
        self._set(node, types.map_of(key or self._new_parameter(), value or self._new_parameter()))

    def _check_message(self, node: Message) -> None:
        node.name = node.name.removeprefix(".")
        found = self._environment.message(node.name)
        if found is None:
            self._fault(node.start, f"there is no message type {node.name}")
            self._set(node, types.ERROR)
            return
        self._set(node, found[0])
        for entry in node.entries:
            self._check(entry.value)
            self._check_message_field(node, entry, found[1])

    def _check_message_field(self, node: Message, entry: Entry, fields: dict[str, Type]) -> None:
        assert isinstance(entry.key, Literal)  # noqa: S101 - the parser makes no other
        name = str(entry.key.value)
        if name not in fields:
            self._fault(entry.start, f"{node.name} has no field {name}")
            return
        kind = self._check_optional(entry.value, is_optional=entry.is_optional)
        if not self._bindings.is_assignable(fields[name], kind):
            self._mismatch(entry.value, fields[name], kind)

    # loops

    def _check_fold(self, node: Fold) -> None:
        self._check(node.range)
        self._check(node.init)
        first, second = self._loop_types(node)
        self._scopes.append({node.accu: node.init.type})
        variables = {node.var: first}
        if node.var2:
            variables[node.var2] = second
        self._scopes.append(variables)
        self._check(node.condition)
        self._assert(node.condition, types.BOOL)
        self._check(node.step)
        self._assert(node.step, node.init.type)
        self._scopes.pop()
        self._check(node.result)
        self._scopes.pop()
        self._set(node, self._bindings.substitute(node.result.type, free_is_dyn=False))

    def _loop_types(self, node: Fold) -> tuple[Type, Type]:
        """The types of one variable, or of both."""
        kind = self._bindings.substitute(node.range.type, free_is_dyn=False)
        if kind.kind is Kind.LIST:
            return (types.INT, kind.parameters[0]) if node.var2 else (kind.parameters[0], types.DYN)
        if kind.kind is Kind.MAP:
            return kind.parameters[0], kind.parameters[1]
        if kind.kind in (Kind.DYN, Kind.ERROR, Kind.PARAM):
            self._bindings.is_assignable(types.DYN, kind)
            return types.DYN, types.DYN
        self._fault(
            node.range.start, f"a macro cannot go through a value of type {kind.short_name()}; it must be a list or a map"
        )
        return types.ERROR, types.ERROR

    def _assert(self, node: Node, wanted: Type) -> None:
        if not self._bindings.is_assignable(wanted, node.type):
            self._mismatch(node, wanted, node.type)
