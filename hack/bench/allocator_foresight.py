"""What the hold rule could gain if it knew when pods end: ``python -m hack.bench.allocator_foresight [ARRIVALS NODES]``.

The controller holds the node on which the fewest GPUs have to come free, since nobody tells it when a pod ends. Here the same
rule is played against one that is told, and holds the node that is free soonest if nobody else comes there. Where that gains
nothing either, the list has no case for holding, whatever node is chosen. One JSON line a row.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from driver.allocator.cel_engine import CelEngine
from driver.allocator.fleet import Fleet
from driver.allocator.hold import HoldRule, Holds, Waiting
from driver.cli.simulation.arrivals import Arrivals, read_arrivals
from driver.cli.simulation.choosers import ControllerChooser
from driver.cli.simulation.fleets import build_fleet, name_nodes, read_machine_devices
from driver.cli.simulation.replay import Replay
from hack.bench.allocator_replay import MACHINE, SIZES, build_waits

LISTS = ((Path("tests/data/openb/pods_window.csv"), 5), (Path("tests/data/openb/pods_window.csv"), 4))
RULES = ((900.0, 900.0), (300.0, 7200.0), (0.0, math.inf))
"""After how long, with how much patience; the last is the most that holding alone can do."""


class Foresight(Holds):
    """Holds that know when those who run will end."""

    def __init__(self, rule: HoldRule) -> None:
        super().__init__(rule)
        self.replay: Replay | None = None

    def choose_node(self, fleet: Fleet, claim: Waiting) -> str | None:
        """The node that has enough free soonest if nobody else comes there."""
        ends = self._list_ends()
        soonest = [(_find_free_s(fleet, name, ends.get(name, []), claim.count), name) for name in fleet.nodes]
        return min(soonest)[1] if soonest else None

    def _list_ends(self) -> dict[str, list[tuple[float, int]]]:
        if self.replay is None:
            return {}
        node_of = {run.pod.name: run.node for run in self.replay.runs}
        found: dict[str, list[tuple[float, int]]] = {}
        for end_s, _, pod in self.replay.ends:
            found.setdefault(node_of[pod.name], []).append((end_s, pod.count))
        return found


def _find_free_s(fleet: Fleet, name: str, ends: list[tuple[float, int]], need: int) -> float:
    free = len(fleet.nodes[name].ids) - fleet.taken(name).mask.bit_count()
    free_s = 0.0
    for end_s, count in sorted(ends):
        if free >= need:
            break
        free, free_s = free + count, end_s
    return free_s if free >= need else math.inf


def measure(arrivals: Arrivals, nodes: int, holds: Holds | None) -> dict[str, Any]:
    """Waits by size."""
    fleet = build_fleet(name_nodes(nodes, read_machine_devices(MACHINE)), CelEngine())
    replay = Replay(ControllerChooser(fleet, holds))
    if isinstance(holds, Foresight):
        holds.replay = replay
    replay.run(arrivals.pods, lambda _arrived: None)
    return {str(size): build_waits([run for run in replay.runs if run.pod.count == size]) for size in SIZES}


def main() -> None:
    """Each list without a rule, with each rule, and with the same rule and foresight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arrivals", type=Path, nargs="?")
    parser.add_argument("nodes", type=int, nargs="?", default=5)
    args = parser.parse_args()
    for path, nodes in LISTS if args.arrivals is None else ((args.arrivals, args.nodes),):
        arrivals = read_arrivals(path)
        shown: dict[str, Any] = {"figure": "allocator-hold-foresight", "arrivals": path.name, "nodes": nodes}
        print(json.dumps({**shown, "rule": None, "waits": measure(arrivals, nodes, None)}), flush=True)
        for after_s, patience_s in RULES:
            rule = HoldRule(after_s=after_s, hold_patience_s=patience_s)
            for holds in (Holds(rule), Foresight(rule)):
                said = {"after_s": after_s, "patience_s": str(patience_s), "foresees": isinstance(holds, Foresight)}
                print(json.dumps({**shown, "rule": said, "waits": measure(arrivals, nodes, holds)}), flush=True)


if __name__ == "__main__":
    main()
