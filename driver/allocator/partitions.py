"""Devices that draw on the same counters, nearly always a GPU and its partitions, and what is worth knowing of them.

What is left of a group's counters is one number, each counter a field of it with a guard bit above, so that a device is paid
for with one subtraction. Devices of a group are named by *local* numbers, whole GPUs first; sets of them are bit masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from driver.allocator.tables import positions_of

PARTS = 1000
"""Shares of a group are counted in thousandths."""

_KEPT = 64
"""Sets of a size that are kept where the best set is put together device by device."""

Draw = tuple[tuple[int, int], ...]
"""What a device draws, by counter."""
Lefts = tuple[int, ...]
"""What is left of the counters of each group of a node."""
Wealth = tuple[int, ...]
"""How many devices of each kind can still be had at a time, the largest kind first."""


@dataclass(frozen=True, slots=True)
class PartitionModel:
    """Counters and draws of a group, each counter in units of its own. Equal models are one kind of GPU."""

    counters: tuple[int, ...]
    draws: tuple[Draw, ...]


class PartitionTables:
    """Answers about groups of one model; each is worked out when it is first asked for."""

    def __init__(self, model: PartitionModel) -> None:
        self.model = model
        starts = [0]
        for amount in model.counters:
            starts.append(starts[-1] + amount.bit_length() + 1)
        self._guards = sum(1 << end - 1 for end in starts[1:])
        self.full = sum(amount << start for amount, start in zip(model.counters, starts, strict=False))
        """What is left when nothing is taken."""
        self._draws = tuple(
            sum(amount << starts[counter] for counter, amount in draw) if self._is_possible(draw) else -1
            for draw in model.draws
        )
        self._starts = starts
        self.shares = tuple(self._share(draw) for draw in model.draws)
        """Of each device the part of the group that it draws, as the mean over the counters."""
        self.kinds = self._build_kinds()
        """The devices of each kind, which draw alike but elsewhere; the largest kind first.

        Large is told by what all devices draw (multiprocessors, copy engines): one slice with all video engines is small.
        """
        self._affordable: dict[int, int] = {}
        self._most: dict[tuple[int, int], int] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        self._rests: dict[int, int] = {}
        self._best: dict[tuple[int, int, int, int], tuple[int, bool]] = {}
        self._wealth: dict[tuple[int, int], Wealth] = {}

    def pay(self, left: int, device: int) -> int | None:
        """What is left with the device paid for; None where that overdraws a counter."""
        draw = self._draws[device]
        if draw < 0:
            return None
        rest = (left | self._guards) - draw
        return rest ^ self._guards if rest & self._guards == self._guards else None

    def affordable(self, left: int) -> int:
        """The devices of which each alone can be paid for."""
        known = self._affordable.get(left)
        if known is None:
            each = range(len(self._draws))
            known = self._affordable[left] = sum(1 << device for device in each if self.pay(left, device) is not None)
        return known

    def wealth(self, left: int, gone: int) -> Wealth:
        """What larger requests could still get. Devices in ``gone`` are somebody's, whatever the counters say.

        Exact where devices of a kind exclude each other by amounts alone, as in all MIG tables.
        """
        known = self._wealth.get((left, gone))
        if known is None:
            known = self._wealth[left, gone] = tuple(len(self.take_in_order(kind, left, gone)) for kind in self.kinds)
        return known

    def take_in_order(self, devices: Iterable[int], left: int, gone: int) -> list[int]:
        """Of these devices the first that can be paid for together."""
        taken = []
        for device in devices:
            rest = None if gone >> device & 1 else self.pay(left, device)
            if rest is not None:
                taken.append(device)
                left = rest
        return taken

    def remaining(self, taken: int) -> int | None:
        """What is left with these devices taken; None where they take more than there is: then nobody knows what is free."""
        left = self.full
        for device in positions_of(taken):
            rest = self.pay(left, device)
            if rest is None:
                return None
            left = rest
        return left

    def nearest(self, left: int, among: int) -> tuple[int, int] | None:
        """Of these devices, none of which can be paid for, the one that lacks least, and how much, in thousandths."""
        rest = self.amounts_left(left)
        lacks = []
        for device in positions_of(among):
            short = [
                (amount - rest[at], self.model.counters[at]) for at, amount in self.model.draws[device] if amount > rest[at]
            ]
            lacks.append((sum(-(-missing * PARTS // (amount or missing)) for missing, amount in short), device))
        missing, device = min(lacks, default=(0, 0))
        return (device, missing) if missing else None

    def amounts_left(self, left: int) -> tuple[int, ...]:
        """What is left, counter by counter."""
        return tuple(self._left_of(counter, left) for counter in range(len(self.model.counters)))

    def best_of(self, among: int, count: int, left: int, gone: int) -> tuple[int, bool]:
        """So many of these devices that cost larger requests least, 0 where none were found; and whether no set is better.

        One device after the other, with the best sets of each size kept; of one MIG profile these are all.
        """
        key = (among, count, left, gone)
        known = self._best.get(key)
        if known is None:
            known = self._best[key] = self._find_best(among, count, left, gone)
        return known

    def share_of(self, left: int) -> int:
        """The part of the group that is left."""
        known = self._rests.get(left)
        if known is None:
            amounts = [(self._left_of(counter, left), amount) for counter, amount in enumerate(self.model.counters) if amount]
            known = sum(rest * PARTS // amount for rest, amount in amounts) // max(1, len(amounts))
            self._rests[left] = known
        return known

    def most(self, left: int, among: int) -> int:
        """At most so many of these devices fit together; fewer may."""
        known = self._most.get((left, among))
        if known is None:
            known = self._most[left, among] = self._bound(left, among)
        return known

    def in_order(self, among: int) -> tuple[int, ...]:
        """These devices, small ones first."""
        known = self._orders.get(among)
        if known is None:
            each = sorted(positions_of(among), key=lambda device: (self.shares[device], device))
            known = self._orders[among] = tuple(each)
        return known

    def _bound(self, left: int, among: int) -> int:
        devices = list(positions_of(among & self.affordable(left)))
        if not devices:
            return 0
        draws = [dict(self.model.draws[device]) for device in devices]
        bounds = [len(devices)]
        for counter in range(len(self.model.counters)):
            least = min(draw.get(counter, 0) for draw in draws)
            if least:
                bounds.append(self._left_of(counter, left) // least)
        # The same for all counters together. What is left is rounded down, by less than two thousandths.
        least = min(self.shares[device] for device in devices)
        if least:
            bounds.append((self.share_of(left) + 2) // least)
        return min(bounds)

    def _find_best(self, among: int, count: int, left: int, gone: int) -> tuple[int, bool]:
        had = self.wealth(left, gone)

        def cost(chosen: int) -> tuple[int, list[int], int, int]:
            has = self.wealth(sets[chosen], gone | chosen)
            lost = [one - other for one, other in zip(had, has, strict=True)]
            return sum(self.shares[device] for device in positions_of(chosen)), lost, self.share_of(sets[chosen]), chosen

        kept, is_exact = {0: left}, True
        for _ in range(count):
            sets: dict[int, int] = {}
            for chosen, rest in kept.items():
                for device in positions_of(among & ~chosen & self.affordable(rest)):
                    paid = self.pay(rest, device)
                    if paid is not None:
                        sets[chosen | 1 << device] = paid
            is_exact = is_exact and len(sets) <= _KEPT
            kept = {chosen: sets[chosen] for chosen in sorted(sets, key=cost)[:_KEPT]}
        return next(iter(kept), 0), is_exact

    def _left_of(self, counter: int, left: int) -> int:
        return left >> self._starts[counter] & (1 << self.model.counters[counter].bit_length()) - 1

    def _is_possible(self, draw: Draw) -> bool:
        return all(amount <= self.model.counters[counter] for counter, amount in draw)

    def _share(self, draw: Draw) -> int:
        counters = self.model.counters
        parts = sum(amount * PARTS // counters[counter] for counter, amount in draw if counters[counter])
        return parts // max(1, sum(1 for amount in counters if amount))

    def _build_kinds(self) -> tuple[tuple[int, ...], ...]:
        kinds: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for device, draw in enumerate(self.model.draws):
            alike = tuple(sorted((amount, self.model.counters[counter]) for counter, amount in draw))
            kinds.setdefault(alike, []).append(device)
        drawn = [{counter for counter, amount in draw if amount} for draw in self.model.draws]
        common = {counter for counter in set.intersection(*drawn) if self.model.counters[counter]} if drawn else set()

        def size(device: int) -> tuple[int, int]:
            parts = (amount * PARTS // self.model.counters[at] for at, amount in self.model.draws[device] if at in common)
            return sum(parts), self.shares[device]

        return tuple(
            sorted((tuple(each) for each in kinds.values()), key=lambda each: (*(-part for part in size(each[0])), each))
        )


@lru_cache(maxsize=256)
def partition_tables_of(model: PartitionModel) -> PartitionTables:
    """The tables of this model."""
    return PartitionTables(model)


class CounterGroup:
    """Devices of a node, by position, that draw on the same counters. Those that are no whole GPU stand side by side.

    Groups are equal that are of one model and stand at the same positions.
    """

    def __init__(self, model: PartitionModel, wholes: tuple[int, ...], first: int) -> None:
        self.model = model
        self.wholes = wholes
        self.first = first
        """Position of the first that is no whole GPU."""
        self.tables = partition_tables_of(model)
        self.whole_mask = sum(1 << position for position in wholes)
        self._count = len(wholes)
        self._others = (1 << len(model.draws) - len(wholes)) - 1
        self.mask = self.whole_mask | self._others << first

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CounterGroup) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[PartitionModel, tuple[int, ...], int]:
        return self.model, self.wholes, self.first

    def local(self, mask: int) -> int:
        """A set of positions as local numbers; others are left out."""
        found = (mask >> self.first & self._others) << self._count
        for number, position in enumerate(self.wholes):
            found |= (mask >> position & 1) << number
        return found

    def local_of(self, position: int) -> int:
        """The local number of a position of the group."""
        return position - self.first + self._count if position >= self.first else self.wholes.index(position)

    def position_of(self, device: int) -> int:
        """The position of a local number."""
        return device - self._count + self.first if device >= self._count else self.wholes[device]

    def spread(self, local: int) -> int:
        """Local numbers as positions."""
        found = local >> self._count << self.first
        for number, position in enumerate(self.wholes):
            found |= (local >> number & 1) << position
        return found
