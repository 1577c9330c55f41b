"""Counters as one number, kinds of partitions, and what they leave, against plain arithmetic and exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from driver.allocator.counter_groups import find_groups
from driver.allocator.device_node import DeviceNode
from driver.allocator.partitions import CounterGroup, PartitionModel, PartitionTables
from driver.allocator.pools import Pool
from driver.allocator.tables import positions_of
from driver.api.resource_v1 import Counter, CounterConsumption, CounterSet, Device
from driver.nvml.mock.catalogue import read_mig_tables
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import DRIVER, mask
from tests.unit.allocator.mig import AttributeEngine

BOARDS = sorted(read_mig_tables())


def group_of(board: str) -> tuple[DeviceNode, CounterGroup]:
    node = DeviceNode("a", [build_mig_pool("a", board, 1)], AttributeEngine(), None)
    return node, node.shape.groups[0]


def profile_of(node: DeviceNode, group: CounterGroup, device: int) -> str:
    attributes = node.devices[group.position_of(device)].attributes
    return (attributes["profile"].string or "") if "profile" in attributes else "whole"


def fits(tables: PartitionTables, devices: Sequence[int]) -> bool:
    """By plain sums."""
    sums = [0] * len(tables.model.counters)
    for device in devices:
        for counter, amount in tables.model.draws[device]:
            sums[counter] += amount
    return all(drawn <= amount for drawn, amount in zip(sums, tables.model.counters, strict=True))


def states(tables: PartitionTables, seed: int, count: int) -> list[tuple[int, int]]:
    """Random sets of devices that fit together: what they leave, and themselves."""
    numbers, found = random.Random(seed), []
    for _ in range(count):
        left, gone = tables.full, 0
        for device in numbers.sample(range(len(tables.model.draws)), numbers.randint(0, 6)):
            rest = tables.pay(left, device)
            if rest is not None and device:
                left, gone = rest, gone | 1 << device
        found.append((left, gone))
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_paying_is_subtraction_on_every_counter(board: str) -> None:
    _, group = group_of(board)
    for left, gone in states(group.tables, 1, 60):
        taken = list(positions_of(gone))
        assert group.tables.remaining(gone) == left
        for device in range(len(group.model.draws)):
            assert (group.tables.pay(left, device) is not None) == fits(group.tables, [*taken, device])
        assert group.tables.affordable(left) == mask(
            *(device for device in range(len(group.model.draws)) if fits(group.tables, [*taken, device]))
        )


@pytest.mark.parametrize(
    ("board", "kinds"),
    [
        ("h100-80gb", ["whole", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb+7", "1g.10gb"]),
        ("a30", ["whole", "2g.12gb+8", "2g.12gb", "1g.6gb+7", "1g.6gb"]),
    ],
)
def test_kinds_are_ordered_by_what_all_draw(board: str, kinds: list[str]) -> None:
    """A slice with all video engines is smaller than two slices without; 7g is the same as the whole."""
    node, group = group_of(board)
    assert [profile_of(node, group, kind[0]) for kind in group.tables.kinds] == kinds


@pytest.mark.parametrize("board", BOARDS)
def test_wealth_is_the_most_of_each_kind_that_fit_together(board: str) -> None:
    _, group = group_of(board)
    for left, gone in states(group.tables, 2, 25):
        for kind, most in zip(group.tables.kinds, group.tables.wealth(left, gone), strict=True):
            free, taken = [device for device in kind if not gone >> device & 1], list(positions_of(gone))
            sizes = range(len(free), -1, -1)
            assert most == next(
                size for size in sizes if any(fits(group.tables, [*taken, *each]) for each in combinations(free, size))
            )


@pytest.mark.parametrize("board", BOARDS)
def test_a_bound_is_never_too_low(board: str) -> None:
    """A search that believed it would miss placements."""
    _, group = group_of(board)
    numbers = random.Random(3)
    for left, gone in states(group.tables, 3, 40):
        among = numbers.getrandbits(len(group.model.draws)) & ~gone
        assert len(group.tables.take_in_order(group.tables.in_order(among), left, gone)) <= group.tables.most(left, among)


@pytest.mark.parametrize("board", ["h100-80gb", "a30", "rtx-pro-6000"])
def test_the_best_of_a_gpu_is_the_best_of_all_its_sets(board: str) -> None:
    """Of each kind alone, where it is said to be exact."""
    _, group = group_of(board)
    tables = group.tables
    for left, gone in states(tables, 4, 12):
        for kind in tables.kinds[1:]:
            for count in (1, 2, 3):
                among = mask(*kind) & ~gone
                best, is_exact = tables.best_of(among, count, left, gone)
                assert is_exact
                sets = combinations(positions_of(among), count)
                options = [each for each in sets if fits(tables, [*positions_of(gone), *each])]
                assert bool(best) == bool(options)
                if options:
                    assert lost(tables, gone, best) == min(lost(tables, gone, mask(*each)) for each in options)


def lost(tables: PartitionTables, gone: int, chosen: int) -> tuple[tuple[int, ...], int]:
    before, after = tables.remaining(gone), tables.remaining(gone | chosen)
    assert before is not None
    assert after is not None
    had, has = tables.wealth(before, gone), tables.wealth(after, gone | chosen)
    return tuple(one - other for one, other in zip(had, has, strict=True)), tables.share_of(after)


def test_more_taken_than_there_is_leaves_nothing_to_say() -> None:
    tables = PartitionTables(PartitionModel((4,), (((0, 3),), ((0, 2),), ((0, 1),))))
    assert tables.remaining(mask(0, 2)) == 0
    assert tables.remaining(mask(0, 1)) is None


def test_what_draws_more_than_there_is_can_never_be_had() -> None:
    tables = PartitionTables(PartitionModel((4,), (((0, 5),), ((0, 4),))))
    assert tables.affordable(tables.full) == mask(1)


def counted(name: str, *consumed: tuple[str, dict[str, str]]) -> Device:
    return Device(
        name=name,
        consumes_counters=tuple(
            CounterConsumption(counter_set=counter_set, counters={key: Counter(value=value) for key, value in drawn.items()})
            for counter_set, drawn in consumed
        ),
    )


def divided(whole: str, part: str) -> CounterGroup:
    """The one group of a pool with one device."""
    pool = Pool(
        driver=DRIVER,
        name="p",
        node="a",
        devices=(counted("a", ("s", {"memory": part})),),
        counter_sets=(CounterSet(name="s", counters={"memory": Counter(value=whole)}),),
    )
    return DeviceNode("a", [pool], AttributeEngine(), None).shape.groups[0]


def test_equal_gpus_have_one_table_whatever_the_units() -> None:
    """80Gi by 10Gi is 8 by 1."""
    assert divided("80Gi", "10Gi").tables is divided("8", "1").tables
    assert divided("80Gi", "10Gi") == divided("4", "500m")
    assert divided("80Gi", "10Gi") != divided("80Gi", "20Gi")


def test_devices_that_share_a_set_are_a_group_also_through_others() -> None:
    """A device over two GPUs joins them."""
    pool = Pool(driver=DRIVER, name="p", node="a", devices=())
    devices = [
        counted("a", ("s", {})),
        counted("b", ("t", {})),
        counted("c"),
        counted("d", ("u", {})),
        counted("e", ("t", {}), ("s", {})),
    ]
    assert find_groups([(pool, each) for each in devices]) == [[0, 1, 4], [3]]


def test_fractions_of_counters_are_counted_exactly() -> None:
    cores = (("a", "500m"), ("b", "1"), ("c", "1500m"))
    pool = Pool(
        driver=DRIVER,
        name="p",
        node="a",
        devices=tuple(counted(name, ("s", {"cores": text})) for name, text in cores),
        counter_sets=(CounterSet(name="s", counters={"cores": Counter(value="1500m")}),),
    )
    tables = DeviceNode("a", [pool], AttributeEngine(), None).shape.groups[0].tables
    assert tables.model.counters == (3,)
    assert [len(tables.take_in_order(each, tables.full, 0)) for each in ((0, 1), (0, 2), (2, 0))] == [2, 1, 1]


def test_the_order_of_counters_and_of_gpus_makes_no_other_group() -> None:
    """Nodes whose counters come in another order, or whose partitions come before whole GPUs, are equal."""
    pool = build_mig_pool("a", "a30", 2)
    turned = tuple(
        CounterSet(name=each.name, counters=dict(reversed(each.counters.items()))) for each in reversed(pool.counter_sets)
    )
    other = replace(pool, devices=pool.devices[2:] + pool.devices[:2], counter_sets=turned)
    one, two = (DeviceNode("a", [each], AttributeEngine(), None) for each in (pool, other))
    assert (one.shape, one.ids) == (two.shape, two.ids)


def test_local_numbers_and_positions_are_each_others_inverse() -> None:
    node = DeviceNode("a", [build_mig_pool("a", "a30", 3)], AttributeEngine(), None)
    for number, group in enumerate(node.shape.groups):
        assert node.devices[group.wholes[0]].name == f"gpu-{number}"
        for device in range(len(group.model.draws)):
            position = group.position_of(device)
            assert group.local_of(position) == device
            assert node.shape.group_of[position] == number
            assert (group.spread(1 << device), group.local(1 << position)) == (1 << position, 1 << device)
        assert group.local(~group.mask & (1 << node.shape.size) - 1) == 0
