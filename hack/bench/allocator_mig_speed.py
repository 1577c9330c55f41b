"""How long a decision takes where claims divide GPUs: ``python -m hack.bench.allocator_mig_speed [NODES ...]``.

Nodes of eight H100 with 208 devices each, half full: of the GPUs some are taken whole, some are cut at random, so that hardly
two nodes are equal. A decision is for one partition or for whole GPUs; then somebody leaves. One JSON line a figure.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import time
from collections.abc import Sequence

from driver.allocator.cel_engine import CelEngine
from driver.allocator.decide import place
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.problem import Problem
from driver.allocator.tables import positions_of
from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.choosers import build_pod_problem
from driver.cli.simulation.fleets import FENCE, read_machine_devices
from hack.bench.allocator_mig import MIX, TABLE, build_profile_problem
from hack.bench.allocator_speed import SELECTOR, build_percentiles
from hack.bench.mig_pools import build_mig_pool

SIZES = (1, 1, 2, 4, 8)
TARGET_P99_MS = 5.0

Running = list[tuple[Holding, ...]]


def build_fleet(nodes: int) -> Fleet:
    """So many nodes, nothing taken."""
    fleet = Fleet(CelEngine(), FENCE)
    whole = read_machine_devices("dgx-h100")
    for number in range(nodes):
        name = f"node-{number:05}"
        fleet.set_node(name, [build_mig_pool(name, TABLE, 8, whole=whole)])
    return fleet


def fill_half(fleet: Fleet, numbers: random.Random) -> Running:
    """Of each node some GPUs whole, some cut by two partitions that go well together."""
    running: Running = []
    for node in fleet.nodes.values():
        for group in node.shape.groups:
            kind = numbers.choice(("free", "free", "whole", "cut"))
            if kind == "whole":
                running.append((Holding(device=node.ids[group.wholes[0]]),))
            elif kind == "cut":
                devices = list(range(1, len(group.model.draws)))
                numbers.shuffle(devices)
                chosen = group.tables.take_in_order(devices, group.tables.full, 0)[: numbers.randint(1, 3)]
                running += [(Holding(device=node.ids[group.position_of(device)]),) for device in chosen]
    for holdings in running:
        fleet.hold(holdings)
    return running


def measure(nodes: int, decisions: int, seed: int) -> dict[str, object]:
    """Fill, then decide so many times."""
    numbers = random.Random(seed)
    begun = time.perf_counter()
    fleet = build_fleet(nodes)
    built_s = time.perf_counter() - begun
    running = fill_half(fleet, numbers)
    problems = _build_problems()
    begun = time.perf_counter()
    for problem in problems:
        place(fleet, problem)
    first_s = time.perf_counter() - begun
    gc.freeze()
    decide_ms, cpu_ms, leave_ms, placed = [], [], [], 0
    for _ in range(decisions):
        problem = numbers.choice(problems)
        begun, cpu_begun = time.perf_counter(), time.thread_time()
        placement = place(fleet, problem)
        if placement is not None:
            placed += 1
            ids = fleet.nodes[placement.node].ids
            holdings = tuple(Holding(device=ids[at]) for pick in placement.picks for at in positions_of(pick.mask))
            fleet.hold(holdings)
            running.append(holdings)
        decided = time.perf_counter()
        cpu_ms.append((time.thread_time() - cpu_begun) * 1000)
        fleet.release(running.pop(numbers.randrange(len(running))))
        decide_ms.append((decided - begun) * 1000)
        leave_ms.append((time.perf_counter() - decided) * 1000)
    return {
        "figure": "allocator-mig-decision",
        "nodes": nodes,
        "devices": sum(node.shape.size for node in fleet.nodes.values()),
        "decisions": decisions,
        "placed": placed,
        "buckets": max(len(list(fleet.view(problem).index.buckets())) for problem in problems),
        **build_percentiles("", decide_ms),
        **build_percentiles("cpu_", cpu_ms),
        **build_percentiles("leave_", leave_ms),
        "fleet_built_s": round(built_s, 2),
        "first_decisions_s": round(first_s, 2),
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "target": {"p99_ms": TARGET_P99_MS},
    }


def _build_problems() -> Sequence[Problem]:
    whole = [build_pod_problem(Arrival(name="", at_s=0, run_s=0, count=size, selector=SELECTOR)) for size in set(SIZES)]
    return [*(build_profile_problem(profile) for profile in MIX), *whole]


def main() -> None:
    """Measure each size of fleet, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[10, 100, 500])
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for nodes in args.nodes:
        print(json.dumps(measure(nodes, args.decisions, args.seed)), flush=True)


if __name__ == "__main__":
    main()
