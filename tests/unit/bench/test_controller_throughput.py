"""The work of the throughput benchmark is the same for both sides, and its lines say what they should."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from driver.controller.objects.model import CLAIMS, PODS
from hack.bench.controller_throughput import LARGE_EVERY, Round, build_line, build_quantiles, build_work, parse_arguments

ROUND = Round(
    rate=30.0,
    bound_rate=20.0,
    to_allocated_s=(0.5, 1.0),
    to_bound_s=(0.1, 0.2),
    cpu_s={"apiserver": 0.03, "controller": 0.01},
    created_s=0.7,
)
PAGE = """# TYPE gpu_dra_decision_seconds histogram
gpu_dra_decision_seconds_bucket{le="0.0002"} 60.0
gpu_dra_decision_seconds_bucket{le="0.005"} 98.0
gpu_dra_decision_seconds_bucket{le="0.01"} 100.0
gpu_dra_decision_seconds_bucket{le="+Inf"} 100.0
"""


def test_both_sides_get_the_same_claims_but_for_whose_devices_they_select() -> None:
    ours, theirs = (build_work("turn", side, 2 * LARGE_EVERY) for side in ("controller", "scheduler"))
    assert ours[1] == theirs[1]
    assert json.loads(json.dumps(ours[0]).replace('== \\"controller', '== \\"scheduler')) == theirs[0]


def test_each_tenth_claim_is_for_four_gpus_and_each_pod_names_one() -> None:
    claims, pods = build_work("turn", "controller", 2 * LARGE_EVERY)
    counts = [each["spec"]["devices"]["requests"][0]["exactly"]["count"] for each in claims]
    assert (counts.count(4), counts.count(1)) == (2, 2 * LARGE_EVERY - 2)
    named = [each["spec"]["resourceClaims"][0]["resourceClaimName"] for each in pods]
    assert named == [each["metadata"]["name"] for each in claims]


def test_the_controller_can_read_the_work() -> None:
    claims, pods = build_work("turn", "controller", 1)
    claim = msgspec.json.decode(msgspec.json.encode(claims[0]), type=CLAIMS.type_)
    pod = msgspec.json.decode(msgspec.json.encode(pods[0]), type=PODS.type_)
    assert (claim.metadata.name, pod.metadata.name, pod.spec.node_name) == ("turn-0", "turn-0", "")


def test_a_line_has_the_median_of_the_turns_ratios() -> None:
    theirs = [replace(ROUND, rate=rate) for rate in (10.0, 5.0, 6.0)]
    line = build_line("backlog", 200.0, {"controller": [ROUND, ROUND, ROUND], "scheduler": theirs})
    assert (line["ratio"], line["ratios"], line["met"]) == (5.0, [3.0, 6.0, 5.0], True)
    assert (line["controller_claims_per_s"], line["scheduler_claims_per_s"]) == (30.0, 6.0)
    assert line["controller_cpu_ms_a_claim"] == {"apiserver": 15.0, "controller": 5.0}
    assert line["controller_created_s"] == 0.7
    assert line["allocated_to_bound_s_p50"] == pytest.approx(0.15)


def test_a_ratio_below_three_misses_the_target_and_a_rate_that_is_not_set_is_said_in_words() -> None:
    line = build_line("stream", None, {"controller": [ROUND], "scheduler": [replace(ROUND, rate=15.0)]})
    assert (line["met"], line["scheduler_qps"]) == (False, "its default, 50")


def test_quantiles_are_the_first_buckets_that_hold_so_many() -> None:
    found = build_quantiles(PAGE, "gpu_dra_decision_seconds", (0.5, 0.99))
    assert found == {"p50_at_most_ms": 0.2, "p99_at_most_ms": 10.0}


def test_a_histogram_that_is_not_there_is_zero() -> None:
    assert build_quantiles("", "gpu_dra_decision_seconds", (0.5,)) == {"p50_at_most_ms": 0.0}


@pytest.mark.parametrize(
    ("words", "rates"),
    [pytest.param([], [None, 200.0], id="both"), pytest.param(["--qps", "default", "80"], [None, 80.0], id="named")],
)
def test_kube_schedulers_rates_are_its_default_and_numbers(words: list[str], rates: list[float | None]) -> None:
    assert parse_arguments(words).qps == rates
