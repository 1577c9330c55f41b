"""What one evaluation carries: the device, local variables, and what it has cost."""

from __future__ import annotations

from typing import Any

from driver.cel.costs import LIMIT
from driver.cel.device import DeviceView
from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.quantity import Quantity
from driver.cel.values import DeviceMap, DomainMap, Map


class Frame:
    """Has the fields of a ``DeviceView`` too, since a selector without variables is evaluated on the view itself."""

    __slots__ = ("amounts", "attributes", "capacity", "cost", "driver", "known", "limit", "multi", "slots", "view")

    def __init__(self, view: DeviceView, slot_count: int, *, limit: int = LIMIT) -> None:
        self.view = view
        self.driver = view.driver
        self.multi = view.multi
        self.known = view.known
        self.attributes = view.attributes
        self.amounts = view.amounts
        self.capacity = view.capacity
        self.slots: list[Any] = [None] * slot_count
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Count a cost.

        Raises:
            EvaluationAborted: the limit is passed.
        """
        self.cost += cost
        if self.cost > self.limit:
            raise EvaluationAborted(f"the selector costs more than {self.limit} to evaluate")

    def own_quantities(self) -> None:
        """Copy the device's quantities: comparing changes their form, which shows in ``isInteger`` later in an evaluation."""
        self.amounts = {}
        domains: list[tuple[str, DeviceMap]] = []
        for domain, amounts in self.view.capacity.items():
            own = DeviceMap()
            for identifier, quantity in amounts.items():
                copied: Quantity = quantity.copy()
                own.put(identifier, copied)
                self.amounts[domain, identifier] = copied
            domains.append((domain, own))
        self.capacity = DomainMap(domains)

    def as_map(self) -> Map:
        """The device itself as a value."""
        fields = {"driver": self.driver, "allowMultipleAllocations": self.multi}
        return Map([*fields.items(), ("attributes", self.attributes), ("capacity", self.capacity)])


class Pending:
    """Stands in a slot for a value that nobody has asked for yet."""

    __slots__ = ()


class Failure:
    """Stands in a slot for a value that could not be computed."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


PENDING = Pending()
