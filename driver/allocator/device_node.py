"""One node's devices by position, and what is taken of them.

Positions: whole GPUs first, in order of name (which is order of PCI address), then all other devices in order of slices. Sets
of positions are bit masks, as wide as the node has devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol

from driver.allocator.links import build_link_model
from driver.allocator.pools import Pool
from driver.allocator.tables import LinkTables, positions_of, tables_of
from driver.allocator.taints import Fence, is_fenced, is_tolerated
from driver.api.claim_spec_v1 import Toleration
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Attribute, Device


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
    draws: tuple[tuple[tuple[int, Fraction], ...], ...]
    """For each position what it draws from which counter."""
    counters: tuple[Fraction, ...]
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
        self.is_whole = True
        """No pool of the node is left out."""
        ordered = [(pool, device) for pool in pools for device in pool.devices]
        by_position = sorted(
            range(len(ordered)), key=lambda at: (0, ordered[at][1].name, at) if _is_whole(ordered[at][1]) else (1, "", at)
        )
        self.devices: tuple[Device, ...] = tuple(ordered[at][1] for at in by_position)
        self.ids = tuple(DeviceId(ordered[at][0].driver, ordered[at][0].name, ordered[at][1].name) for at in by_position)
        self.positions: Mapping[DeviceId, int] = {device: position for position, device in enumerate(self.ids)}
        self.first_fit = tuple(sorted(range(len(by_position)), key=lambda position: by_position[position]))
        """Positions in the order of slices, which is the order of kube-scheduler."""
        self.whole = sum(1 << position for position, device in enumerate(self.devices) if _is_whole(device))
        self.ours = sum(
            1 << position for position, device in enumerate(self.devices) if fence is None or is_fenced(device, fence)
        )
        self.shape = self._build_shape(pools, fence)
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
            before = self.selected(expressions[:-1]) if expressions else (1 << len(self.devices)) - 1
            known = self._selected[expressions] = self._select(expressions[-1], before) if expressions else before
        return known

    def forget_views(self) -> None:
        """A problem is through. A view is as large as its device, and there may be 80,000: they are made again when needed."""
        self._views = None

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """The devices whose taints a request with these tolerations puts up with."""
        known = self._tolerated.get(tolerations)
        if known is None:
            known = self._tolerated[tolerations] = sum(
                1 << position for position, device in enumerate(self.devices) if is_tolerated(device, tolerations, self._fence)
            )
        return known

    def values_of(self, attribute: str) -> tuple[int, ...]:
        """A number for each position: equal for equal values of the attribute, -1 where it is not there."""
        domain, _, name = attribute.rpartition("/")
        seen: dict[Attribute, int] = {}
        numbers = []
        for device, id_ in zip(self.devices, self.ids, strict=True):
            value = device.attributes.get(attribute)
            if value is None and domain == id_.driver:
                value = device.attributes.get(name)
            numbers.append(-1 if value is None else seen.setdefault(value, len(seen)))
        return tuple(numbers)

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

    def _build_shape(self, pools: Sequence[Pool], fence: Fence | None) -> Shape:
        gpus = [device for device in self.devices if _is_whole(device)]
        model = build_link_model(gpus, self.ids[0].driver if self.ids else "")
        counters, draws = _build_counters(pools, self.ids, self.devices)
        healthy = sum(1 << position for position in range(len(gpus)) if is_tolerated(gpus[position], (), fence))
        return Shape(
            tables=tables_of(model),
            model=model,
            size=len(self.devices),
            healthy=healthy & self.ours,
            draws=draws,
            counters=counters,
            shared=sum(1 << position for position, device in enumerate(self.devices) if device.allow_multiple_allocations),
        )


def _is_whole(device: Device) -> bool:
    """A whole GPU; a device that does not say what it is counts as one if it draws on no counters that others draw on."""
    kind = device.attributes.get("type")
    return not device.consumes_counters if kind is None else kind.string == "gpu"


def _build_counters(
    pools: Sequence[Pool], ids: Sequence[DeviceId], devices: Sequence[Device]
) -> tuple[tuple[Fraction, ...], tuple[tuple[tuple[int, Fraction], ...], ...]]:
    """All counters of all pools in one row, and what each device draws from them."""
    index: dict[tuple[str, str, str, str], int] = {}
    amounts: list[Fraction] = []
    for pool in pools:
        for counter_set in pool.counter_sets:
            for name, counter in counter_set.counters.items():
                index[pool.driver, pool.name, counter_set.name, name] = len(amounts)
                amounts.append(parse_quantity(counter.value))
    draws = tuple(
        tuple(
            (index[id_.driver, id_.pool, each.counter_set, name], parse_quantity(counter.value))
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        )
        for id_, device in zip(ids, devices, strict=True)
    )
    return tuple(amounts), draws
