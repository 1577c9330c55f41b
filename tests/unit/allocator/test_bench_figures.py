"""The benchmarks of quality run, on a little, and their figures mean what they say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from driver.allocator.hold import HoldRule, Holds
from driver.api.resource_v1 import Device
from driver.cli.simulation.arrivals import read_arrivals
from driver.nvml.mock.catalogue import read_mig_tables
from hack.bench.allocator_foresight import Foresight
from hack.bench.allocator_foresight import measure as measure_foresight
from hack.bench.allocator_mig import build_jobs, measure
from hack.bench.allocator_mig_speed import measure as measure_mig_speed
from hack.bench.allocator_optimum import measure_all, measure_expectations, measure_some
from hack.bench.allocator_replay import RULES, Row, build_hours, build_waits, measure_hours
from hack.bench.allocator_replay import measure as measure_replay
from hack.bench.cel_speed import build_total, read_golden
from hack.bench.fgd import DATA, State, apply, build_best_fit, build_least_damage, build_load, run_load
from hack.bench.mig_pools import build_mig_pool, text_of
from hack.bench.openb import Node, Pod, read_nodes, read_pods

WINDOW = Path("tests/data/openb/pods_window.csv")


@pytest.mark.parametrize("table", sorted(read_mig_tables()))
def test_a_mig_pool_has_every_placement_and_the_whole_gpus(table: str) -> None:
    """The whole draws everything, a part what its profile has and the slices that it lies on."""
    pool = build_mig_pool("a", table, 2)
    profiles = read_mig_tables()[table].profiles
    assert len(pool.devices) == 2 * (1 + sum(len(profile.starts) for profile in profiles))
    assert len({device.name for device in pool.devices}) == len(pool.devices)
    assert len({text_of(table, each) for each in profiles}) == len(profiles)
    by_name = {each.name: each.counters for each in pool.counter_sets}
    for device in pool.devices:
        drawn = device.consumes_counters[0]
        slices = [name for name in drawn.counters if name.startswith("memory-slice-")]
        assert (dict(drawn.counters) == by_name[drawn.counter_set]) or len(slices) <= read_mig_tables()[table].memory_slices
        assert set(drawn.counters) <= set(by_name[drawn.counter_set])


def test_a_mig_pool_keeps_what_is_known_of_whole_gpus() -> None:
    own = tuple(Device(name=f"gpu-{number}") for number in range(2))
    assert [each.name for each in build_mig_pool("a", "a30", 2, whole=own).devices[:2]] == ["gpu-0", "gpu-1"]


def test_fewer_are_turned_away_by_least_damage_than_by_spreading() -> None:
    """On one seed already."""
    figures = measure(30.0, ("spread", "least-damage"), [1], 150)
    assert [figure["policy"] for figure in figures] == ["spread", "least-damage"]
    assert figures[1]["lost_percent"] < figures[0]["lost_percent"]
    assert figures[1]["points_better_than_first"] == pytest.approx(
        figures[0]["lost_percent"] - figures[1]["lost_percent"], abs=0.02
    )


def test_arrivals_are_the_same_for_every_policy() -> None:
    assert build_jobs(30.0, 5) == build_jobs(30.0, 5)
    assert build_jobs(30.0, 5) != build_jobs(30.0, 6)


def test_a_figure_of_mig_decisions_has_what_the_table_shows() -> None:
    figure = measure_mig_speed(2, 10, 1)
    assert (figure["nodes"], figure["devices"], figure["decisions"]) == (2, 416, 10)
    assert {"p50_ms", "p99_ms", "cpu_p99_ms", "first_decisions_s", "buckets"} <= set(figure)


def test_small_machines_equal_the_optimum_and_large_ones_are_timed() -> None:
    assert measure_all("hgx-h100-4") == {
        "figure": "allocator-optimum",
        "machine": "hgx-h100-4",
        "gpus": 4,
        "cases": 32,
        "equal": 32,
        "target": "all",
    }
    assert measure_some("dgx-2", 1)["gpus"] == 16


def test_what_go_gpuallocator_expects_is_met() -> None:
    figure = measure_expectations()
    assert figure["equal_or_better"] == figure["expectations"]


@pytest.mark.parametrize("rule", ["none", "spare 2 h"])
def test_a_replay_tells_all_sizes(rule: str) -> None:
    figure = measure_replay(Row(nodes=5, rule=rule), WINDOW)
    assert figure["waits"]["8"]["pods"] == 20
    assert set(figure["waits"]) == {"8", "4", "2", "1"}
    assert ("without_rule" in figure) == (rule != "none")
    assert json.loads(json.dumps(figure)) == figure


def test_random_hours_ask_for_what_they_say() -> None:
    """GPU-hours asked for, over the time in which they arrive, on 40 GPUs."""
    pods = [pod for seed in range(10) for pod in build_hours(0.8, seed)]
    asked = sum(pod.count * pod.run_s for pod in pods)
    arriving_s = sum(build_hours(0.8, seed)[-1].at_s for seed in range(10))
    assert asked / (arriving_s * 40) == pytest.approx(0.8, abs=0.08)
    assert sum(row["pods"] for row in measure_hours(0.2, 900.0, 900.0, [1])["waits"].values()) == 700


def test_no_pod_has_no_mean() -> None:
    assert build_waits([]) == {"pods": 0, "mean_s": 0, "p95_s": 0, "over_1h": 0}
    assert RULES["none"] is None


def test_shares_of_gpus_fill_what_whole_ones_leave() -> None:
    """Three pods of which two fit on a GPU together; a pod for two whole GPUs; CPU that runs out."""
    half, most = Pod(cpu=1, memory=1, gpus=1, milli=460), Pod(cpu=1, memory=1, gpus=1, milli=540)
    nodes = [Node(cpu=4, memory=9, gpus=2), Node(cpu=1, memory=9, gpus=1)]
    pair = Pod(cpu=1, memory=1, gpus=2, milli=1000)
    load = [half, most, Pod(cpu=3, memory=1, gpus=0, milli=0), pair]
    for judge in (build_best_fit(), build_least_damage([half, most, pair])):
        assert run_load(nodes, load, judge) == pytest.approx(100 / 3)
        assert run_load(nodes, [*load[:2], most], judge) == pytest.approx(100 * 1.54 / 3)
    assert len(apply(State(cpu=9, memory=9, gpus=(200, 460, 1000)), half)) == 2
    assert apply(State(cpu=9, memory=9, gpus=(200, 1000, 1000)), pair) == [State(cpu=8, memory=8, gpus=(0, 0, 200))]


def test_the_lists_in_the_tree_are_what_was_published() -> None:
    """1,213 nodes with 6,212 GPUs; 8,152 pods, 3,986 of them for whole GPUs."""
    nodes, pods = read_nodes(DATA / "nodes.csv.gz"), read_pods(DATA / "pods_default.csv.gz")
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)
    assert (len(pods), sum(pod.gpus > 0 and pod.milli == 1000 for pod in pods)) == (8152, 3986)
    load = build_load(pods, 6_212_000, random.Random(42))
    assert sum(pod.gpus * pod.milli for pod in load) == pytest.approx(1.3 * 6_212_000, rel=0.01)


def test_selectors_of_the_golden_file_are_rated_together() -> None:
    """Two selectors at 100 and 300 a second are 150 a second one after the other."""
    asked = read_golden(100)
    assert len(asked) > 10
    total = build_total([("a", 100.0, 50.0), ("b", 300.0, 50.0)])
    assert (total["ours_per_s"], total["kubernetes_per_s"], total["ratio"]) == (150, 50, 3.0)
    assert (total["median_ours_per_s"], total["median_ratio"]) == (200, 4.0)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [(5, {"none": 13_080, "rule": 13_080, "foresight": 13_080}), (4, {"none": 24_150, "rule": 18_950, "foresight": 18_950})],
    ids=["no case: whatever node is held, eights come no sooner", "a case: the rule gains as much as who knows all ends"],
)
def test_what_holding_gains_is_what_foresight_would_gain(nodes: int, expected: dict[str, int]) -> None:
    """A window of openb: mean waits of pods of eight."""
    arrivals, rule = read_arrivals(WINDOW), HoldRule(after_s=900, hold_patience_s=900)
    ways = {"none": None, "rule": Holds(rule), "foresight": Foresight(rule)}
    found = {name: measure_foresight(arrivals, nodes, holds)["8"]["mean_s"] for name, holds in ways.items()}
    assert found == {name: pytest.approx(mean_s, abs=10) for name, mean_s in expected.items()}
