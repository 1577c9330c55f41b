"""One node's devices by position, and what is taken of them.

Positions: whole GPUs first, in order of name (which is order of PCI address), then the partitions of one GPU after the other,
then all other devices, each of these in order of slices. Sets of positions are bit masks, as wide as the node has devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol

from driver.allocator.counter_groups import NamedCounter, build_groups, find_groups, name_counters
from driver.allocator.links import build_link_model
from driver.allocator.partitions import CounterGroup
from driver.allocator.pools import Pool
from driver.allocator.tables import LinkTables, positions_of, tables_of
from driver.allocator.taints import Fence, is_fenced, is_tolerated
from driver.api.claim_spec_v1 import Toleration
from driver.api.resource_v1 import Attribute, Device

_MOST_SELECTED = 64
"""Answers that a node keeps. Claims that each name a device of their own would otherwise leave one behind on every node."""
_NO_VALUE = Attribute()


class DeviceId(NamedTuple):
    """What a result names."""

    driver: str
    pool: str
    device: str


class SelectorFault(ValueError):
    """A selector cannot be compiled, or fails on a device; the text says why."""


class SelectorEngine(Protocol):
    """Answers selectors. ``view`` is made once a device, so that an engine can prepare what it reads."""

    def view(self, driver: str, device: Device) -> object:
        """The device as ``matches`` wants it."""

    def forget(self, view: object) -> None:
        """Drop what of a view takes room and can be made again."""

    def matches(self, expression: str, view: object) -> bool:
        """Whether the expression is true of the device.

        Raises:
            SelectorFault: the expression does not compile, or fails on this device.
        """


@dataclass(frozen=True, slots=True)
class Shape:
    """What makes two nodes alike to every search, beside selectors. Equal shapes are one object of the fleet."""

    tables: LinkTables = field(compare=False)
    """Of the whole GPUs; compared by ``model``."""
    model: object
    size: int
    healthy: int
    """Whole GPUs that an ordinary claim may have: ours, and without a taint in the way."""
    groups: tuple[CounterGroup, ...]
    """Devices that draw on counters."""
    group_of: tuple[int, ...] = field(compare=False)
    """For each position its group, -1 for none."""
    shared: int
    """Devices that several claims may have at a time."""


@dataclass(slots=True, kw_only=True)
class Taken:
    """What a node has given away."""

    mask: int = 0
    """Devices that one claim has for itself."""
    shares: dict[int, dict[str, Fraction]] = field(default_factory=dict)
    """For each shared device that is in use what is drawn from its capacities."""

    def key(self) -> tuple[object, ...]:
        """Equal keys on equal shapes leave the same to give."""
        shares = tuple((position, tuple(sorted(drawn.items()))) for position, drawn in sorted(self.shares.items()))
        return (self.mask, shares) if shares else (self.mask,)


class DeviceNode:
    """A node's pools, seen by position. What selectors and taints say is worked out once for each generation of slices."""

    def __init__(self, name: str, pools: Sequence[Pool], engine: SelectorEngine, fence: Fence | None) -> None:
        self.name = name
        self._pools = {(pool.driver, pool.name): pool for pool in pools}
        self.is_whole = True
        """No pool of the node is left out."""
        ordered = [(pool, device) for pool in pools for device in pool.devices]
        groups = find_groups(ordered)
        by_position = _order(ordered, groups)
        self.devices: tuple[Device, ...] = tuple(ordered[at][1] for at in by_position)
        self.ids = tuple(DeviceId(ordered[at][0].driver, ordered[at][0].name, ordered[at][1].name) for at in by_position)
        self.positions: Mapping[DeviceId, int] = {device: position for position, device in enumerate(self.ids)}
        self.first_fit = tuple(sorted(range(len(by_position)), key=lambda position: by_position[position]))
        """Positions in the order of slices, which is the order of kube-scheduler."""
        self.whole = sum(1 << position for position, device in enumerate(self.devices) if _is_whole(device))
        self.ours = sum(
            1 << position for position, device in enumerate(self.devices) if fence is None or is_fenced(device, fence)
        )
        self.shape = self._build_shape(fence, _place_groups(by_position, groups, self.whole.bit_count()))
        self.counted = sum(group.mask for group in self.shape.groups)
        """Devices that draw on counters."""
        self._fence = fence
        self._engine = engine
        self._views: tuple[object, ...] | None = None
        self._selected: dict[tuple[str, ...], int] = {}
        self._tolerated: dict[tuple[Toleration, ...], int] = {}
        self.faults: dict[str, str] = {}
        """For each expression that failed on a device what the first failure was."""

    def selected(self, expressions: tuple[str, ...]) -> int:
        """The devices of which all expressions are true, asked in order until one is false.

        A device on which an expression fails is not selected, and ``faults`` says why: one node's odd device must not keep pods
        from all others.
        """
        known = self._selected.get(expressions)
        if known is None:
            if len(self._selected) >= _MOST_SELECTED:
                self._selected.clear()
                self.faults.clear()
            before = self.selected(expressions[:-1]) if expressions else (1 << len(self.devices)) - 1
            known = self._selected[expressions] = self._select(expressions[-1], before) if expressions else before
        return known

    def forget_views(self) -> None:
        """A problem is through. What was prepared of a device is as large as the device, and there may be 80,000."""
        for view in self._views or ():
            self._engine.forget(view)

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """The devices whose taints a request with these tolerations puts up with."""
        known = self._tolerated.get(tolerations)
        if known is None:
            if len(self._tolerated) >= _MOST_SELECTED:
                self._tolerated.clear()
            known = self._tolerated[tolerations] = sum(
                1 << position for position, device in enumerate(self.devices) if is_tolerated(device, tolerations, self._fence)
            )
        return known

    def values_of(self, attribute: str) -> tuple[int, ...]:
        """A number for each position: equal for equal values of the attribute, -1 where it is not there.

        A list (DRAListTypeAttributes, alpha as of 1.37) is read as no value: whether lists match is no question of equality.
        """
        domain, _, name = attribute.rpartition("/")
        seen: dict[Attribute, int] = {}
        numbers = []
        for device, id_ in zip(self.devices, self.ids, strict=True):
            value = device.attributes.get(attribute)
            if value is None and domain == id_.driver:
                value = device.attributes.get(name)
            numbers.append(-1 if value is None or value == _NO_VALUE else seen.setdefault(value, len(seen)))
        return tuple(numbers)

    def has_for_us(self, *, is_admin: bool) -> bool:
        """Whether there is a device that we may give, to who looks on or to others."""
        return self.ours != 0 or (is_admin and self.counted != 0)

    def within_reach(self, mask: int, *, is_admin: bool) -> int:
        """Which of these we may give: ours; and to who only looks on all, where some draw on counters.

        kube-scheduler gives nobody what draws on counters that are used up, though who looks on takes nothing.
        """
        return mask if is_admin and mask & self.counted else mask & self.ours

    def name_counters(self, group: CounterGroup) -> list[NamedCounter]:
        """What the slices call the counters of a group of this node."""
        devices = self._list_pairs([group.position_of(number) for number in range(len(group.model.draws))])
        return name_counters(list(self._pools.values()), devices)

    def _list_pairs(self, positions: Iterable[int]) -> list[tuple[Pool, Device]]:
        return [(self._pools[self.ids[at][:2]], self.devices[at]) for at in positions]

    def _select(self, expression: str, among: int) -> int:
        if self._views is None:
            self._views = tuple(
                self._engine.view(id_.driver, device) for id_, device in zip(self.ids, self.devices, strict=True)
            )
        mask = 0
        for position in positions_of(among):
            try:
                mask |= self._engine.matches(expression, self._views[position]) << position
            except SelectorFault as err:
                self.faults.setdefault(expression, f"{self.devices[position].name}: {err}")
        return mask

    def _build_shape(self, fence: Fence | None, placed: Sequence[tuple[Sequence[int], Sequence[int], int]]) -> Shape:
        gpus = [device for device in self.devices if _is_whole(device)]
        model = build_link_model(gpus, self.ids[0].driver if self.ids else "")
        groups = build_groups(list(self._pools.values()), self._list_pairs(range(len(self.devices))), placed)
        healthy = sum(1 << position for position in range(len(gpus)) if is_tolerated(gpus[position], (), fence))
        numbers = {position: number for number, group in enumerate(groups) for position in positions_of(group.mask)}
        return Shape(
            tables=tables_of(model),
            model=model,
            size=len(self.devices),
            healthy=healthy & self.ours,
            groups=groups,
            group_of=tuple(numbers.get(position, -1) for position in range(len(self.devices))),
            shared=sum(1 << position for position, device in enumerate(self.devices) if device.allow_multiple_allocations),
        )


