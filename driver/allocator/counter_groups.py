"""Which devices of a node draw on the same counter sets, and how much: found once for each generation of slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from driver.allocator.partitions import CounterGroup, PartitionModel
from driver.allocator.pools import Pool
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Counter, Device

SetId = tuple[str, str, str]
"""Driver, pool, counter set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCounter:
    """A counter of a model, as slices call it."""

    counter_set: str
    name: str
    unit: Fraction
    """What the model's numbers are to be multiplied with."""


def find_groups(devices: Sequence[tuple[Pool, Device]]) -> list[list[int]]:
    """The numbers of devices that share a counter set, directly or through others; in order of the first of each group."""
    parents: dict[SetId, SetId] = {}
    firsts: dict[int, SetId] = {}
    for number, (pool, device) in enumerate(devices):
        for each in device.consumes_counters:
            key = _root(parents, (pool.driver, pool.name, each.counter_set))
            parents[key] = _root(parents, firsts.setdefault(number, key))
    groups: dict[SetId, list[int]] = {}
    for number, key in firsts.items():
        groups.setdefault(_root(parents, key), []).append(number)
    return list(groups.values())


def build_groups(
    pools: Sequence[Pool], devices: Sequence[tuple[Pool, Device]], groups: Sequence[tuple[Sequence[int], Sequence[int], int]]
) -> tuple[CounterGroup, ...]:
    """The groups of a node. ``devices`` are by position.

    Of each group are told the positions of whole GPUs, then those of the others, and where the others begin.
    """
    held = _list_held(pools)
    found = []
    for wholes, others, first in groups:
        index, draws = _list_texts([devices[at] for at in (*wholes, *others)])
        found.append(CounterGroup(_build_model(_list_amounts(held, index), draws), tuple(wholes), first))
    return tuple(found)


def name_counters(pools: Sequence[Pool], devices: Sequence[tuple[Pool, Device]]) -> list[NamedCounter]:
    """What slices call the counters of a group, in the model's order. ``devices`` are the group's, by local number."""
    index, draws = _list_texts(devices)
    units = _list_units(_list_amounts(_list_held(pools), index), draws)
    return [NamedCounter(counter_set=id_[2], name=name, unit=unit) for (id_, name), unit in zip(index, units, strict=True)]


def _list_held(pools: Sequence[Pool]) -> dict[SetId, Mapping[str, Counter]]:
    return {(pool.driver, pool.name, each.name): each.counters for pool in pools for each in pool.counter_sets}


def _list_amounts(held: Mapping[SetId, Mapping[str, Counter]], index: Iterable[tuple[SetId, str]]) -> tuple[str, ...]:
    return tuple(held[id_][name].value for id_, name in index)


def _list_texts(
    devices: Sequence[tuple[Pool, Device]],
) -> tuple[dict[tuple[SetId, str], int], tuple[tuple[tuple[int, str], ...], ...]]:
    """The counters that these devices draw on, numbered, and what each draws of which: as the slices say it."""
    index: dict[tuple[SetId, str], int] = {}
    draws: list[tuple[tuple[int, str], ...]] = []
    for pool, device in devices:
        drawn = []
        for each in device.consumes_counters:
            key = (pool.driver, pool.name, each.counter_set)
            for name, counter in sorted(each.counters.items()):
                drawn.append((index.setdefault((key, name), len(index)), counter.value))
        draws.append(tuple(drawn))
    return index, tuple(draws)


@lru_cache(maxsize=1024)
def _build_model(amounts: tuple[str, ...], draws: tuple[tuple[tuple[int, str], ...], ...]) -> PartitionModel:
    """Each counter in the largest unit in which all amounts are whole: GPUs that say the same in other units are equal."""
    units = _list_units(amounts, draws)
    return PartitionModel(
        tuple(int(parse_quantity(text) / unit) for text, unit in zip(amounts, units, strict=True)),
        tuple(tuple((counter, int(parse_quantity(text) / units[counter])) for counter, text in draw) for draw in draws),
    )


def _list_units(amounts: Sequence[str], draws: Sequence[Sequence[tuple[int, str]]]) -> list[Fraction]:
    values = [[parse_quantity(text)] for text in amounts]
    for draw in draws:
        for counter, text in draw:
            values[counter].append(parse_quantity(text))
    return [_unit_of(each) for each in values]


def _unit_of(values: Sequence[Fraction]) -> Fraction:
    scale = math.lcm(*(value.denominator for value in values))
    return Fraction(math.gcd(*(int(value * scale) for value in values)) or 1, scale)


def _root(parents: dict[SetId, SetId], key: SetId) -> SetId:
    while parents.setdefault(key, key) != key:
        key = parents[key]
    return key
