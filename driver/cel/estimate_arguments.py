"""An argument of a call, as the cost estimate sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.cel.ast import Literal, Node
from driver.cel.estimate_sizes import DeviceSizes
from driver.cel.intervals import UNKNOWN, Interval
from driver.cel.types import Type

Estimate = tuple[Interval, Interval | None]
"""Cost, and the size of the result."""

TEXT_FACTOR, REGEX_FACTOR = 0.1, 0.25


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, with what is known of its size."""

    node: Node | None
    type: Type
    path: tuple[str, ...]
    known_size: Interval | None
    device: DeviceSizes

    @property
    def size(self) -> Interval:
        """The size, or that it can be anything."""
        return self.known_size or self.device.size(self.path) or UNKNOWN

    @property
    def size_inside(self) -> Interval:
        """As ``size``, without a look at the path."""
        return self.known_size or UNKNOWN

    def element(self) -> Argument | None:
        """What the list holds; None if it is no list (or any other type with parameters)."""
        if not self.type.parameters:
            return None
        path = (*self.path, "@items") if self.path else ()
        return Argument(None, self.type.parameters[0], path, None, self.device)

    def constant(self, otherwise: int) -> int:
        """The number that the argument is, at least 0."""
        if isinstance(self.node, Literal) and type(self.node.value) is int:
            return max(0, self.node.value)
        return otherwise


Rule = Callable[[Argument | None, Sequence[Argument]], Estimate | None]
"""The estimate of an overload for target and arguments; None if it does not apply."""

NamedRule = Callable[[Argument | None, Sequence[Argument], str], Estimate | None]
"""The same for a function, with the overload."""
