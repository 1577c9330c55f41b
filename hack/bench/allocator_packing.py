"""How much of a fleet is placed when as much is asked for as there is, and nobody leaves (topology.md, B2).

``python -m hack.bench.allocator_packing``: of each openb list (``tests/data/openb``) the pods for whole GPUs; random copies are
added until they ask for all GPUs of the 1,213 nodes; in random order. One JSON line a list, the mean over the seeds.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import mean

from driver.allocator.cel_engine import CelEngine
from driver.cli.simulation.arrivals import Arrival, read_arrivals
from driver.cli.simulation.choosers import build_chooser
from driver.cli.simulation.fleets import build_fleet, read_nodes
from driver.cli.simulation.replay import Replay

DATA = Path("tests/data/openb")
LISTS = ("default", "multigpu20", "multigpu30")


def build_load(pods: tuple[Arrival, ...], gpus: int, numbers: random.Random) -> list[Arrival]:
    """As many pods, and copies of pods, as ask for this many GPUs together, in random order. The last one is cut to fit."""
    counts = [pod.count for pod in pods]
    while sum(counts) < gpus:
        counts.append(numbers.choice(pods).count)
    while sum(counts) > gpus:
        counts.remove(1)
    numbers.shuffle(counts)
    return [Arrival(name=f"pod-{n}", at_s=float(n), run_s=float("inf"), count=count) for n, count in enumerate(counts)]


def measure(data: Path, name: str, policy: str, seed: int) -> float:
    """Percent of the GPUs that are placed."""
    nodes = read_nodes(data / "nodes.csv.gz")
    gpus = sum(len(devices) for _, devices in nodes)
    pods = build_load(read_arrivals(data / f"pods_{name}.csv.gz").pods, gpus, random.Random(seed))
    replay = Replay(build_chooser(policy, build_fleet(nodes, CelEngine()), seed=seed, rule=None))
    replay.run(pods, lambda _arrived: None)
    return 100 * replay.used / gpus


def main() -> None:
    """Measure each list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--policy", nargs="*", default=["pack"])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(42, 52)))
    args = parser.parse_args()
    for name in LISTS:
        for policy in args.policy:
            placed = [measure(args.data, name, policy, seed) for seed in args.seeds]
            figure = {"figure": "allocator-packing", "list": name, "policy": policy, "seeds": len(placed)}
            print(
                json.dumps({**figure, "mean_percent": round(mean(placed), 2), "worst_percent": round(min(placed), 2)}),
                flush=True,
            )


if __name__ == "__main__":
    main()
