"""Macros: calls that become loops, presence tests and local variables while a selector is parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from driver.cel.ast import ACCUMULATOR, UNUSED, Call, Fold, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from driver.cel.copying import copy_tree

_MOST_COPIED: Final = 100_000
_OLD_ACCUMULATOR: Final = "__result__"
_SORT_INPUT: Final = "@__sortBy_input__"


class MacroError(Exception):
    """A macro's arguments are wrong; ``start`` is where."""

    def __init__(self, node: Node, text: str) -> None:
        super().__init__(text)
        self.start = node.start


class Expander:
    """Expands the macros of one selector. What they copy is counted: copies of copies could fill any memory."""

    def __init__(self) -> None:
        self._copied = 0

    def expand(self, call: Call) -> Node:
        """The call itself, or what its macro makes of it.

        Raises:
            MacroError: it is a macro, and its arguments are wrong.
        """
        if call.target is None:
            return _expand_has(call) if call.function == "has" and len(call.args) == 1 else call
        if call.function in ("optMap", "optFlatMap") and len(call.args) == 2:
            return self._expand_optional_map(call, call.target)
        macro = _METHODS.get((call.function, len(call.args)))
        return call if macro is None else macro(call, call.target)

    def _expand_optional_map(self, call: Call, target: Node) -> Node:
        """``hasValue ? optional.of(bind) : none``; the target stands in it twice."""
        name = _name_of(call.args[0], f"the variable of {call.function}() must be a simple name")
        copied, count = copy_tree(target)
        self._copied += count
        if self._copied > _MOST_COPIED:
            raise MacroError(call, f"so many nested {call.function}() become a tree too large to compile")
        start = call.start
        inner: Node = _bind(start, name, Call(start, "value", [], copied), call.args[1])
        if call.function == "optMap":
            inner = Call(start, "optional.of", [inner])
        return Call(start, "_?_:_", [Call(start, "hasValue", [], target), inner, Call(start, "optional.none", [])])


def _expand_has(call: Call) -> Node:
    operand = call.args[0]
    if not isinstance(operand, Select) or operand.is_test:
        raise MacroError(operand, "has() takes a field selection such as has(a.b)")
    return Select(call.start, operand.operand, operand.field, is_test=True)


def _name_of(node: Node, text: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, text)
    return node.name


def _variable(node: Node) -> str:
    name = _name_of(node, "the variable of a macro must be a simple name")
    if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node, f"a macro's variable cannot be called {name}")
    return name


def _variables(call: Call) -> tuple[str, str]:
    first, second = (_variable(node) for node in call.args[:2])
    if first == second:
        raise MacroError(call.args[1], f"the variable {first} is there twice")
    return first, second


def _accu(start: int) -> Ident:
    return Ident(start, ACCUMULATOR)


def _fold(call: Call, variables: tuple[str, str], init: Node, condition: Node, step: Node, result: Node | None = None) -> Fold:
    target = call.target
    assert target is not None  # noqa: S101 - only methods are macros of this form
    return Fold(call.start, target, *variables, ACCUMULATOR, init, condition, step, result or _accu(call.start))


def _bind(start: int, name: str, value: Node, result: Node) -> Fold:
    return Fold(start, ListLiteral(start, []), UNUSED, "", name, value, Literal(start, False), Ident(start, name), result)


def _split(call: Call, count: int) -> tuple[str, str]:
    return (_variable(call.args[0]), "") if count == 1 else _variables(call)


def _all(call: Call, _: Node, count: int) -> Node:
    start = call.start
    return _fold(
        call,
        _split(call, count),
        Literal(start, True),
        Call(start, "@not_strictly_false", [_accu(start)]),
        Call(start, "_&&_", [_accu(start), call.args[count]]),
    )


def _exists(call: Call, _: Node, count: int) -> Node:
    start = call.start
    return _fold(
        call,
        _split(call, count),
        Literal(start, False),
        Call(start, "@not_strictly_false", [Call(start, "!_", [_accu(start)])]),
        Call(start, "_||_", [_accu(start), call.args[count]]),
    )


def _exists_one(call: Call, _: Node, count: int) -> Node:
    start = call.start
    one_more = Call(start, "_+_", [_accu(start), Literal(start, 1)])
    return _fold(
        call,
        _split(call, count),
        Literal(start, 0),
        Literal(start, True),
        Call(start, "_?_:_", [call.args[count], one_more, _accu(start)]),
        Call(start, "_==_", [_accu(start), Literal(start, 1)]),
    )


def _gather_list(call: Call, variables: tuple[str, str], condition: Node | None, element: Node) -> Node:
    start = call.start
    step: Node = Call(start, "_+_", [_accu(start), ListLiteral(start, [element])])
    if condition is not None:
        step = Call(start, "_?_:_", [condition, step, _accu(start)])
    return _fold(call, variables, ListLiteral(start, []), Literal(start, True), step)


def _map(call: Call, _: Node) -> Node:
    condition = call.args[1] if len(call.args) == 3 else None
    return _gather_list(call, (_variable(call.args[0]), ""), condition, call.args[-1])


def _filter(call: Call, _: Node) -> Node:
    return _gather_list(call, (_variable(call.args[0]), ""), call.args[1], call.args[0])


def _transform_list(call: Call, _: Node) -> Node:
    condition = call.args[2] if len(call.args) == 4 else None
    return _gather_list(call, _variables(call), condition, call.args[-1])


def _transform_map(call: Call, _: Node) -> Node:
    start = call.start
    first, second = _variables(call)
    inserted = (
        [_accu(start), Ident(start, first), call.args[-1]] if call.function == "transformMap" else [_accu(start), call.args[-1]]
    )
    step: Node = Call(start, "cel.@mapInsert", list(inserted))
    if len(call.args) == 4:
        step = Call(start, "_?_:_", [call.args[2], step, _accu(start)])
    return _fold(call, (first, second), MapLiteral(start, []), Literal(start, True), step)


def _sort_by(call: Call, target: Node) -> Node:
    if not isinstance(target, ListLiteral | Select | Ident | Fold | Call):
        raise MacroError(target, "sortBy() sorts a list")
    start = call.start
    keys = _map(Call(start, "map", call.args, Ident(start, _SORT_INPUT)), target)
    return _bind(start, _SORT_INPUT, target, Call(start, "@sortByAssociatedKeys", [keys], Ident(start, _SORT_INPUT)))


def _cel_bind(call: Call, target: Node) -> Node:
    if not isinstance(target, Ident) or target.name != "cel":
        return call
    name = _name_of(call.args[0], "the variable of cel.bind() must be a simple name")
    return _bind(call.start, name, call.args[1], call.args[2])


def _one(macro: Callable[[Call, Node, int], Node]) -> Callable[[Call, Node], Node]:
    return lambda call, target: macro(call, target, 1)


def _two(macro: Callable[[Call, Node, int], Node]) -> Callable[[Call, Node], Node]:
    return lambda call, target: macro(call, target, 2)


_METHODS: dict[tuple[str, int], Callable[[Call, Node], Node]] = {
    ("all", 2): _one(_all),
    ("all", 3): _two(_all),
    ("exists", 2): _one(_exists),
    ("exists", 3): _two(_exists),
    ("exists_one", 2): _one(_exists_one),
    ("exists_one", 3): _two(_exists_one),
    ("existsOne", 3): _two(_exists_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map,
    ("transformMapEntry", 4): _transform_map,
    ("sortBy", 2): _sort_by,
    ("bind", 3): _cel_bind,
}
"""By name and number of arguments."""
