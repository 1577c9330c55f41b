"""Kubernetes' selector language for the allocator: each expression compiled once, each device prepared once a problem."""

from __future__ import annotations

from driver.allocator.device_node import SelectorFault
from driver.api.resource_v1 import Device
from driver.cel.device import DeviceView, build_view
from driver.cel.environment import Features
from driver.cel.errors import EvaluationError, SelectorError
from driver.cel.selector import DEFAULT_FEATURES, Selector, compile_selector

_MOST_SELECTORS = 1024
"""Beyond it all are forgotten: claims of pods that are gone have left their selectors behind."""


class CelEngine:
    """Answers selectors as kube-scheduler does, but for one thing: it gives up a pod where one device has no answer."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self._features = features
        self._compiled: dict[str, Selector | SelectorFault] = {}

    def view(self, driver: str, device: Device) -> object:
        """The device, with its versions and quantities parsed."""
        return build_view(driver, device)

    def matches(self, expression: str, view: object) -> bool:
        """Whether the expression is true of the device.

        Raises:
            SelectorFault: it does not compile, or has no answer for this device.
        """
        if not isinstance(view, DeviceView):
            raise TypeError(f"{view!r} was not made by view()")
        selector = self._compile(expression)
        if isinstance(selector, SelectorFault):
            raise selector
        try:
            return selector.matches(view)
        except EvaluationError as err:
            raise SelectorFault(str(err)) from err

    def _compile(self, expression: str) -> Selector | SelectorFault:
        known = self._compiled.get(expression)
        if known is None:
            if len(self._compiled) >= _MOST_SELECTORS:
                self._compiled.clear()
            try:
                known = compile_selector(expression, features=self._features)
            except SelectorError as err:
                known = SelectorFault(str(err))
            self._compiled[expression] = known
        return known
