"""The sets of devices that could serve one request, each once: devices that no question tells apart are one case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driver.allocator.statics import Statics
from driver.allocator.tables import positions_of


def build_classes(statics: Statics, taken: int, among: int) -> tuple[int, ...]:
    """Masks of positions out of ``among`` that are alike to the problem.

    Devices that draw on counters, or are shared, are like no other; what is taken (for admin access) is not like what is free.
    """
    shape = statics.shape
    twins = {at: number for number, mask in enumerate(shape.tables.twins) for at in positions_of(mask)}
    classes: dict[tuple[object, ...], int] = {}
    for at in positions_of(among):
        alone = at if shape.group_of[at] >= 0 or shape.shared >> at & 1 else -1
        key = (
            alone,
            twins.get(at, -1),
            shape.healthy >> at & 1,
            taken >> at & 1,
            tuple([mask >> at & 1 for mask in statics.eligible]),
            tuple([mask >> at & 1 for mask in statics.matching]),
            tuple([pattern[at] for pattern in statics.patterns]),
        )
        classes[key] = classes.get(key, 0) | 1 << at
    return tuple(classes.values())


def split(masks: Sequence[int], pattern: Sequence[int]) -> list[int]:
    """Cuts each mask into those of one value; what has no value is left out."""
    parts: list[int] = []
    for mask in masks:
        by_value: dict[int, int] = {}
        for at in positions_of(mask):
            if pattern[at] >= 0:
                by_value[pattern[at]] = by_value.get(pattern[at], 0) | 1 << at
        parts += by_value.values()
    return parts


def subsets(mask: int, size: int, classes: Sequence[int], distinct: Sequence[Sequence[int]]) -> Iterator[int]:
    """Every set of ``size`` out of ``mask``, one for each way to take from the classes: always their lowest positions.

    No two members of a set have the same value in a pattern of ``distinct``.
    """
    groups = [mask & each for each in classes if mask & each]
    if distinct:
        yield from _distinct_subsets(groups, size, distinct, 0)
    else:
        yield from _subsets(groups, 0, size, mask.bit_count())


def _subsets(groups: Sequence[int], at: int, size: int, left: int) -> Iterator[int]:
    if size == 0:
        yield 0
        return
    if left < size:
        return
    group = groups[at]
    rest = left - group.bit_count()
    for count in range(min(size, group.bit_count()), -1, -1):
        if size - count > rest:
            return
        head = lowest(group, count)
        for tail in _subsets(groups, at + 1, size - count, rest):
            yield head | tail


def _distinct_subsets(groups: Sequence[int], size: int, distinct: Sequence[Sequence[int]], at: int) -> Iterator[int]:
    if size == 0:
        yield 0
        return
    if any(len({pattern[_first(group)] for group in groups[at:]}) < size for pattern in distinct):
        return
    for here in range(at, len(groups)):
        first = _first(groups[here])
        others = [each for each in groups[here + 1 :] if all(p[first] != p[_first(each)] for p in distinct)]
        for tail in _distinct_subsets(others, size - 1, distinct, 0):
            yield 1 << first | tail


def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest positions of a mask."""
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken


def _first(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
