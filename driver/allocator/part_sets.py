"""The sets of devices that could serve one request where some draw on counters, each once.

GPUs that no question tells apart, with the same partitions taken, are one case: of such GPUs the first gets the most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from driver.allocator.objective import Room
from driver.allocator.partitions import CounterGroup
from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of

_MOST_LOOKS = 100_000


Values = tuple[int, ...]
"""For each pattern whose values must differ the mask of those that are used."""
Head = tuple[int, int, Values]
"""Devices of one part: a number to compare alike parts by, the positions, and the values with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Devices of one group that can be paid for, small ones first; or devices without counters that are alike."""

    positions: tuple[int, ...] = ()
    """Where they draw on no counters."""
    most: int
    group: CounterGroup | None = None
    left: int = 0
    wanted: int = 0
    gone: int = 0
    """Local numbers, as ``wanted``."""
    key: object = None
    """Equal for parts that are alike."""


class Effort:
    """Of one search: how many parts of sets it has looked at, and what it knows of GPUs in the states that it has met."""

    def __init__(self) -> None:
        self.spent = 0
        self.known: dict[tuple[int, int, int, int], _Part] = {}

    @property
    def is_spent(self) -> bool:
        """Nothing more is looked at."""
        return self.spent >= _MOST_LOOKS


class PartSets:
    """The sets for one request with so much room. ``plain`` are devices without counters, those that are alike in one mask."""

    def __init__(
        self, statics: Statics, plain: Sequence[int], room: Room, distinct: Sequence[Sequence[int]], effort: Effort
    ) -> None:
        self._statics = statics
        self._shape = statics.shape
        self._plain = plain
        self.room = room
        self._distinct = distinct
        self._effort = effort
        self.is_exact = not distinct
        """The best of ``best_sets`` is the best of all."""

    def sets(self, mask: int, size: int) -> Iterator[int]:
        """Every set of ``size`` out of ``mask``; no two members have the same value in a pattern of ``distinct``."""
        return self._walk(mask, size, self._heads)

    def best_sets(self, mask: int, size: int) -> Iterator[int]:
        """Of these sets those that take of each GPU the partitions which cost least, however many they take of it."""
        return self._best_singles(mask) if size == 1 and not self._distinct else self._walk(mask, size, self._best_heads)

    def _best_singles(self, mask: int) -> Iterator[int]:
        parts = self._parts(mask)
        for part in {part.key or part.positions: part for part in reversed(parts)}.values():
            yield from (head for _, head, _ in self._best_heads(part, 1, ()))

    def _walk(self, mask: int, size: int, heads: Callable[[_Part, int, Values], Iterator[Head]]) -> Iterator[int]:
        parts = self._parts(mask)
        rooms = [0]
        for part in reversed(parts):
            rooms.append(rooms[-1] + part.most)
        rooms.reverse()

        def extend(at: int, need: int, used: Values, before: dict[object, int]) -> Iterator[int]:
            if need == 0:
                yield 0
            elif rooms[at] >= need and not self._effort.is_spent:
                part, least = parts[at], max(0, need - rooms[at + 1])
                for count in range(min(need, part.most), least - 1, -1):
                    for number, head, seen in heads(part, count, used):
                        if number <= before.get(part.key, number):
                            known = before if part.key is None else {**before, part.key: number}
                            yield from (head | tail for tail in extend(at + 1, need - count, seen, known))

        return extend(0, size, (0,) * len(self._distinct), {})

    def _parts(self, mask: int) -> list[_Part]:
        parts = []
        for group_mask in self._plain:
            members = tuple(positions_of(mask & group_mask))
            if members:
                parts.append(_Part(positions=members, most=1 if self._distinct else len(members)))
        for number, group in enumerate(self._shape.groups):
            if mask & group.mask:
                key = (number, self.room.lefts[number], mask & group.mask, self.room.gone & group.mask)
                part = self._effort.known.get(key)
                if part is None:
                    part = self._effort.known[key] = self._build_part(number, group, mask)
                if part.most:
                    parts.append(part)
        return parts

    def _build_part(self, number: int, group: CounterGroup, mask: int) -> _Part:
        left, tables = self.room.lefts[number], group.tables
        can_pay, gone = tables.affordable(left), group.local(self.room.gone)
        wanted = group.local(mask) & (can_pay | group.local(self._shape.shared))
        # A GPU that is cut is nobody's peer any more, so it does not matter which one it is.
        whole = -1 if not can_pay & (1 << len(group.wholes)) - 1 else self._twin(number, group)
        return _Part(
            most=wanted.bit_count() if group.mask & self._shape.shared else tables.most(left, wanted),
            group=group,
            left=left,
            wanted=wanted,
            gone=gone,
            key=(self._statics.alike[number], whole, left, gone, wanted),
        )

    def _twin(self, number: int, group: CounterGroup) -> int:
        masks = [at for at, mask in enumerate(self._shape.tables.twins) if mask & group.whole_mask]
        return masks[0] if len(group.wholes) == 1 else -2 - number

    def _heads(self, part: _Part, count: int, used: Values) -> Iterator[Head]:
        """All sets of ``count`` out of a part."""
        if part.group is not None:
            yield from self._pay(part.group, part.group.tables.in_order(part.wanted), part.left, count, used)
            return
        seen = self._see(used, part.positions[:count])
        if seen is not None:
            yield 0, sum(1 << position for position in part.positions[:count]), seen

    def _best_heads(self, part: _Part, count: int, used: Values) -> Iterator[Head]:
        """The set of ``count`` out of a part that costs least."""
        if part.group is None or count == 0 or part.group.mask & self._shape.shared:
            yield from self._heads(part, count, used)
            return
        best, is_exact = part.group.tables.best_of(part.wanted, count, part.left, part.gone)
        self.is_exact = self.is_exact and is_exact
        mask = part.group.spread(best)
        seen = self._see(used, tuple(positions_of(mask)))
        if best and seen is not None:
            yield count, mask, seen

    def _pay(self, group: CounterGroup, devices: Sequence[int], left: int, count: int, used: Values) -> Iterator[Head]:
        if count == 0:
            yield 0, 0, used
            return
        for number, device in enumerate(devices[: len(devices) - count + 1], 1):
            self._effort.spent += 1
            if self._effort.is_spent:
                return
            position = group.position_of(device)
            paid = left if self._shape.shared >> position & 1 else group.tables.pay(left, device)
            seen = None if paid is None else self._see(used, (position,))
            if paid is not None and seen is not None:
                for chosen, mask, values in self._pay(group, devices[number:], paid, count - 1, seen):
                    yield chosen | 1 << device, mask | 1 << position, values

    def _see(self, used: Values, positions: Sequence[int]) -> Values | None:
        """The values that are used with these devices too; None where they have one that is used."""
        for number, pattern in enumerate(self._distinct):
            for position in positions:
                value = pattern[position]
                if value < 0 or used[number] >> value & 1:
                    return None
                used = (*used[:number], used[number] | 1 << value, *used[number + 1 :])
        return used
