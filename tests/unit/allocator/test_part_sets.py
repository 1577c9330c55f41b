"""Sets out of GPUs that claims divide: each case once, none left out."""

from __future__ import annotations

from collections import Counter

import pytest

from driver.allocator.choices import build_classes
from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.draws import affordable_subsets, remaining_counters
from driver.allocator.objective import Room
from driver.allocator.part_sets import Effort, PartSets
from driver.allocator.statics import Statics, build_statics
from driver.allocator.tables import positions_of
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import ask, mask, problem
from tests.unit.allocator.mig import CLASSES, AttributeEngine, part, position, whole

ASKED = problem(ask(part("1g.6gb", count=2), whole("more")), classes=CLASSES)


def node_of(gpus: int) -> DeviceNode:
    return DeviceNode("a", [build_mig_pool("a", "a30", gpus)], AttributeEngine(), None)


def sets_of(node: DeviceNode, taken: int, distinct: tuple[tuple[int, ...], ...] = ()) -> tuple[PartSets, Statics]:
    statics = build_statics(node, 0, ASKED.aspects())
    lefts, _ = remaining_counters(node.shape, Taken(mask=taken))
    return PartSets(statics, build_classes(statics, taken, 0), Room(0, taken, lefts), distinct, Effort()), statics


def case_of(node: DeviceNode, chosen: int, taken: int) -> Counter[tuple[int, int]]:
    """GPU by GPU what is taken and what is chosen: GPUs of a uniform machine may change places."""
    return Counter((group.local(taken), group.local(chosen)) for group in node.shape.groups)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("cut", [(), ((0, "1g.6gb", 3),), ((0, "1g.6gb", 3), (1, "1g.6gb", 3)), ((2, "2g.12gb", 0),)], ids=str)
def test_each_case_once_and_none_left_out(cut: tuple[tuple[int, str, int], ...], size: int) -> None:
    node = node_of(3)
    taken = mask(*(position(node, *each) for each in cut))
    parts, statics = sets_of(node, taken)
    wanted = statics.eligible[0] & ~taken
    found = [frozenset(case_of(node, each, taken).items()) for each in parts.sets(wanted, size)]
    lefts, _ = remaining_counters(node.shape, Taken(mask=taken))
    every = {
        frozenset(case_of(node, each, taken).items())
        for each in affordable_subsets(node.shape, list(positions_of(wanted)), size, lefts)
    }
    assert len(found) == len(set(found))
    assert set(found) == every


def test_whole_gpus_that_are_alike_are_one_case() -> None:
    parts, statics = sets_of(node_of(8), 0)
    assert list(parts.sets(statics.eligible[1], 4)) == [0b1111]


def test_no_two_of_a_value() -> None:
    node = node_of(3)
    parts, statics = sets_of(node, 0, (node.values_of("gpu.nvidia.com/parentUUID"),))
    for chosen in parts.sets(statics.eligible[0], 3):
        assert [(chosen & group.mask).bit_count() for group in node.shape.groups] == [1, 1, 1]
    assert list(parts.sets(statics.eligible[0], 4)) == []


def test_best_sets_take_the_best_of_each_gpu() -> None:
    """However many of each: three of one, two and one, one of each."""
    node = node_of(3)
    parts, statics = sets_of(node, 0)
    counts = [
        sorted((chosen & group.mask).bit_count() for group in node.shape.groups)
        for chosen in parts.best_sets(statics.eligible[0], 3)
    ]
    assert counts == [[0, 0, 3], [0, 1, 2], [1, 1, 1]]
    assert parts.is_exact


def test_a_search_that_has_looked_enough_looks_no_further() -> None:
    parts, statics = sets_of(node_of(3), 0)
    effort = Effort()
    effort.spent = 1 << 30
    tired = PartSets(statics, (), Room(0, 0, parts.room.lefts), (), effort)
    assert effort.is_spent
    assert list(tired.sets(statics.eligible[0], 2)) == []
