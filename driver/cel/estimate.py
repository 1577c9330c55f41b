"""The highest cost that an evaluation can have, as Kubernetes estimates it when a selector is written.

Sizes and costs are the estimates' upper bounds; they end at the largest 64-bit number, as there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from driver.cel.ast import Call, Fold, Ident, ListLiteral, Literal, MapLiteral, Message, Node, Select
from driver.cel.costs import LIST_CREATION, MAP_CREATION, MESSAGE_CREATION
from driver.cel.environment import Environment
from driver.cel.estimate_arguments import Argument
from driver.cel.estimate_calls import estimate_call
from driver.cel.estimate_entries import Entries, Variable, is_scalar, literal_size, union_all, union_entries
from driver.cel.estimate_sizes import DeviceSizes
from driver.cel.intervals import ONE, UNKNOWN, ZERO, Interval, add, exactly
from driver.cel.types import Kind

_ACCUMULATORS: Final = ("__result__", "@result")


def estimate(root: Node, environment: Environment) -> int:
    """The upper bound of a selector's cost."""
    return _Estimator(environment).cost(root).most


class _Estimator:
    def __init__(self, environment: Environment) -> None:
        self._device = DeviceSizes(environment)
        self._variables: dict[str, list[Variable]] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Interval] = {}
        self._entries: dict[int, Entries] = {}

    def cost(self, node: Node) -> Interval:  # noqa: PLR0911 - one for each kind
        """The cost of a node with its parts."""
        match node:
            case Ident():
                return self._cost_ident(node)
            case Select():
                return self._cost_select(node)
            case Call():
                return self._cost_call(node)
            case ListLiteral():
                return self._cost_list(node)
            case MapLiteral():
                return self._cost_map(node)
            case Message():
                return add(exactly(MESSAGE_CREATION), *(self.cost(entry.value) for entry in node.entries))
            case Fold():
                return self._cost_bind(node) if _is_bind(node) else self._cost_fold(node)
        return ZERO

    # names and selections

    def _find(self, name: str) -> Variable | None:
        found = self._variables.get(name)
        return found[-1] if found else None

    def _cost_ident(self, node: Ident) -> Interval:
        local = self._find(node.name)
        self._paths[id(node)] = (node.name,) if local is None else local.path
        return ONE

    def _cost_select(self, node: Select) -> Interval:
        if node.ident is not None:
            self._paths[id(node)] = (node.ident.name,)
            return ONE
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        if node.operand.type.kind in (Kind.MAP, Kind.STRUCT, Kind.PARAM):
            cost = add(cost, ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._find(node.name)
            if local is not None:
                return local.path
        return self._paths.get(id(node), ())

    # sizes

    def size(self, node: Node) -> Interval | None:
        """The size of a node's value, if anything is known of it."""
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        known = literal_size(node)
        if known is not None:
            return known
        size = self._device.size(self._path(node))
        if size is not None:
            self._sizes[id(node)] = size
            return size
        if is_scalar(node.type):
            return ONE
        local = self._find(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def size_or_unknown(self, node: Node) -> Interval:
        """The size of a node's value, or that it can be anything."""
        return self.size(node) or UNKNOWN

    def entries(self, node: Node) -> Entries | None:
        """The sizes of what a node's value holds."""
        if id(node) in self._entries:
            return self._entries[id(node)]
        local = self._find(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.entries

    def _note(self, node: Node, size: Interval | None, entries: Entries | None = None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    # literals with parts

    def _cost_list(self, node: ListLiteral) -> Interval:
        costs, sizes = [], []
        for element in node.elements:
            costs.append(self.cost(element))
            sizes.append(self.size_or_unknown(element))
        self._note(node, None, Entries(True, ONE, union_all(sizes)))
        return add(exactly(LIST_CREATION), *costs)

    def _cost_map(self, node: MapLiteral) -> Interval:
        costs, keys, values = [], [], []
        for entry in node.entries:
            costs += [self.cost(entry.key), self.cost(entry.value)]
            keys.append(self.size_or_unknown(entry.key))
            values.append(self.size_or_unknown(entry.value))
        self._note(node, None, Entries(False, union_all(keys), union_all(values)))
        return add(exactly(MAP_CREATION), *costs)

    # loops

    def _push(self, name: str, variable: Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _pop(self, *names: str) -> None:
        for name in names:
            if name:
                self._variables[name].pop()

    def _push_local(self, name: str, value: Node) -> None:
        self._push(name, Variable(self._path(value), self.size(value), self.entries(value)))

    def _push_iteration(self, name: str, source: Node, *, is_key: bool, is_only: bool) -> None:
        entries = self.entries(source)
        is_list = entries.is_list if entries is not None else source.type.kind is Kind.LIST
        if is_only:
            is_key = not is_list
        step = ("@indices" if is_list else "@keys") if is_key else ("@items" if is_list else "@values")
        size = None if entries is None else entries.key if is_key else entries.value
        self._push(name, Variable((*self._path(source), step), size, None))

    def _cost_fold(self, node: Fold) -> Interval:
        cost = add(self.cost(node.range), self.cost(node.init))
        self._push_local(node.accu, node.init)
        if node.var2:
            self._push_iteration(node.var, node.range, is_key=True, is_only=False)
            self._push_iteration(node.var2, node.range, is_key=False, is_only=False)
        else:
            self._push_iteration(node.var, node.range, is_key=False, is_only=True)
        one_round = add(self.cost(node.condition), self.cost(node.step))
        self._pop(node.var, node.var2)
        cost = add(cost, self.cost(node.result))
        self._pop(node.accu)
        rounds = self.size_or_unknown(node.range)
        if isinstance(node.init, Literal):
            self._note(node, self.size(node.init))
        elif isinstance(node.init, ListLiteral | MapLiteral):
            self._note(node, rounds, self.entries(node.step))
        return add(cost, rounds.times(one_round))

    def _cost_bind(self, node: Fold) -> Interval:
        cost = add(self.cost(node.range), self.cost(node.init))
        self._push_local(node.accu, node.init)
        cost = add(cost, self.cost(node.result))
        self._pop(node.accu)
        self._note(node, self.size(node.result), self.entries(node.result))
        return cost

    # calls

    def _argument(self, node: Node) -> Argument:
        path = self._path(node)
        if path and path[0] in _ACCUMULATORS:
            path = ()
        return Argument(node, node.type, path, self.size(node), self._device)

    def _cost_call(self, node: Call) -> Interval:
        if node.function == "dyn":
            cost = add(ONE, self.cost(node.args[0]))
            self._note(node, self.size(node.args[0]), self.entries(node.args[0]))
            return cost
        if node.function in ("_&&_", "_||_"):
            return self._cost_logical(node)
        costs, args = [], []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self._argument(arg))
        target_cost, target = ZERO, None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self._argument(node.target)
        call = _PendingCall(node, target, args, costs)
        return add(target_cost, self._cost_overloads(call))

    def _cost_logical(self, node: Call) -> Interval:
        costs = []
        for arg in node.args:
            costs.append(self.cost(arg))
            self.size(arg)
        self._note(node, self.size(node))
        return replace(add(*costs), least=costs[0].least)

    def _cost_overloads(self, call: _PendingCall) -> Interval:
        node = call.node
        total: Interval | None = None
        result: Interval | None = None
        for overload in node.overloads:
            own, size = self._cost_overload(call, overload)
            total = own if total is None else total.union(own)
            if size is not None:
                result = size if result is None else result.union(size)
            if overload in ("index_list", "index_map"):
                held = self.entries(node.args[0])
                result = None if held is None else held.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        self._note(node, result)
        return total or ZERO

    def _cost_overload(self, call: _PendingCall, overload: str) -> tuple[Interval, Interval | None]:
        """The cost of one overload with its arguments', and the size of its result."""
        node, costs = call.node, call.costs
        if overload == "conditional":
            self._note(node, None, union_entries(self.entries(node.args[1]), self.entries(node.args[2])))
            size = self.size_or_unknown(node.args[1]).union(self.size_or_unknown(node.args[2]))
            return add(costs[0], costs[1].union(costs[2])), size
        if overload in ("add_string", "add_bytes", "add_list"):
            self._note(node, None, union_entries(self.entries(node.args[0]), self.entries(node.args[1])))
        own, result = estimate_call(node.function, overload, call.target, call.args)
        return add(own, *costs), result


@dataclass(frozen=True, slots=True)
class _PendingCall:
    node: Call
    target: Argument | None
    args: list[Argument]
    costs: list[Interval]


def _is_bind(node: Fold) -> bool:
    return node.is_bind and node.accu != _ACCUMULATORS[0]
