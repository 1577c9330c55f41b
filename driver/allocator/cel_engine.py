"""Kubernetes' selector language for the allocator: each expression compiled once, each kind of device asked about once.

A selector that costs too much (``selector_meter``) is broken from then on, for all devices, as one is that does not compile.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from driver.allocator.device_node import SelectorFault
from driver.allocator.reads import Read, find_reads
from driver.allocator.selector_meter import MOST_MEAN_UNITS, SelectorMeter
from driver.api.resource_v1 import Attribute, Capacity, Device
from driver.cel.device import DeviceView, build_view
from driver.cel.environment import Features
from driver.cel.errors import EvaluationError, SelectorError
from driver.cel.parser import parse
from driver.cel.selector import DEFAULT_FEATURES, Selector, compile_selector

_MOST_BYTES = 1 << 19
"""Of all selectors that are kept compiled, which take a hundred times as much; what was not asked for longest goes first."""
_MOST_ANSWERS = 400_000
"""Of all selectors, likewise: one that reads each device's uuid has an answer for each."""
_BYTES_EACH = 32
_MOST_VALUES = 100_000
"""Of devices, of which it is known whether they are sound."""
_MOST_REFUSED = 16_384
"""Digests of selectors that cost too much; the one that was asked for longest ago is forgotten."""
_UNITS_A_BYTE = 20
"""Compiling takes about as long as evaluating so many units."""
_UNITS_AN_ANSWER = 3
"""To look an answer up likewise."""


@dataclass(slots=True)
class _Seen:
    """A device, and its view once somebody needs it."""

    driver: str
    device: Device
    view: DeviceView | None = None
    is_sound: bool | None = None


@dataclass(slots=True)
class _Compiled:
    """A selector, or why there is none."""

    selector: Selector | None = None
    fault: str = ""
    reads: tuple[Read, ...] | None = None
    answers: dict[Hashable, bool | str] = field(default_factory=dict)
    """By what it reads: whether it matches, or why it has no answer."""
    meter: SelectorMeter | None = None
    """For selectors that may cost much; counting takes time too."""


