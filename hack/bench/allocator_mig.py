"""How much is lost when MIG claims come and go and nobody waits (topology.md, B6): ``python -m hack.bench.allocator_mig``.

Two nodes of four H100, with the real placements; claims for 1g, 2g, 3g, 4g and 7g arrive at random (Poisson), run for a random
time (exponential), and are turned away where nothing fits. The figure is the share of compute slices asked for that were turned
away, as the mean over seeds; each policy has the same arrivals, so that differences are of pairs. One JSON line a load and
policy, and one for the mean of all loads.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any, NamedTuple

from driver.allocator.cel_engine import CelEngine
from driver.allocator.decide import place
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.problem import ClaimAsk, Problem, build_problem
from driver.allocator.search import Found, NodeSearch
from driver.allocator.slots import Pick
from driver.allocator.statics import build_statics
from driver.allocator.tables import positions_of
from driver.api.claim_spec_v1 import (
    CelSelector,
    ClaimSpec,
    DeviceClaim,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
)
from hack.bench.mig_pools import DRIVER, build_mig_pool

TABLE = "h100-80gb"
NODES, GPUS = 2, 4
MIX = {"1g.10gb": 0.30, "2g.20gb": 0.25, "3g.40gb": 0.20, "4g.40gb": 0.10, "7g.80gb": 0.15}
LIFE_S = 600.0
JOBS = 500
POLICIES = ("first-fit", "first-fit-ordered", "spread", "least-damage")


class Job(NamedTuple):
    """A claim for one partition."""

    at_s: float
    run_s: float
    profile: str

    @property
    def slices(self) -> int:
        """Compute slices."""
        return int(self.profile[0])


def build_jobs(mean_s: float, seed: int, count: int = JOBS) -> list[Job]:
    """So many arrivals with a mean distance of so many seconds."""
    numbers, at_s, jobs = random.Random(seed), 0.0, []
    for _ in range(count):
        at_s += numbers.expovariate(1 / mean_s)
        profile = numbers.choices(list(MIX), list(MIX.values()))[0]
        jobs.append(Job(at_s, numbers.expovariate(1 / LIFE_S), profile))
    return jobs


def build_profile_problem(profile: str) -> Problem:
    """One partition of a profile."""
    expression = f'device.attributes["{DRIVER}"].type == "mig" && device.attributes["{DRIVER}"].profile == "{profile}"'
    selector = DeviceSelector(cel=CelSelector(expression=expression))
    request = DeviceRequest(name="mig", exactly=ExactRequest(device_class_name=DRIVER, selectors=(selector,)))
    ask = ClaimAsk(name="claim", uid="uid", spec=ClaimSpec(devices=DeviceClaim(requests=(request,))))
    return build_problem([ask], {DRIVER: DeviceClassSpec()}, DRIVER)


@dataclass(slots=True)
class World:
    """The fleet under one policy."""

    policy: str
    fleet: Fleet
    problems: dict[str, Problem]

    def choose(self, job: Job) -> tuple[str, Sequence[Pick]] | None:
        """Where the job goes."""
        problem = self.problems[job.profile]
        if self.policy == "least-damage":
            placement = place(self.fleet, problem)
            return None if placement is None else (placement.node, placement.picks)
        names = list(self.fleet.nodes)
        if self.policy == "spread":
            names.sort(key=lambda name: (self.fleet.taken(name).mask.bit_count(), name))
        for name in names:
            node, taken = self.fleet.nodes[name], self.fleet.taken(name)
            statics = build_statics(node, self.fleet.shape_id(node.shape), problem.aspects())
            answer = NodeSearch(problem, statics, taken, first_fit=node.first_fit).run()
            if isinstance(answer, Found):
                return name, answer.picks
        return None


def build_world(policy: str) -> World:
    """An empty fleet. First fit sees devices in NVIDIA's order, or in that in which our node plugin publishes them."""
    fleet = Fleet(CelEngine())
    for number in range(NODES):
        name = f"node-{number}"
        fleet.set_node(name, [build_mig_pool(name, TABLE, GPUS, starts_first=policy in ("first-fit", "spread"))])
    return World(policy, fleet, {profile: build_profile_problem(profile) for profile in MIX})


def run_jobs(world: World, jobs: Sequence[Job]) -> float:
    """Percent of the compute slices asked for that were turned away."""
    ends: list[tuple[float, int, tuple[Holding, ...]]] = []
    numbers, asked, lost = itertools.count(), 0, 0
    for job in jobs:
        while ends and ends[0][0] <= job.at_s:
            world.fleet.release(heapq.heappop(ends)[2])
        asked += job.slices
        chosen = world.choose(job)
        if chosen is None:
            lost += job.slices
            continue
        ids = world.fleet.nodes[chosen[0]].ids
        holdings = tuple(Holding(device=ids[at]) for pick in chosen[1] for at in positions_of(pick.mask))
        world.fleet.hold(holdings)
        heapq.heappush(ends, (job.at_s + job.run_s, next(numbers), holdings))
    for _, _, holdings in ends:
        world.fleet.release(holdings)
    return 100 * lost / asked


def measure(mean_s: float, policies: Sequence[str], seeds: Sequence[int], count: int = JOBS) -> list[dict[str, Any]]:
    """A figure for each policy; the first is what the others are compared with."""
    worlds = [build_world(policy) for policy in policies]
    lost = [[run_jobs(world, build_jobs(mean_s, seed, count)) for seed in seeds] for world in worlds]
    figures: list[dict[str, Any]] = []
    for policy, values in zip(policies, lost, strict=True):
        gains = [other - value for value, other in zip(values, lost[0], strict=True)]
        error = 1.96 * stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
        figures.append(
            {
                "figure": "allocator-mig-lost",
                "policy": policy,
                "mean_arrival_s": mean_s,
                "seeds": len(values),
                "lost_percent": round(mean(values), 2),
                "points_better_than_first": round(mean(gains), 2),
                "plus_minus": round(error, 2),
            }
        )
    return figures


def main() -> None:
    """Measure each load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mean_s", type=float, nargs="*", default=[15.0, 22.0, 30.0])
    parser.add_argument("--policy", nargs="*", default=list(POLICIES))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(1, 41)))
    args = parser.parse_args()
    gains: dict[str, list[float]] = {}
    for mean_s in args.mean_s:
        for figure in measure(mean_s, args.policy, args.seeds):
            gains.setdefault(figure["policy"], []).append(figure["points_better_than_first"])
            print(json.dumps(figure), flush=True)
    for policy, points in gains.items():
        print(json.dumps({"figure": "allocator-mig-points", "policy": policy, "points": round(mean(points), 2)}), flush=True)


if __name__ == "__main__":
    main()
