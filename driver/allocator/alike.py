"""Which GPUs of a node, with their partitions, no question tells apart before anything is taken."""

from __future__ import annotations

from collections.abc import Sequence

from driver.allocator.device_node import Shape
from driver.allocator.partitions import CounterGroup


def number_groups(shape: Shape, masks: Sequence[int], patterns: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Equal numbers for groups of which masks and patterns say the same, device by device.

    A value of a pattern that only one group has may be another one in each. A group of shared devices is like no other. Where
    the whole GPU stands among the links is not looked at: a GPU that is cut has no peers.
    """
    numbers: dict[object, int] = {}
    owners = [_find_owners(shape, pattern) for pattern in patterns]
    found = []
    for number, group in enumerate(shape.groups):
        key = (
            group.model,
            len(group.wholes),
            number if group.mask & shape.shared else -1,
            tuple(group.local(mask) for mask in (*masks, shape.healthy)),
            tuple(_rename(_values(group, pattern), owner, number) for pattern, owner in zip(patterns, owners, strict=True)),
        )
        found.append(numbers.setdefault(key, number))
    return tuple(found)


def _find_owners(shape: Shape, pattern: Sequence[int]) -> dict[int, int]:
    """For each value the group that alone has it, -1 where there is none."""
    owners: dict[int, int] = {}
    for group, value in zip(shape.group_of, pattern, strict=True):
        owners[value] = group if owners.get(value, group) == group else -1
    return owners


def _values(group: CounterGroup, pattern: Sequence[int]) -> list[int]:
    others = len(group.model.draws) - len(group.wholes)
    return [pattern[at] for at in (*group.wholes, *range(group.first, group.first + others))]


def _rename(values: Sequence[int], owners: dict[int, int], number: int) -> tuple[tuple[bool, int], ...]:
    own = {value: at for at, value in reversed(list(enumerate(values))) if value >= 0 and owners[value] == number}
    return tuple((True, own[value]) if value in own else (False, value) for value in values)