def _is_whole(device: Device) -> bool:
    """A whole GPU; a device that does not say what it is counts as one if it draws on no counters that others draw on."""
    kind = device.attributes.get("type")
    return not device.consumes_counters if kind is None else kind.string == "gpu"


def _order(devices: Sequence[tuple[Pool, Device]], groups: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of devices by position."""
    group_of = {number: at for at, group in enumerate(groups) for number in group}

    def place(number: int) -> tuple[int, int, str, int]:
        device = devices[number][1]
        if _is_whole(device):
            return 0, 0, device.name, number
        return 1, group_of.get(number, len(groups)), "", number

    return sorted(range(len(devices)), key=place)


def _place_groups(
    by_position: Sequence[int], groups: Sequence[Sequence[int]], wholes: int
) -> list[tuple[list[int], list[int], int]]:
    """Of each group the positions of whole GPUs, then of the others, and where the others begin."""
    at = {number: position for position, number in enumerate(by_position)}
    placed = []
    for group in groups:
        positions = sorted(at[number] for number in group)
        others = [position for position in positions if position >= wholes]
        placed.append(([position for position in positions if position < wholes], others, others[0] if others else wholes))
    # In order of the whole GPUs, which is that of PCI addresses: equal nodes have equal groups, however slices are ordered.
    return sorted(placed)
