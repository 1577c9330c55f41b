"""Turns a checked tree into closures.

With costs counted it does what Kubernetes' evaluator does, step by step; without them it takes the quick ways to the same
answers.
"""

from __future__ import annotations

from typing import Any

from driver.cel import steps
from driver.cel.ast import Call, Fold, Ident, ListLiteral, Literal, MapLiteral, Message, Node, Select
from driver.cel.calls import CONVERSIONS, PANICS, REGEXES, implementation_of, is_chosen_late, overload_of
from driver.cel.costs import LIST_CREATION, MAP_CREATION, MESSAGE_CREATION, cost_of, needs_result
from driver.cel.equality import equal
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.hashing import UNHASHABLE
from driver.cel.loops import Loop, bind, fold, fold_quickly
from driver.cel.membership import in_constant_list
from driver.cel.messages import build_message
from driver.cel.regex import compile_pattern
from driver.cel.selection_planner import SelectionPlanner
from driver.cel.steps import Run, Step, constant
from driver.cel.values import Map, Optional


class Planner(SelectionPlanner):
    """Plans one selector. ``slot_count`` is how many local variables its frame needs."""

    def __init__(self, source: str, *, is_counted: bool) -> None:
        super().__init__(source, is_counted=is_counted)
        self.slot_count = 0

    def plan(self, node: Node) -> Step:  # noqa: PLR0911 - one for each kind
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
        position, kinds = PANICS.get(overload_of(node), (0, ()))
        if kinds:
            args[position] = Step(steps.required(args[position].run, kinds))
        function = implementation_of(node)
        if node.function in CONVERSIONS and len(args) == 1 and args[0].is_constant:
            try:
                return constant(function(args[0].value))
            except EvaluationError as err:
                raise self._refuse(node, err) from err
        is_lazy = is_chosen_late(node) or len(args) > 2
        if node.function in REGEXES and len(args) > 1 and args[1].is_constant and type(args[1].value) is str:
            try:
                compile_pattern(args[1].value)
            except EvaluationError as err:
                raise self._refuse(node.operands()[1], err) from err
            is_lazy = True
        if node.function == "@in" and node.overloads == ("in_list",) and args[1].is_constant:
            if not args[1].value:
                return constant(False)
            quick = in_constant_list(args[0].run, args[1].value)
            if quick is not None:
                return Step(quick)
        runs = [arg.run for arg in args]
        if not self._is_counted:
            run = steps.call(function, runs)
            return _precompute(run) if all(arg.is_constant or arg.is_known for arg in args) else Step(run)
        overload = overload_of(node)
        cost = cost_of(node.function, overload)
        is_late = needs_result(node.function, overload)
        return Step(steps.counted_call(function, runs, steps.Price(cost, is_late, is_lazy)))

    def _plan_equals(self, node: Call) -> Step:
        one, other = (self.plan(arg) for arg in node.args)
        if not self._is_counted:
            return Step(steps.equals(one, other, is_negated=node.function == "_!=_"))
        compare = equal if node.function == "_==_" else lambda a, b: not steps.not_equal_safe(a, b)
        cost = cost_of(node.function, "equals" if node.function == "_==_" else "not_equals")
        return Step(steps.counted_call(compare, [one.run, other.run], steps.Price(cost)))

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
            build = steps.build_list([part.run for part in parts], node.optional)
            try:
                return constant(build(None))
            except EvaluationError:
                return Step(build)
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
                if type(key) in UNHASHABLE:
                    raise EvaluationAborted("a value of this type cannot be the key of a map")
                result.put(key, value)
            return result

        if all(key.is_constant and value.is_constant for key, value, _ in entries):
            try:
                return constant(build(None))
            except EvaluationAborted as err:
                raise self._refuse(node, err) from err
            except EvaluationError:
                return Step(build)
        return Step(self._created(build, MAP_CREATION))

    def _created(self, build: Run, cost: int) -> Run:
        if not self._is_counted:
            return build

        def step(frame: Any) -> Any:
            try:
                value = build(frame)
            except EvaluationAborted:
                raise
            except EvaluationError:
                # What is created costs the same when a part of it fails.
                frame.charge(cost)
                raise
            frame.charge(cost)
            return value

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


def _precompute(run: Run) -> Step:
    """What only constants go into, computed once: ``quantity("40Gi")``. An error stays for the evaluation."""
    try:
        return steps.known(run(None))
    except EvaluationError:
        return Step(run)


def _read(slot: int) -> Run:
    return lambda frame: frame.slots[slot]
