"""The engine of selectors in a simulation: Kubernetes' language, made when the first selector is met."""

from __future__ import annotations

from driver.allocator.device_node import SelectorEngine, SelectorFault
from driver.api.resource_v1 import Device


class NoSelectors:
    """For lists without selectors: nothing has to be compiled."""

    def view(self, _driver: str, device: Device) -> object:
        """The device itself."""
        return device

    def matches(self, expression: str, _view: object) -> bool:
        """Never asked; a selector here is a fault, not a match."""
        raise SelectorFault(f"selectors are not supported in a simulation: {expression}")


def build_engine() -> SelectorEngine:
    """The engine."""
    return NoSelectors()
