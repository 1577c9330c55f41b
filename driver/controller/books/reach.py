"""What selectors can reach: any device of the driver, one that is the controller's, one that kube-scheduler may give.

The answers are kept for each row of selectors and follow the nodes whose devices change, as far as ``effort`` goes at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import DeviceNode, SelectorFault
from driver.allocator.fleet import Fleet
from driver.allocator.tables import positions_of
from driver.api.fence import ALLOCATOR_KEY, SCHEDULER
from driver.api.resource_v1 import Attribute, Device
from driver.controller.books.change_log import ChangeLog
from driver.controller.books.effort import Effort, NotYet

_MOST_ROWS = 4096
"""A pod may ask for 256 alternatives and more, each of which has a row, and two where its policy is required."""
_MOST_FLAGS = 1 << 25
"""Of all rows together: one a node."""
_SPARE_NUMBERS = 1000
"""Of nodes that are gone."""
_MATCHES, _FENCED, _LEAKS, _FAILS, _COUNTED = 1, 2, 4, 8, 16
_UNFENCED = Attribute(string=SCHEDULER)

Expressions = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """On how many nodes selectors match a device at all, and one that is the controller's."""

    matching: int
    fenced: int
    failing: int = 0
    """Nodes where none matches, because a selector fails on devices that those before it took: a class' took them."""
    counted: int = 0
    """Nodes where some of them draw on counters."""


@dataclass(slots=True)
class _Row:
    seen: int = -1
    todo: dict[str, None] = field(default_factory=dict)
    """Nodes that are still to be asked."""
    of_node: bytearray = field(default_factory=bytearray)
    """Flags, by the node's number."""
    totals: dict[int, int] = field(default_factory=lambda: dict.fromkeys((_MATCHES, _FENCED, _LEAKS, _FAILS, _COUNTED), 0))
    told: tuple[bool, ...] = ()
    """What was last answered; nothing before the first answer."""


class Reach:
    """Answers about rows of selectors, of a class and a request together."""

    def __init__(self, fleet: Fleet, engine: CelEngine, log: ChangeLog, effort: Effort) -> None:
        self._fleet = fleet
        self._engine = engine
        self._log = log
        self._effort = effort
        self._rows: OrderedDict[tuple[Expressions, bool], _Row] = OrderedDict()
        self._numbers: dict[str, int] = {}
        self._has_forgotten = False
        self._followed = 0
        self.version = 0
        """Another after each change of an answer that was asked for."""

    def count(self, expressions: Expressions) -> Reached:
        """What they match now."""
        totals = self._row(expressions, is_about_leaks=False).totals
        return Reached(matching=totals[_MATCHES], fenced=totals[_FENCED], failing=totals[_FAILS], counted=totals[_COUNTED])

    def describe_failure(self, expressions: Expressions) -> str:
        """The first failure of one of these that ``count`` knows of: ``node/device: why``."""
        row = self._row(expressions, is_about_leaks=False)
        for name in sorted(self._fleet.nodes):
            faults = self._fleet.nodes[name].faults if self._flags_of(row, name) & _FAILS else {}
            for expression in expressions[1:]:
                if expression in faults:
                    return f"{name}/{faults[expression]}"
        return ""

    def leaks(self, expressions: Expressions) -> bool:
        """Whether kube-scheduler could serve them: they match a device that is not fenced, or would match if it were not (R4).

        Every device that they match is asked, as it is and as its node would publish it for kube-scheduler.
        """
        return self._row(expressions, is_about_leaks=True).totals[_LEAKS] > 0

    def follow(self) -> int:
        """Brings all answers up to date. ``version``.

        What would take too long is forgotten instead, and asked for anew by who needs it, in turn with others.
        """
        if len(self._numbers) > 2 * len(self._fleet.nodes) + _SPARE_NUMBERS:
            self._rows.clear()
            self._numbers.clear()
            self._has_forgotten = True
        if self._has_forgotten and self._followed != self._log.version:
            self.version += 1  # an answer that is not kept any more may be another now
        self._followed = self._log.version
        self._effort.begin()
        for key, row in reversed(tuple(self._rows.items())):
            try:
                if row.told:  # else whoever asks for it goes on with it
                    self._update(key, row)
            except NotYet:
                del self._rows[key]
                self._has_forgotten = True
                self.version += 1
        self._effort.end()
        return self.version

    def _row(self, expressions: Expressions, *, is_about_leaks: bool) -> _Row:
        key = (expressions, is_about_leaks)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row()
            if len(self._rows) > min(_MOST_ROWS, _MOST_FLAGS // (len(self._fleet.nodes) + 1)):
                self._rows.popitem(last=False)
                self._has_forgotten = True
        self._rows.move_to_end(key)
        self._update(key, row)
        return row

    def _update(self, key: tuple[Expressions, bool], row: _Row) -> None:
        """Asks the nodes that are new to the row.

        Raises:
            NotYet: there are more than may be asked at a time.
        """
        if row.seen != self._log.version:
            changed = self._log.since(row.seen) if row.seen >= 0 else None
            names: Iterable[str] = {*self._numbers, *self._fleet.nodes} if changed is None else changed
            row.todo.update(dict.fromkeys(sorted(names)))
            row.seen = self._log.version
        while row.todo:
            self._effort.check()
            self._move(row, row.todo.popitem()[0], key)
        flags = _flags(row)
        self.version += bool(row.told) and row.told != flags
        row.told = flags

    def _move(self, row: _Row, name: str, key: tuple[Expressions, bool]) -> None:
        expressions, is_about_leaks = key
        node = self._fleet.nodes.get(name)
        old, new = self._flags_of(row, name), 0
        if node is not None:
            new = self._probe_leaks(node, expressions) if is_about_leaks else _probe(node, expressions)
            node.forget_views()
        if old == new:
            return
        number = self._numbers.setdefault(name, len(self._numbers))
        if number >= len(row.of_node):
            row.of_node.extend(bytes(len(self._numbers) - len(row.of_node)))
        row.of_node[number] = new
        for flag in row.totals:
            row.totals[flag] += bool(new & flag) - bool(old & flag)

    def _flags_of(self, row: _Row, name: str) -> int:
        number = self._numbers.get(name, len(row.of_node))
        return row.of_node[number] if number < len(row.of_node) else 0

    def _probe_leaks(self, node: DeviceNode, expressions: Expressions) -> int:
        for at in positions_of(node.selected(expressions)):
            device = node.devices[at]
            if not _is_fenced(device) or self._matches_unfenced(node.ids[at].driver, device, expressions):
                return _LEAKS
        return 0

    def _matches_unfenced(self, driver: str, device: Device, expressions: Expressions) -> bool:
        attributes = {**device.attributes, "allocator": _UNFENCED}
        view = self._engine.view(driver, msgspec.structs.replace(device, attributes=attributes))
        try:
            return all(self._engine.matches(expression, view) for expression in expressions)
        except SelectorFault:
            return False


def _probe(node: DeviceNode, expressions: Expressions) -> int:
    mask = node.selected(expressions)
    if not mask:
        return _FAILS if any(each in node.faults for each in expressions[1:]) else 0
    return _MATCHES | (_FENCED if mask & node.ours else 0) | (_COUNTED if mask & node.counted else 0)


def _is_fenced(device: Device) -> bool:
    """Whether the device carries the fence, whoever may allocate it."""
    return any(taint.key == ALLOCATOR_KEY for taint in device.taints)


def _flags(row: _Row) -> tuple[bool, ...]:
    return tuple(count > 0 for count in row.totals.values())
