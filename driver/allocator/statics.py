"""What a problem finds on a node before anything is taken: worked out once a generation of slices, equal for equal nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from driver.allocator.alike import number_groups
from driver.allocator.capacity import draw, fits, read_totals
from driver.allocator.device_node import DeviceNode, Shape
from driver.allocator.problem import Aspects
from driver.allocator.tables import positions_of

Amount = tuple[str, Fraction]


@dataclass(frozen=True, slots=True)
class Statics:
    """Masks and values by position. Nodes with equal statics differ only in what is taken."""

    shape_id: int
    shape: Shape = field(compare=False)
    eligible: tuple[int, ...]
    """For each alternative the devices that could serve it if nothing were taken."""
    matching: tuple[int, ...]
    """For each alternative that wants all devices those that match, whether it may have them or not; 0 for others."""
    patterns: tuple[tuple[int, ...], ...]
    """For each constraint, over all claims, a number by position: equal for equal values, -1 for no value."""
    totals: tuple[tuple[int, tuple[Amount, ...]], ...] = ()
    """The capacities of shared devices."""
    draws: tuple[tuple[tuple[int, tuple[Amount, ...]], ...], ...] = ()
    """For each alternative what it draws from shared devices."""
    alike: tuple[int, ...] = field(default=(), compare=False)
    """For each group of devices that draw on counters a number: equal where no question tells two groups apart."""


def build_statics(node: DeviceNode, shape_id: int, aspects: Aspects) -> Statics:
    """The statics of problems with these aspects on a node."""
    alternatives, attributes = aspects
    selected = [_can_hold(node, each.capacity, node.selected(each.selectors)) for each in alternatives]
    node.forget_views()
    pairs = list(zip(alternatives, selected, strict=True))
    shared = tuple(positions_of(node.shape.shared))
    eligible = tuple(node.within_reach(mask, is_admin=each.is_admin) & node.tolerated(each.tolerations) for each, mask in pairs)
    matching = tuple(mask if each.is_all and node.is_whole else 0 for each, mask in pairs)
    patterns = tuple(node.values_of(attribute) for attribute in attributes)
    return Statics(
        shape_id=shape_id,
        shape=node.shape,
        eligible=eligible,
        matching=matching,
        patterns=patterns,
        totals=tuple((at, _sorted(read_totals(node.devices[at]))) for at in shared),
        draws=tuple(tuple((at, _drawn(node, each.capacity, at)) for at in shared if mask >> at & 1) for each, mask in pairs),
        alike=number_groups(node.shape, (*eligible, *matching), patterns),
    )


def _can_hold(node: DeviceNode, capacity: tuple[Amount, ...], mask: int) -> int:
    """The devices of which the capacities suffice for the request when nobody else draws on them."""
    asked = dict(capacity)
    if not asked and not node.shape.shared & mask:
        return mask
    held = 0
    for position in positions_of(mask):
        device = node.devices[position]
        drawn = draw(device, asked)
        if drawn is not None and fits(device, drawn, {}):
            held |= 1 << position
    return held


def _drawn(node: DeviceNode, capacity: tuple[Amount, ...], position: int) -> tuple[Amount, ...]:
    return _sorted(draw(node.devices[position], dict(capacity)) or {})


def _sorted(amounts: Mapping[str, Fraction]) -> tuple[Amount, ...]:
    return tuple(sorted(amounts.items()))
