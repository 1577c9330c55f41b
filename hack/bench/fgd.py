"""Shares of GPUs beside whole ones, with CPU and memory (topology.md, B1): ``python -m hack.bench.fgd [LIST ...]``.

The FGD simulator's own protocol (hkust-adsl/kubernetes-scheduler-simulator): the openb list, with random copies until it asks
for 130 % of the GPUs, in random order, nobody leaves; each pod goes to a node that has the CPU, the memory and the parts of
GPUs, or is turned away. The figure is the part of all GPUs that is given away at the end. A claim asks for whole GPUs and knows
no CPU, so this is not the controller: it is the objective's idea, least damage and then the fullest, as a library would apply
it to shares. ``least-damage`` counts what of the idle GPUs typical pods could no longer use; ``best-fit`` is what it is
compared with.
"""

from __future__ import annotations

import argparse
import json
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from hack.bench.openb import Node, Pod, read_nodes, read_pods

DATA = Path("tests/data/openb")
PUBLISHED = {"default": 95.39, "multigpu20": 95.65, "multigpu30": 96.46}
"""FGD's own, mean of seeds 42 to 51."""
OFFERED = 1.3
WHOLE = 1000
_STEP = 40
"""Thousandths of a GPU. Damage is judged coarsely: of nodes that are about as good the fullest is better than the best."""
_CPU_OF_A_GPU = 10
"""Thousandths of a CPU that count as much as a thousandth of a GPU where fullness is judged; nodes have 8 to 16 CPUs a GPU."""


class State(NamedTuple):
    """What a node has left. Nodes with equal states are one case."""

    cpu: int
    memory: int
    gpus: tuple[int, ...]
    """Thousandths of each GPU, in ascending order."""


Score = tuple[int, ...]
Judge = Callable[[State, State], Score]


def apply(state: State, pod: Pod) -> list[State]:
    """All states that the node can be in with the pod; none where it does not fit."""
    cpu, memory = state.cpu - pod.cpu, state.memory - pod.memory
    if cpu < 0 or memory < 0:
        return []
    if pod.gpus == 0:
        return [State(cpu, memory, state.gpus)]
    first = bisect_left(state.gpus, pod.milli)
    if len(state.gpus) - first < pod.gpus:
        return []
    if pod.gpus > 1:
        taken = state.gpus[len(state.gpus) - pod.gpus :]
        return [State(cpu, memory, tuple(sorted((*state.gpus[: -pod.gpus], *(left - pod.milli for left in taken)))))]
    states = []
    for left in dict.fromkeys(state.gpus[first:]):
        gpus = list(state.gpus)
        gpus.remove(left)
        states.append(State(cpu, memory, tuple(sorted((*gpus, left - pod.milli)))))
    return states


def build_best_fit() -> Judge:
    """The node with the fewest GPUs left, then the fewest CPUs."""
    return lambda _, after: (sum(after.gpus), after.cpu)


def build_least_damage(pods: Sequence[Pod]) -> Judge:
    """The least of the idle GPUs becomes useless to typical pods; then the fullest node, by GPUs and CPUs together."""
    asked = Counter(pod for pod in pods if pod.gpus)
    total = sum(asked.values())
    types = [(pod, number / total) for pod, number in asked.most_common()]
    known: dict[State, float] = {}

    def useless(state: State) -> float:
        found = known.get(state)
        if found is None:
            found = known[state] = sum(share * _useless_to(state, sums(state), pod) for pod, share in types)
        return found

    def sums(state: State) -> list[int]:
        return [0, *accumulate(state.gpus)]

    def judge(before: State, after: State) -> Score:
        worse = useless(after) - useless(before)
        return round(worse / _STEP), sum(after.gpus) * _CPU_OF_A_GPU + after.cpu

    return judge


def _useless_to(state: State, sums: Sequence[int], pod: Pod) -> int:
    """Thousandths of idle GPUs that such a pod could not use."""
    first = bisect_left(state.gpus, pod.milli)
    fits = state.cpu >= pod.cpu and state.memory >= pod.memory and len(state.gpus) - first >= pod.gpus
    return sums[first] if fits else sums[-1]


def build_load(pods: Sequence[Pod], capacity: int, numbers: random.Random) -> list[Pod]:
    """The list and random copies of its pods until 130 % of all GPUs are asked for, in random order."""
    load = list(pods)
    asked = sum(pod.gpus * pod.milli for pod in load)
    while asked < OFFERED * capacity:
        load.append(numbers.choice(pods))
        asked += load[-1].gpus * load[-1].milli
    numbers.shuffle(load)
    return load


def run_load(nodes: Sequence[Node], load: Sequence[Pod], judge: Judge) -> float:
    """Percent of all GPUs that are given away at the end."""
    states = Counter(State(node.cpu, node.memory, (WHOLE,) * node.gpus) for node in nodes)
    capacity = sum(node.gpus * WHOLE for node in nodes)
    answers: dict[Pod, dict[State, tuple[Score, State] | None]] = {}
    placed = 0
    for pod in load:
        known = answers.setdefault(pod, {})
        best: tuple[Score, State, State] | None = None
        for state in states:
            if state not in known:
                known[state] = min(((judge(state, after), after) for after in apply(state, pod)), default=None)
            found = known[state]
            if found is not None and (best is None or (found[0], state) < best[:2]):
                best = (found[0], state, found[1])
        if best is None:
            continue
        _, before, after = best
        placed += pod.gpus * pod.milli
        states[before] -= 1
        if not states[before]:
            del states[before]
        states[after] += 1
    return 100 * placed / capacity


def measure(name: str, policy: str, seeds: Sequence[int], data: Path = DATA) -> dict[str, object]:
    """The mean over the seeds."""
    nodes, pods = read_nodes(data / "nodes.csv.gz"), read_pods(data / f"pods_{name}.csv.gz")
    capacity = sum(node.gpus * WHOLE for node in nodes)
    judge = build_least_damage(pods) if policy == "least-damage" else build_best_fit()
    values = [run_load(nodes, build_load(pods, capacity, random.Random(seed)), judge) for seed in seeds]
    return {
        "figure": "fgd-list",
        "list": name,
        "policy": policy,
        "seeds": list(seeds),
        "allocated_percent": round(mean(values), 2),
        "deviation": round(stdev(values), 2) if len(values) > 1 else 0.0,
        "published_fgd_percent": PUBLISHED.get(name),
    }


def main() -> None:
    """Measure each list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--policy", nargs="*", default=["least-damage", "best-fit"])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(42, 52)))
    args = parser.parse_args()
    for name in args.list:
        for policy in args.policy:
            print(json.dumps(measure(name, policy, args.seeds)), flush=True)


if __name__ == "__main__":
    main()
