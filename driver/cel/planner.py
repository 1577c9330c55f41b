"""Turns a checked tree into closures. With costs counted it does what Kubernetes' evaluator does, step by step; without them
it takes the quick ways to the same answers."""

from __future__ import annotations

from typing import Any

from driver.cel import steps
from driver.cel.ast import Call, Fold, Ident, ListLiteral, Literal, MapLiteral, Message, Node, Select
from driver.cel.calls import CONVERSIONS, REGEXES, implementation_of, is_chosen_late, overload_of
from driver.cel.costs import LIST_CREATION, MAP_CREATION, MESSAGE_CREATION, cost_of, needs_result
from driver.cel.equality import LISTS
from driver.cel.errors import EvaluationError, SelectorError, Span
from driver.cel.frame import PENDING, Failure
from driver.cel.kinds import no_overload
from driver.cel.loops import Loop, bind, fold, fold_quickly
from driver.cel.membership import in_constant_list
from driver.cel.messages import build_message
from driver.cel.regex import compile_pattern
from driver.cel.selection import Qualifier, select, select_quickly
from driver.cel.steps import Run, Step, constant
from driver.cel.types import Kind
from driver.cel.values import Map, Optional

_SELECTIONS = ("_[_]", "_[?_]", "_?._")


class Planner:
    """Plans one selector. ``slot_count`` is how many local variables its frame needs."""

    def __init__(self, source: str, *, is_counted: bool) -> None:
        self.slot_count = 0
        self._source = source
        self._is_counted = is_counted
        self._scopes: list[dict[str, Run]] = []

    def plan(self, node: Node) -> Step:
        """The step of a node.

        Raises:
            SelectorError: a constant part of the selector cannot be computed.
        """
        match node:
            case Literal():
                return constant(node.value)
            case Ident() if node.is_constant:
                return constant(node.value)
            case Ident() | Select():
                return self._plan_selection(node)
            case Call():
                return self._plan_call(node)
            case ListLiteral():
                return self._plan_list(node)
            case MapLiteral():
                return self._plan_map(node)
            case Message():
                return self._plan_message(node)
            case Fold():
                return self._plan_fold(node)
        raise AssertionError(node)

    def _run(self, node: Node) -> Run:
        return self.plan(node).run

    def _refuse(self, node: Node, err: EvaluationError) -> SelectorError:
        return SelectorError(self._source, [(Span(node.start), str(err))])

    # selections

    def _plan_selection(self, node: Node) -> Step:
        if isinstance(node, Select) and node.ident is not None:
            return self.plan(node.ident)
        root, qualifiers = self._collect(node)
        return Step(self._select(root, qualifiers, is_node=True))

    def _collect(self, node: Node) -> tuple[Node, list[Qualifier]]:
        """The root of a chain of selections, and the selections in their order."""
        qualifiers: list[Qualifier] = []
        while True:
            if isinstance(node, Select) and node.ident is None:
                field = node.field
                qualifiers.append(
                    Qualifier(lambda _, field=field: field, is_test=node.is_test, constant=field, is_constant=True)
                )
                node = node.operand
            elif isinstance(node, Call) and node.function in _SELECTIONS:
                qualifiers.append(self._qualifier(node))
                node = node.args[0]
            else:
                break
        qualifiers.reverse()
        return node, qualifiers

    def _qualifier(self, node: Call) -> Qualifier:
        index = node.args[1]
        is_optional = node.function != "_[_]"
        step = self.plan(index)
        if step.is_constant:
            return Qualifier(step.run, is_optional, constant=step.value, is_constant=True)
        # Unlike any other value, a selection that is a key costs nothing for itself.
        return Qualifier(self._resolve(index) if self._is_counted else step.run, is_optional)

    def _resolve(self, node: Node) -> Run:
        """A node as a part of another selection: what it selects costs, the selection itself does not."""
        if isinstance(node, Select) and node.ident is not None:
            node = node.ident
        if isinstance(node, Ident) and node.is_constant:
            return self._run(node)
        root, qualifiers = self._collect(node)
        if qualifiers or isinstance(root, Ident) or _is_conditional(root):
            return self._select(root, qualifiers, is_node=False)
        return self._run(node)

    def _select(self, root: Node, qualifiers: list[Qualifier], *, is_node: bool) -> Run:
        if isinstance(root, Select) and root.ident is not None:
            root = root.ident
        if isinstance(root, Call) and root.function == "_?_:_":
            return self._select_conditional(root, qualifiers)
        is_device = isinstance(root, Ident) and root.is_global and root.name == "device"
        is_test = bool(qualifiers) and qualifiers[-1].is_test
        own_cost = int(is_node and not is_test)
        if is_device and all(qualifier.is_constant for qualifier in qualifiers):
            quick = select_quickly(qualifiers)
            if quick is not None and not (self._is_counted and any(qualifier.is_optional for qualifier in qualifiers)):
                return steps.charged(quick, own_cost + len(qualifiers)) if self._is_counted else quick
        if isinstance(root, Ident) and not root.is_constant:
            variable = _device if root.is_global else self._variable(root.name)
            if not qualifiers:
                return steps.charged(variable, own_cost) if self._is_counted and own_cost else variable
            return select(variable, qualifiers, cost=own_cost if self._is_counted else None)
        return select(self._run(root), qualifiers, cost=own_cost if self._is_counted else None)

    def _select_conditional(self, root: Call, qualifiers: list[Qualifier]) -> Run:
        """The selections happen in the branch that is taken."""
        branches = []
        for node in root.args[1:]:
            inner, own = self._collect(node)
            if own or isinstance(inner, Ident) or _is_conditional(inner):
                branches.append(self._branch(node, qualifiers))
            else:
                step = self._run(node)
                branches.append(select(step, qualifiers, cost=0 if self._is_counted else None) if qualifiers else step)
        return steps.conditional(self._run(root.args[0]), *branches)

    def _branch(self, node: Node, qualifiers: list[Qualifier]) -> Run:
        if isinstance(node, Select) and node.ident is not None:
            node = node.ident
        if isinstance(node, Ident) and node.is_constant:
            return select(self._run(node), qualifiers, cost=0 if self._is_counted else None)
        root, own = self._collect(node)
        return self._select(root, [*own, *qualifiers], is_node=False)

    def _variable(self, name: str) -> Run:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise AssertionError(name)

    # calls

    def _plan_call(self, node: Call) -> Step:
        match node.function:
            case "_?._" | "_[?_]" | "_[_]" | "_?_:_":
                return self._plan_selection(node)
            case "_&&_" | "_||_":
                return Step(steps.all_of([self._run(arg) for arg in node.args], decisive=node.function == "_||_"))
            case "_==_" | "_!=_":
                return self._plan_equals(node)
            case "@not_strictly_false":
                return Step(self._plan_not_false(node))
            case "or" | "orValue":
                unwrapped = node.function == "orValue"
                optional, otherwise = (self._run(part) for part in node.operands())
                return Step(steps.or_value(optional, otherwise, is_unwrapped=unwrapped))
        return self._plan_function(node)

    def _plan_function(self, node: Call) -> Step:
        args = [self.plan(part) for part in node.operands()]
        function = implementation_of(node)
        if node.function in CONVERSIONS and len(args) == 1 and args[0].is_constant:
            try:
                return constant(function(args[0].value))
            except EvaluationError as err:
                raise self._refuse(node, err) from err
        is_lazy = is_chosen_late(node)
        if node.function in REGEXES and len(args) > 1 and args[1].is_constant and type(args[1].value) is str:
            try:
                compile_pattern(args[1].value)
            except EvaluationError as err:
                raise self._refuse(node.operands()[1], err) from err
            is_lazy = True
        if node.function == "@in" and node.overloads == ("in_list",) and args[1].is_constant:
            if not args[1].value:
                return constant(False)  # noqa: FBT003 - a value of the language
            quick = in_constant_list(args[0].run, args[1].value)
            if quick is not None:
                return Step(quick)
        runs = [arg.run for arg in args]
        if not self._is_counted:
            return Step(steps.call(function, runs))
        overload = overload_of(node)
        cost = cost_of(node.function, overload)
        is_late = needs_result(node.function, overload)
        return Step(steps.counted_call(function, runs, cost, is_late=is_late, is_lazy=is_lazy))

    def _plan_equals(self, node: Call) -> Step:
        one, other = (self.plan(arg) for arg in node.args)
        if not self._is_counted:
            return Step(steps.equals(one, other, is_negated=node.function == "_!=_"))
        compare = steps.equal if node.function == "_==_" else lambda a, b: not steps.not_equal_safe(a, b)
        cost = cost_of(node.function, "equals" if node.function == "_==_" else "not_equals")
        return Step(steps.counted_call(compare, [one.run, other.run], cost, is_late=False, is_lazy=False))

    def _plan_not_false(self, node: Call) -> Run:
        inner = self._run(node.args[0])
        is_counted = self._is_counted

        def step(frame: Any) -> bool:
            try:
                return inner(frame) is not False
            except EvaluationError as err:
                if type(err) is not EvaluationError:
                    raise
                return True
            finally:
                if is_counted:
                    frame.cost += 1

        return step

    # literals with parts

    def _plan_list(self, node: ListLiteral) -> Step:
        parts = [self.plan(element) for element in node.elements]
        if all(part.is_constant for part in parts):
            try:
                return constant(steps.build_list([part.run for part in parts], node.optional)(None))
            except EvaluationError as err:
                raise self._refuse(node, err) from err
        run = steps.build_list([part.run for part in parts], node.optional)
        return Step(self._created(run, LIST_CREATION))

    def _plan_map(self, node: MapLiteral) -> Step:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.is_optional) for entry in node.entries]

        def build(frame: Any) -> Map:
            result = Map()
            for key_step, value_step, is_optional in entries:
                key, value = key_step.run(frame), value_step.run(frame)
                if is_optional:
                    if type(value) is not Optional:
                        raise EvaluationError("an optional entry of a map must have an optional value")
                    if not value.has_value:
                        result.drop(key)
                        continue
                    value = value.value
                if type(key) is bytes:
                    raise EvaluationError("bytes cannot be the key of a map")
                result.put(key, value)
            return result

        if all(key.is_constant and value.is_constant for key, value, _ in entries):
            try:
                return constant(build(None))
            except EvaluationError as err:
                raise self._refuse(node, err) from err
        return Step(self._created(build, MAP_CREATION))

    def _created(self, build: Run, cost: int) -> Run:
        if not self._is_counted:
            return build

        def step(frame: Any) -> Any:
            # What is created costs the same when a part of it fails.
            try:
                return build(frame)
            finally:
                frame.cost += cost

        return step

    def _plan_message(self, node: Message) -> Step:
        fields = [
            (str(entry.key.value), self._run(entry.value), entry.is_optional)
            for entry in node.entries
            if isinstance(entry.key, Literal)
        ]
        name = node.name

        def build(frame: Any) -> Any:
            values: dict[str, Any] = {}
            for field, run, is_optional in fields:
                value = run(frame)
                if is_optional:
                    if type(value) is not Optional:
                        raise EvaluationError("an optional field of a message must have an optional value")
                    if not value.has_value:
                        values.pop(field, None)
                        continue
                    value = value.value
                values[field] = value
            return build_message(name, values)

        return Step(self._created(build, MESSAGE_CREATION))

    # loops

    def _slot(self) -> int:
        self.slot_count += 1
        return self.slot_count - 1

    def _plan_fold(self, node: Fold) -> Step:
        loop = Loop(
            self._run(node.range), self._run(node.init), self._slot(), self._slot(), self._slot() if node.var2 else None
        )
        self._scopes.append({node.accu: loop.read_accumulator})
        variables = {node.var: _read(loop.first)}
        if loop.second is not None:
            variables[node.var2] = _read(loop.second)
        self._scopes.append(variables)
        quick = None if self._is_counted or node.is_bind else fold_quickly(loop, node, self._run)
        if quick is None and not node.is_bind:
            condition, step = self.plan(node.condition), self._run(node.step)
        self._scopes.pop()
        result = self._run(node.result)
        self._scopes.pop()
        if node.is_bind:
            return Step(bind(loop, result))
        if quick is not None:
            return Step(quick)
        is_endless = condition.is_constant and condition.value is True
        return Step(fold(loop, None if is_endless else condition.run, step, result))


def _is_conditional(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "_?_:_"


def _device(frame: Any) -> Map:
    return frame.as_map()


def _read(slot: int) -> Run:
    return lambda frame: frame.slots[slot]


__all__ = ["LISTS", "PENDING", "Failure", "Kind", "Planner", "no_overload"]
