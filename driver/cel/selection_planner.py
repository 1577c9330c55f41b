"""Plans selections: chains of fields and keys from a variable or any other value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from driver.cel import steps
from driver.cel.ast import Call, Ident, Node, Select
from driver.cel.errors import EvaluationError, SelectorError, Span
from driver.cel.selection import KEY_TYPES, Qualifier, select, select_quickly
from driver.cel.steps import Run, Step, constant
from driver.cel.values import Map

_SELECTIONS = ("_[_]", "_[?_]", "_?._")


class SelectionPlanner(ABC):
    """The half of the planner that knows selections."""

    def __init__(self, source: str, *, is_counted: bool) -> None:
        self._source = source
        self._is_counted = is_counted
        self._scopes: list[dict[str, Run]] = []

    @abstractmethod
    def plan(self, node: Node) -> Step:
        """The step of any node."""

    def _run(self, node: Node) -> Run:
        return self.plan(node).run

    def _refuse(self, node: Node, err: EvaluationError) -> SelectorError:
        return SelectorError(self._source, [(Span(node.start), str(err))])

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
                qualifiers.append(
                    Qualifier(constant(node.field).run, is_test=node.is_test, constant=node.field, is_constant=True)
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
            if type(step.value) not in KEY_TYPES:
                raise self._refuse(index, EvaluationError("a value of this type cannot be a key"))
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
        if self._is_counted and isinstance(root, Ident) and root.is_global and self._is_shadowed(root.name):
            # Kubernetes loses count of what is selected from a global name behind a local one.
            return steps.charged(select(_device, qualifiers, cost=None), own_cost)
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
        run = steps.conditional(self._run(root.args[0]), *branches)
        # Of a presence test behind a condition Kubernetes takes back a cost that it never charged.
        return steps.charged(run, -1) if self._is_counted and qualifiers and qualifiers[-1].is_test else run

    def _branch(self, node: Node, qualifiers: list[Qualifier]) -> Run:
        if isinstance(node, Select) and node.ident is not None:
            node = node.ident
        if isinstance(node, Ident) and node.is_constant:
            return select(self._run(node), qualifiers, cost=0 if self._is_counted else None)
        root, own = self._collect(node)
        return self._select(root, [*own, *qualifiers], is_node=False)

    def _is_shadowed(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _variable(self, name: str) -> Run:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise AssertionError(name)


def _is_conditional(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "_?_:_"


def _device(frame: Any) -> Map:
    device: Map = frame.as_map()
    return device
