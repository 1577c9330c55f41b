"""The choice among partitions is the best there is: against all sets, with many things taken."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.draws import affordable_subsets, remaining_counters
from driver.allocator.objective import Objective
from driver.allocator.search import Found, NodeSearch, NotFound
from driver.allocator.statics import build_statics
from driver.allocator.tables import positions_of
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import ask, problem
from tests.unit.allocator.mig import CLASSES, AttributeEngine, part, whole


def take_some(node: DeviceNode, numbers: random.Random) -> int:
    """A random set of devices that fit together."""
    taken = 0
    for at in numbers.sample(range(node.shape.size), numbers.randint(0, 7)):
        lefts, _ = remaining_counters(node.shape, Taken(mask=taken))
        if next(affordable_subsets(node.shape, [at], 1, lefts), 0):
            taken |= 1 << at
    return taken


def judge(node: DeviceNode, taken: int, chosen: int) -> tuple[object, ...]:
    """What the choice costs, told from the state before and after."""
    objective = Objective(node.shape)
    rooms = [objective.room(mask, remaining_counters(node.shape, Taken(mask=mask))[0]) for mask in (taken, taken | chosen)]
    harm = objective.harm(rooms[0], rooms[1])
    return harm.damage, harm.unusable, harm.drawn, harm.partitions, harm.links, harm.rest


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("table", "gpus", "profiles"),
    [
        ("h100-80gb", 2, ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", None)),
        ("a30", 3, ("1g.6gb", "2g.12gb", None)),
        ("rtx-pro-6000", 2, ("1g.24gb", "2g.48gb", None)),
    ],
)
def test_the_choice_equals_the_optimum(table: str, gpus: int, profiles: Sequence[str | None], count: int) -> None:
    node = DeviceNode("a", [build_mig_pool("a", table, gpus)], AttributeEngine(), None)
    numbers = random.Random(f"{table}/{count}")
    for profile in [each for each in profiles for _ in range(5)]:
        taken = take_some(node, numbers)
        asked = problem(ask(whole(count=count) if profile is None else part(profile, count=count)), classes=CLASSES)
        statics = build_statics(node, 0, asked.aspects())
        lefts, _ = remaining_counters(node.shape, Taken(mask=taken))
        wanted = list(positions_of(statics.eligible[0] & ~taken))
        every = list(affordable_subsets(node.shape, wanted, count, lefts))
        answer = NodeSearch(asked, statics, Taken(mask=taken)).run()
        if not every:
            assert answer == NotFound(is_proved=True)
            continue
        assert isinstance(answer, Found)
        assert answer.is_proved
        assert judge(node, taken, answer.picks[0].mask) == min(judge(node, taken, each) for each in every)


def test_two_requests_together_equal_the_optimum() -> None:
    """Of an H100 with one partition taken: a pair of profiles, against all ways to serve both."""
    node = DeviceNode("a", [build_mig_pool("a", "h100-80gb", 1)], AttributeEngine(), None)
    numbers = random.Random(7)
    for first, second in combinations(("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"), 2):
        taken = 1 << numbers.randrange(1, node.shape.size)
        asked = problem(ask(part(first, "one"), part(second, "two")), classes=CLASSES)
        statics = build_statics(node, 0, asked.aspects())
        lefts, _ = remaining_counters(node.shape, Taken(mask=taken))
        pairs = [
            1 << one | 1 << two
            for one in positions_of(statics.eligible[0] & ~taken)
            for two in positions_of(statics.eligible[1] & ~taken)
            if next(affordable_subsets(node.shape, [one, two], 2, lefts), 0)
        ]
        answer = NodeSearch(asked, statics, Taken(mask=taken)).run()
        if not pairs:
            assert answer == NotFound(is_proved=True)
            continue
        assert isinstance(answer, Found)
        chosen = sum(pick.mask for pick in answer.picks)
        assert judge(node, taken, chosen) == min(judge(node, taken, each) for each in pairs)
