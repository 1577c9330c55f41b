"""How long one decision takes on a large fleet, half full: ``python -m hack.bench.allocator_speed [NODES ...]``.

A decision is: choose node and devices, write down that they are held. Then one pod of those that run leaves, so that the fleet
stays half full; that is timed apart. One JSON line a figure. ``cpu_`` leaves out what the machine did in between.
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
from driver.allocator.decide import Placement, place
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.tables import positions_of
from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.choosers import build_pod_problem
from driver.cli.simulation.fleets import build_fleet, name_nodes, read_machine_devices

SIZES = (1, 1, 1, 1, 1, 2, 2, 4, 8)
TARGET_P99_MS = 5.0
SELECTOR = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
"""As in the DeviceClass: each device of the fleet answers it once, in the first decision."""


def measure(nodes: int, machine: str, decisions: int, seed: int) -> dict[str, object]:
    """Fill half of the fleet at random, then decide so many times."""
    numbers = random.Random(seed)
    begun = time.perf_counter()
    fleet = build_fleet(name_nodes(nodes, read_machine_devices(machine)), CelEngine())
    built_s = time.perf_counter() - begun
    running = _fill_half(fleet, numbers)
    problems = {
        size: build_pod_problem(Arrival(name="", at_s=0, run_s=0, count=size, selector=SELECTOR)) for size in set(SIZES)
    }
    begun = time.perf_counter()
    for problem in problems.values():
        place(fleet, problem)
    first_s = time.perf_counter() - begun
    decide_ms, cpu_ms, leave_ms = [], [], []
    gc.freeze()  # as the controller does after its first list: what stays is not looked at again
    for _ in range(decisions):
        problem = problems[numbers.choice(SIZES)]
        begun, cpu_begun = time.perf_counter(), time.thread_time()
        placement = place(fleet, problem)
        if placement is not None:
            running.append(_hold(fleet, placement))
        decided = time.perf_counter()
        cpu_ms.append((time.thread_time() - cpu_begun) * 1000)
        for _ in range(2 if len(running) > nodes * 4 else 1):
            fleet.release(running.pop(numbers.randrange(len(running))))
        decide_ms.append((decided - begun) * 1000)
        leave_ms.append((time.perf_counter() - decided) * 1000)
    return {
        "figure": "allocator-decision",
        "nodes": nodes,
        "machine": machine,
        "decisions": decisions,
        "buckets": max(len(list(fleet.view(problem).index.buckets())) for problem in problems.values()),
        **build_percentiles("", decide_ms),
        **build_percentiles("cpu_", cpu_ms),
        **build_percentiles("leave_", leave_ms),
        "fleet_built_s": round(built_s, 2),
        "first_decisions_s": round(first_s, 2),
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "target": {"p99_ms": TARGET_P99_MS},
    }


def build_percentiles(prefix: str, values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and the worst."""
    ordered = sorted(values)
    at = {f"{prefix}p{percent}_ms": len(ordered) * percent // 100 for percent in (50, 99)}
    return {name: round(ordered[index], 3) for name, index in at.items()} | {f"{prefix}max_ms": round(ordered[-1], 3)}


def _fill_half(fleet: Fleet, numbers: random.Random) -> list[tuple[Holding, ...]]:
    """Each GPU of each node is taken or free, by chance: the worst for buckets."""
    running: list[tuple[Holding, ...]] = []
    for node in fleet.nodes.values():
        for device in node.ids:
            if numbers.random() < 0.5:
                holdings = (Holding(device=device),)
                fleet.hold(holdings)
                running.append(holdings)
    return running


def _hold(fleet: Fleet, placement: Placement) -> tuple[Holding, ...]:
    ids = fleet.nodes[placement.node].ids
    holdings = tuple(Holding(device=ids[at]) for pick in placement.picks for at in positions_of(pick.mask))
    fleet.hold(holdings)
    return holdings


def main() -> None:
    """Measure each size of fleet, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--machine", default="dgx-h100")
    parser.add_argument("--decisions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for nodes in args.nodes:
        print(json.dumps(measure(nodes, args.machine, args.decisions, args.seed)), flush=True)


if __name__ == "__main__":
    main()
