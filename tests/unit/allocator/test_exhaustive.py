"""The choice on one node is the best there is: against all sets, for every free mask and size of every mock machine."""

from __future__ import annotations

from itertools import combinations

import pytest

from driver.allocator.decide import place
from driver.allocator.device_node import Taken
from driver.allocator.fleet import Fleet
from driver.allocator.search import Found, NodeSearch
from driver.allocator.statics import build_statics
from driver.allocator.tables import positions_of
from driver.nvml.mock.catalogue import read_machine_names
from tests.unit.allocator.cases import ask, devices_of, fleet_of, mask, problem, request

MACHINES = [name for name in read_machine_names() if devices_of(name)]


def picked(fleet: Fleet, free: int, size: int) -> int:
    """What the allocator takes of so many free GPUs."""
    node = fleet.nodes["a"]
    taken = Taken(mask=((1 << len(node.ids)) - 1) & ~free)
    asked = problem(ask(request(count=size)))
    answer = NodeSearch(asked, build_statics(node, 0, asked.aspects()), taken).run()
    assert isinstance(answer, Found)
    assert answer.is_proved
    return answer.picks[0].mask


@pytest.mark.parametrize("machine", [name for name in MACHINES if len(devices_of(name)) <= 8])
def test_links_then_damage_equal_the_optimum(machine: str) -> None:
    """Ratio 1.0 on both terms: no set of that size has a better ring, and none as good does less damage."""
    fleet = fleet_of({"a": devices_of(machine)})
    tables = fleet.nodes["a"].shape.tables
    for free in range(1, 1 << tables.size):
        for size in range(1, free.bit_count() + 1):
            best = min(
                (tables.loss(each), tables.damage(free, each))
                for each in (mask(*members) for members in combinations(positions_of(free), size))
            )
            mine = picked(fleet, free, size)
            assert (tables.loss(mine), tables.damage(free, mine)) == best, (free, size)


@pytest.mark.parametrize("free", [0xFFFF, 0x7FFF, 0x55AA, 0xF0F1, 0x8421])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_sixteen_gpus(free: int, size: int) -> None:
    """A DGX-2, where go-gpuallocator takes seconds: every set is ideal, and the least is broken."""
    if size > free.bit_count():
        pytest.skip("not so many are free")
    fleet = fleet_of({"a": devices_of("dgx-2")})
    tables = fleet.nodes["a"].shape.tables
    mine = picked(fleet, free, size)
    assert tables.loss(mine) == (0, 0)
    assert tables.damage(free, mine) == tables.damage(free, sum(1 << at for at in list(positions_of(free))[:size]))


def test_asking_again_gives_the_same_answer() -> None:
    """Nothing is left to chance, nor to what was asked before."""
    one, other = (fleet_of({name: devices_of("dgx-1v") for name in ("a", "b", "c")}) for _ in range(2))
    for size in (1, 2, 4, 8):
        place(other, problem(ask(request(count=size))))
    for size in (1, 2, 3, 4):
        assert place(one, problem(ask(request(count=size)))) == place(other, problem(ask(request(count=size))))
