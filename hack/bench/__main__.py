"""``python -m hack.bench``: measure, and print one JSON line a figure."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from driver.errors import DriverError
from hack.bench.figure import Figure
from hack.bench.measures.calls import measure_calls, measure_one_call_of_8
from hack.bench.measures.growth import measure_callers, measure_held
from hack.bench.measures.machine import describe_run
from hack.bench.measures.mig import measure_mig
from hack.bench.measures.process import measure_idle, measure_memory_after_load, measure_memory_at_start
from hack.bench.measures.publishing import measure_slices, measure_starts
from hack.bench.processes import BenchFailed
from hack.bench.stage import NODE, QUICK, Scale, Stage, many_gpus, stage

Measure = Callable[[Stage], Iterator[Figure]]

OWN_NODE: dict[str, Measure] = {"starts": measure_starts, "slices": measure_slices, "mig": measure_mig}
"""They start plugins of their own."""
ONE_NODE: dict[str, Measure] = {
    "memory-at-start": measure_memory_at_start,
    "idle": measure_idle,
    "calls": measure_calls,
    "call-of-8": measure_one_call_of_8,
    "held": measure_held,
    "callers": measure_callers,
    "memory-after-load": measure_memory_after_load,
}
"""One plugin, in this order."""

_EPILOG = f"""measures: {", ".join([*OWN_NODE, *ONE_NODE])}

A line has the median (value, p50), p95 and n; where there is a floor, the floor's own and the median ratio of pairs.
Times are taken in client processes of Python; docs/performance.md says what limits what."""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench",
        description="Measure the kubelet plugin against a bare gRPC server that does two synced writes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", choices=[*OWN_NODE, *ONE_NODE], metavar="NAME", help="this measure; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="a little of everything, to see that it works")
    parser.add_argument("--kubeconfig", type=Path, help="a real API server, where you may do everything (default: a stand-in)")
    parser.add_argument(
        "--clients", type=int, default=4, help="client processes that many callers are dealt out to (default 4)"
    )
    return parser.parse_args(argv)


def measure_all(made: Stage, only: list[str] | None) -> Iterator[Figure]:
    """The figures of the measures that were asked for."""
    for measure in _choose(OWN_NODE, only):
        yield from measure(made)
    chosen = _choose(ONE_NODE, only)
    if chosen:
        made.cluster.delete_slices(NODE)
        with many_gpus(made):
            for measure in chosen:
                yield from measure(made)


def main(argv: list[str]) -> int:
    """Print figures as they come; 1 when something did not work."""
    arguments = parse_arguments(argv)
    load_before = os.getloadavg()[0]
    try:
        with stage(QUICK if arguments.quick else Scale(), arguments.kubeconfig, arguments.clients) as made:
            for figure in measure_all(made, arguments.only):
                print(figure.encode_line(), flush=True)
            print(describe_run(load_before).encode_line(), flush=True)
    except (BenchFailed, DriverError) as err:
        print(f"bench: {err}", file=sys.stderr)
        return 1
    return 0


def _choose(measures: dict[str, Measure], only: list[str] | None) -> list[Measure]:
    return [measure for name, measure in measures.items() if only is None or name in only]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