class CelEngine:
    """Answers selectors as kube-scheduler does, but for one thing: it gives up a pod where one device has no answer."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self._features = features
        self._compiled: OrderedDict[str, _Compiled] = OrderedDict()
        self._refused: OrderedDict[bytes, str] = OrderedDict()
        self._sound: dict[Attribute | str, bool] = {}
        self._bytes = 0
        self._answers = 0
        self.work = 0
        """What was done so far, in about Kubernetes' units of cost: for who has to stop in time, without a clock."""
        self.refusals = 0
        """How many selectors were found to cost too much."""

    def view(self, driver: str, device: Device) -> object:
        """The device, prepared no further than it is asked about."""
        return _Seen(driver, device)

    def forget(self, view: object) -> None:
        """Keeps no more of it than the device."""
        if isinstance(view, _Seen):
            view.view = None

    def matches(self, expression: str, view: object) -> bool:
        """Whether the expression is true of the device.

        Raises:
            SelectorFault: it does not compile, costs too much, or has no answer for this device.
        """
        if not isinstance(view, _Seen):
            raise TypeError(f"{view!r} was not made by view()")
        compiled = self._compile(expression)
        self.work += _UNITS_AN_ANSWER
        if compiled.selector is None:
            raise SelectorFault(compiled.fault)
        reads = compiled.reads if self._is_sound(view) else None
        if reads is not None:
            key: Hashable = tuple([_value(read, view) for read in reads])
        elif compiled.meter is not None:
            key = _whole(view)
        else:
            key = None
        answer = self._evaluate(compiled, compiled.selector, view) if key is None else self._ask(compiled, key, view)
        if isinstance(answer, str):
            raise SelectorFault(answer)
        return answer

    def find_fault(self, expression: str) -> str | None:
        """Why the expression does not compile, or is not asked any more; None where it is sound."""
        return self._compile(expression).fault or None

    def _ask(self, compiled: _Compiled, key: Hashable, seen: _Seen) -> bool | str:
        answer = compiled.answers.get(key)
        if answer is None and compiled.selector is not None:
            answer = compiled.answers[key] = self._evaluate(compiled, compiled.selector, seen)
            self._answers += 1
            self._forget()
        return compiled.fault if answer is None else answer

    def _evaluate(self, compiled: _Compiled, selector: Selector, seen: _Seen) -> bool | str:
        if seen.view is None:
            seen.view = build_view(seen.driver, seen.device)
        if compiled.meter is not None:
            return self._count(compiled, compiled.meter, selector, seen.view)
        self.work += selector.max_cost
        try:
            return selector.matches(seen.view)
        except EvaluationError as err:
            return str(err)

    def _count(self, compiled: _Compiled, meter: SelectorMeter, selector: Selector, view: DeviceView) -> bool | str:
        answer = selector.answer(view, limit=meter.limit())
        self.work += answer.cost
        meter.note(answer.cost)
        excess = meter.find_excess()
        if excess:
            self.refusals += 1
            self._refused[_digest(selector.source)] = excess
            if len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)
            self._answers -= len(compiled.answers)
            compiled.selector, compiled.fault, compiled.answers = None, excess, {}
            return excess
        return answer.is_match if answer.error is None else str(answer.error)

    def _is_sound(self, seen: _Seen) -> bool:
        """Whether the device has no value that fails every evaluation, whatever the selector reads."""
        if seen.is_sound is None:
            device = seen.device
            odd = [value for value in device.attributes.values() if value.string is None and value.int_ is None]
            amounts = [value.value for value in device.capacity.values()]
            seen.is_sound = all(self._is_sound_value(value) for value in odd)
            seen.is_sound = seen.is_sound and all(self._is_sound_value(amount) for amount in amounts)
        return seen.is_sound

    def _is_sound_value(self, value: Attribute | str) -> bool:
        """Versions and quantities have to parse. There are few, however many devices."""
        known = self._sound.get(value)
        if known is None:
            if len(self._sound) >= _MOST_VALUES:
                self._sound.clear()
            is_amount = isinstance(value, str)
            attributes = {} if isinstance(value, str) else {"x": value}
            probe = Device(name="x", attributes=attributes, capacity={"x": Capacity(value=str(value))} if is_amount else {})
            known = self._sound[value] = not build_view("x", probe).fault
        return known

    def _compile(self, expression: str) -> _Compiled:
        known = self._compiled.get(expression)
        if known is None:
            known = self._compiled[expression] = self._compile_anew(expression)
            self._bytes += len(expression) + _BYTES_EACH
            self._forget()
        self._compiled.move_to_end(expression)
        return known

    def _forget(self) -> None:
        """Claims of pods that are gone have left their selectors behind."""
        while self._bytes > _MOST_BYTES or self._answers > _MOST_ANSWERS:
            expression, compiled = self._compiled.popitem(last=False)
            self._bytes -= len(expression) + _BYTES_EACH
            self._answers -= len(compiled.answers)

    def _compile_anew(self, expression: str) -> _Compiled:
        refused = self._refused.get(_digest(expression))
        if refused is not None:
            self._refused.move_to_end(_digest(expression))
            return _Compiled(fault=refused)
        self.work += _UNITS_A_BYTE * len(expression)
        try:
            selector = compile_selector(expression, features=self._features)
        except SelectorError as err:
            return _Compiled(fault=str(err))
        reads = find_reads(parse(selector.source))
        is_slow = selector.max_cost > MOST_MEAN_UNITS
        return _Compiled(
            selector=selector,
            reads=None if reads is None else tuple(sorted(reads)),
            meter=SelectorMeter() if is_slow else None,
        )


def _digest(expression: str) -> bytes:
    return hashlib.sha256(expression.encode(errors="replace")).digest()


def _whole(seen: _Seen) -> Hashable:
    """All that a selector can read of a device."""
    device = seen.device
    capacity = tuple(sorted([(name, amount.value) for name, amount in device.capacity.items()]))
    return (seen.driver, bool(device.allow_multiple_allocations), tuple(sorted(device.attributes.items())), capacity)


def _value(read: Read, seen: _Seen) -> Hashable:
    device = seen.device
    if read.kind == "driver":
        return seen.driver
    if read.kind == "allowMultipleAllocations":
        return bool(device.allow_multiple_allocations)
    qualified = f"{read.domain}/{read.name}"
    own = read.name if read.domain == seen.driver else qualified
    if read.kind == "attributes":
        return device.attributes.get(qualified) or device.attributes.get(own)
    amount = device.capacity.get(qualified) or device.capacity.get(own)
    return None if amount is None else amount.value
