"""Who waits how long when real pods come and go (topology.md, B3): ``python -m hack.bench.allocator_replay [NODES ...]``.

The whole-GPU pods of the openb default list, with their arrivals and lives, on so many DGX H100: all policies, and ours with
each of some hold rules. One JSON line a row; sizes that the list asks for are all told, since somebody pays for each rule.
``--hours`` measures the hold rules where pods run for an hour and not for weeks: random arrivals on five nodes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from driver.allocator.cel_engine import CelEngine
from driver.allocator.hold import HoldRule
from driver.cli.simulation.arrivals import Arrival, read_arrivals
from driver.cli.simulation.choosers import build_chooser
from driver.cli.simulation.fleets import build_fleet, name_nodes, read_machine_devices
from driver.cli.simulation.replay import Replay, Run

LIST = Path("tests/data/openb/pods_default.csv.gz")
MACHINE = "dgx-h100"
SIZES = (8, 4, 2, 1)
LONG_S = 3600.0
RULES: Mapping[str, HoldRule | None] = {
    "none": None,
    "spare 2 h": HoldRule(spare_patience_s=7200),
    "spare 8 h": HoldRule(spare_patience_s=28800),
    "spare 8 h, 2 sets": HoldRule(spare_patience_s=28800, spare_sets=2),
    "spare 24 h, 2 sets": HoldRule(spare_patience_s=86400, spare_sets=2),
    "hold after 15 min, 15 min": HoldRule(after_s=900, hold_patience_s=900),
    "hold after 5 min, 2 h": HoldRule(after_s=300, hold_patience_s=7200),
}
HOURS_RULES = ((None, 0.0), (900.0, 900.0), (1800.0, 1800.0), (300.0, 1800.0))
HOURS_MIX = {1: 0.5, 2: 0.2, 4: 0.2, 8: 0.1}
HOURS_GPUS, HOURS_PODS = 40, 700
TARGETS = {6: {"mean_s": 6390, "over_1h": 5}, 8: {"mean_s": 0, "over_1h": 0}}
"""Of 8-GPU pods without a hold rule: the "pack" row."""
BEST_KNOWN_5 = {"mean_s": 132714, "over_1h": 23}
"""On 5 nodes without a rule; with one it has to be clearly less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy, perhaps with a rule, on so many nodes."""

    nodes: int
    policy: str = "pack"
    rule: str = "none"


def measure(row: Row, arrivals: Path = LIST) -> dict[str, Any]:
    """Mean wait and pods that waited over an hour, by size."""
    fleet = build_fleet(name_nodes(row.nodes, read_machine_devices(MACHINE)), CelEngine())
    replay = Replay(build_chooser(row.policy, fleet, seed=1, rule=RULES[row.rule]))
    replay.run(read_arrivals(arrivals).pods, lambda _arrived: None)
    waits = {str(size): build_waits([run for run in replay.runs if run.pod.count == size]) for size in SIZES}
    figure = {"figure": "allocator-replay", **asdict(row), "waits": waits}
    if row.policy == "pack" and row.rule == "none" and row.nodes in TARGETS:
        return {**figure, "target": TARGETS[row.nodes]}
    return {**figure, "without_rule": BEST_KNOWN_5} if row.nodes == 5 and row.rule != "none" else figure


def build_waits(runs: list[Run]) -> dict[str, Any]:
    """Of pods of one size."""
    waits = [run.wait_s for run in runs if math.isfinite(run.wait_s)]
    return {
        "pods": len(runs),
        "mean_s": round(sum(waits) / len(waits)) if waits else 0,
        "p95_s": round(sorted(waits)[len(waits) * 95 // 100]) if waits else 0,
        "over_1h": sum(run.wait_s > LONG_S for run in runs),
    }


def build_hours(load: float, seed: int) -> list[Arrival]:
    """Random pods of which so many GPUs' worth are asked for, as a part of five nodes; lives of an hour on average."""
    numbers, at_s, pods = random.Random(seed), 0.0, []
    distance_s = sum(size * share for size, share in HOURS_MIX.items()) * LONG_S / (HOURS_GPUS * load)
    for number in range(HOURS_PODS):
        at_s += numbers.expovariate(1 / distance_s)
        size = numbers.choices(list(HOURS_MIX), list(HOURS_MIX.values()))[0]
        pods.append(Arrival(name=f"pod-{number}", at_s=at_s, run_s=numbers.expovariate(1 / LONG_S), count=size))
    return pods


def measure_hours(load: float, after_s: float | None, patience_s: float, seeds: Sequence[int]) -> dict[str, Any]:
    """Waits by size, over all seeds, with a hold rule or none."""
    rule = None if after_s is None else HoldRule(after_s=after_s, hold_patience_s=patience_s)
    runs: list[Run] = []
    for seed in seeds:
        fleet = build_fleet(name_nodes(HOURS_GPUS // 8, read_machine_devices(MACHINE)), CelEngine())
        replay = Replay(build_chooser("pack", fleet, seed=1, rule=rule))
        replay.run(build_hours(load, seed), lambda _arrived: None)
        runs += replay.runs
    waits = {str(size): build_waits([run for run in runs if run.pod.count == size]) for size in SIZES}
    return {"figure": "allocator-hold-hours", "load": load, "after_s": after_s, "patience_s": patience_s, "waits": waits}


def main() -> None:
    """Measure each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[5, 6, 8])
    parser.add_argument("--policy", nargs="*", default=["pack", "spread", "random", "first-fit"])
    parser.add_argument("--hours", action="store_true", help="random pods that run for an hour instead")
    args = parser.parse_args()
    for load, (after_s, patience_s) in product((0.7, 0.9), HOURS_RULES) if args.hours else ():
        print(json.dumps(measure_hours(load, after_s, patience_s, range(11, 17))), flush=True)
    for nodes in () if args.hours else args.nodes:
        rows = [Row(nodes=nodes, rule=rule) for rule in RULES] if "pack" in args.policy else []
        rows += [Row(nodes=nodes, policy=policy) for policy in args.policy if policy != "pack"]
        for row in rows:
            print(json.dumps(measure(row)), flush=True)


if __name__ == "__main__":
    main()
