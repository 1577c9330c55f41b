"""What one device may say of itself: the API refuses a whole slice for one attribute too many (R1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.api.resource_v1 import RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE, Attribute, Capacity

Fact = tuple[str, Attribute | Capacity]
"""A name, qualified where it is not in the driver's own domain, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgeted:
    """What fits, and the names of what does not."""

    attributes: dict[str, Attribute]
    capacity: dict[str, Capacity]
    left_out: tuple[str, ...]


def spend_budget(
    groups: Sequence[Sequence[Fact]], *, limit: int = RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE
) -> Budgeted:
    """Takes groups of facts in the order given, each whole or not at all, while at most ``limit`` facts are taken.

    A group that does not fit does not stop a smaller one behind it. A fact alone is a group of one.
    """
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    left_out: list[str] = []
    for group in groups:
        if len(attributes) + len(capacity) + len(group) > limit:
            left_out += [name for name, _ in group]
            continue
        for name, value in group:
            if isinstance(value, Attribute):
                attributes[name] = value
            else:
                capacity[name] = value
    return Budgeted(attributes=attributes, capacity=capacity, left_out=tuple(left_out))
