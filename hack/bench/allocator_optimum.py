"""How good the choice on one machine is: ``python -m hack.bench.allocator_optimum``.

Each free mask and each size of every mock machine of up to 8 GPUs, against all sets of that size: links first, then damage. Of
larger machines some masks, with the time that one search takes. Then what go-gpuallocator's own tests expect. One JSON line a
machine.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median

from driver.allocator.cel_engine import CelEngine
from driver.allocator.device_node import DeviceNode, Taken
from driver.allocator.pools import Pool
from driver.allocator.search import Found, NodeSearch
from driver.allocator.statics import Statics, build_statics
from driver.allocator.tables import LinkTables, positions_of
from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.choosers import build_pod_problem
from driver.cli.simulation.fleets import DRIVER, FENCE, read_machine_devices
from driver.nvml.mock.catalogue import read_machine_names

MOST_GPUS = 8
SAMPLED_SIZES = (1, 2, 4, 8)
EXPECTED: Sequence[tuple[str, tuple[int, ...], int, tuple[int, ...]]] = (
    ("dgx-1v", (0, 2, 4, 5), 2, (4, 5)),
    ("dgx-1v", (0, 4, 5, 6), 2, (5, 6)),
    ("dgx-1v", (0, 1, 3), 2, (0, 3)),
    ("dgx-1v", (0, 1, 4), 2, (0, 4)),
    ("dgx-1v", (4, 5, 6, 7), 4, (4, 5, 6, 7)),
    ("dgx-1v", tuple(range(8)), 2, (0, 3)),
    ("dgx-1v", tuple(range(8)), 4, (0, 1, 2, 3)),
    ("dgx-1v", tuple(range(8)), 8, tuple(range(8))),
    ("dgx-1p", tuple(range(8)), 2, (0, 2)),
    ("dgx-1p", tuple(range(8)), 4, (0, 1, 2, 3)),
)


class Machine:
    """One node of a mock machine."""

    def __init__(self, name: str) -> None:
        devices = read_machine_devices(name)
        pool = Pool(driver=DRIVER, name="a", node="a", devices=devices)
        self._node = DeviceNode("a", [pool], CelEngine(), FENCE)
        self._problems = {size: build_pod_problem(Arrival(name="", at_s=0, run_s=0, count=size)) for size in range(1, 17)}
        self._statics: dict[int, Statics] = {}

    @property
    def tables(self) -> LinkTables:
        """What is known of its links."""
        return self._node.shape.tables

    @property
    def usable(self) -> int:
        """GPUs that an ordinary claim may have."""
        return self._node.shape.healthy

    def choose(self, free: int, size: int) -> int:
        """The set that the allocator takes of so many free GPUs."""
        statics = self._statics.setdefault(size, build_statics(self._node, 0, self._problems[size].aspects()))
        answer = NodeSearch(self._problems[size], statics, Taken(mask=self.tables.full & ~free)).run()
        assert isinstance(answer, Found), f"no set of {size} out of {free:b}"
        return answer.picks[0].mask


def measure_all(name: str) -> dict[str, object]:
    """Every free mask and size."""
    machine = Machine(name)
    tables, cases, equal = machine.tables, 0, 0
    for free in _subsets(machine.usable):
        for size in range(1, free.bit_count() + 1):
            best = min(
                (tables.loss(each), tables.damage(free, each))
                for each in (sum(1 << at for at in members) for members in combinations(positions_of(free), size))
            )
            mine = machine.choose(free, size)
            cases += 1
            equal += (tables.loss(mine), tables.damage(free, mine)) == best
    return {
        "figure": "allocator-optimum",
        "machine": name,
        "gpus": tables.size,
        "cases": cases,
        "equal": equal,
        "target": "all",
    }


def measure_some(name: str, count: int) -> dict[str, object]:
    """Random masks of a machine too large for all."""
    machine, numbers, milliseconds = Machine(name), random.Random(1), []
    for _ in range(count):
        free = machine.usable & (numbers.getrandbits(machine.tables.size) | numbers.getrandbits(machine.tables.size))
        for size in SAMPLED_SIZES:
            if size <= free.bit_count():
                begun = time.perf_counter()
                machine.choose(free, size)
                milliseconds.append((time.perf_counter() - begun) * 1000)
    return {
        "figure": "allocator-large-machine",
        "machine": name,
        "gpus": machine.tables.size,
        "searches": len(milliseconds),
        "p50_ms": round(median(milliseconds), 2),
        "max_ms": round(max(milliseconds), 2),
    }


def measure_expectations() -> dict[str, object]:
    """go-gpuallocator's: our set has a ring at least as good."""
    met = 0
    for name, free, size, expected in EXPECTED:
        machine = Machine(name)
        mine = machine.choose(sum(1 << at for at in free), size)
        met += machine.tables.ring(mine) >= machine.tables.ring(sum(1 << at for at in expected))
    return {"figure": "allocator-go-gpuallocator", "expectations": len(EXPECTED), "equal_or_better": met, "target": "all"}


def _subsets(mask: int) -> Iterator[int]:
    subset = mask
    while subset:
        yield subset
        subset = subset - 1 & mask


def main() -> None:
    """Measure each machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", nargs="*", default=list(read_machine_names()))
    args = parser.parse_args()
    for name in args.machine:
        if read_machine_devices(name):
            is_small = len(read_machine_devices(name)) <= MOST_GPUS
            print(json.dumps(measure_all(name) if is_small else measure_some(name, 50)), flush=True)
    print(json.dumps(measure_expectations()), flush=True)


if __name__ == "__main__":
    main()
