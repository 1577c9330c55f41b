"""Kubernetes' selector language for the allocator: each expression compiled once, each kind of device asked about once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from driver.allocator.device_node import SelectorFault
from driver.allocator.reads import Read, find_reads
from driver.api.resource_v1 import Attribute, Capacity, Device
from driver.cel.device import DeviceView, build_view
from driver.cel.environment import Features
from driver.cel.errors import EvaluationError, SelectorError
from driver.cel.parser import parse
from driver.cel.selector import DEFAULT_FEATURES, Selector, compile_selector

_MOST_SELECTORS = 1024
"""Beyond it all are forgotten: claims of pods that are gone have left their selectors behind."""
_MOST_ANSWERS = 100_000
"""Of one selector, likewise: one that reads each device's uuid has an answer for each."""


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


class CelEngine:
    """Answers selectors as kube-scheduler does, but for one thing: it gives up a pod where one device has no answer."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self._features = features
        self._compiled: dict[str, _Compiled] = {}
        self._sound: dict[Attribute | str, bool] = {}

    def view(self, driver: str, device: Device) -> object:
        """The device, prepared no further than it is asked about."""
        return _Seen(driver, device)

    def matches(self, expression: str, view: object) -> bool:
        """Whether the expression is true of the device.

        Raises:
            SelectorFault: it does not compile, or has no answer for this device.
        """
        if not isinstance(view, _Seen):
            raise TypeError(f"{view!r} was not made by view()")
        compiled = self._compile(expression)
        if compiled.selector is None:
            raise SelectorFault(compiled.fault)
        reads = compiled.reads if self._is_sound(view) else None
        answer = _evaluate(compiled.selector, view) if reads is None else _ask(compiled, compiled.selector, reads, view)
        if isinstance(answer, str):
            raise SelectorFault(answer)
        return answer

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
            if len(self._sound) >= _MOST_ANSWERS:
                self._sound.clear()
            is_amount = isinstance(value, str)
            attributes = {} if isinstance(value, str) else {"x": value}
            probe = Device(name="x", attributes=attributes, capacity={"x": Capacity(value=str(value))} if is_amount else {})
            known = self._sound[value] = not build_view("x", probe).fault
        return known

    def _compile(self, expression: str) -> _Compiled:
        known = self._compiled.get(expression)
        if known is None:
            if len(self._compiled) >= _MOST_SELECTORS:
                self._compiled.clear()
            try:
                selector = compile_selector(expression, features=self._features)
                reads = find_reads(parse(selector.source))
                known = _Compiled(selector=selector, reads=None if reads is None else tuple(sorted(reads)))
            except SelectorError as err:
                known = _Compiled(fault=str(err))
            self._compiled[expression] = known
        return known


def _ask(compiled: _Compiled, selector: Selector, reads: tuple[Read, ...], seen: _Seen) -> bool | str:
    key = tuple([_value(read, seen) for read in reads])
    answer = compiled.answers.get(key)
    if answer is None:
        if len(compiled.answers) >= _MOST_ANSWERS:
            compiled.answers.clear()
        answer = compiled.answers[key] = _evaluate(selector, seen)
    return answer


def _evaluate(selector: Selector, seen: _Seen) -> bool | str:
    if seen.view is None:
        seen.view = build_view(seen.driver, seen.device)
    try:
        return selector.matches(seen.view)
    except EvaluationError as err:
        return str(err)


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
