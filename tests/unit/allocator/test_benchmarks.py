"""The allocator's benchmarks run, and measure what they say."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from driver.cli.simulation.arrivals import Arrival
from hack.bench.allocator_packing import build_load, measure
from hack.bench.allocator_speed import measure as measure_speed


def test_a_figure_of_speed_has_what_the_table_shows() -> None:
    figure = measure_speed(8, "dgx-h100", 20, 1)
    assert (figure["nodes"], figure["decisions"]) == (8, 20)
    for name in ("p50_ms", "p99_ms", "cpu_p99_ms", "leave_p50_ms", "first_decisions_s", "resident_mb", "buckets"):
        value = figure[name]
        assert isinstance(value, int | float)
        assert value > 0 or name == "first_decisions_s"


def test_a_load_asks_for_exactly_what_there_is() -> None:
    pods = tuple(Arrival(name="p", at_s=0.0, run_s=1.0, count=count) for count in (1, 1, 8, 4, 1))
    load = build_load(pods, 100, random.Random(1))
    assert sum(pod.count for pod in load) == 100
    assert [pod.at_s for pod in load] == [float(n) for n in range(len(load))]


def test_everything_is_placed(tmp_path: Path) -> None:
    nodes = "sn,gpu,model\n" + "".join(f"n{n},8,G\n" for n in range(12))
    pods = "name,num_gpu\n" + "".join(f"p{n},{n % 2 or 8}\n" for n in range(12))
    (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(nodes.encode()))
    (tmp_path / "pods_x.csv.gz").write_bytes(gzip.compress(pods.encode()))
    assert measure(tmp_path, "x", "pack", 42) == 100.0
