"""What a scraper sees."""

from __future__ import annotations

import pytest

from driver.allocator.miss import Miss
from driver.controller.books.demands import Demand
from driver.controller.books.occupancy import Occupancy
from driver.controller.deciding.decision import LeaveAlone, Place, Wait
from driver.controller.metrics import ControllerMetrics, WaitReason, classify_wait

DEMAND = Demand(key="uid", pods=(), claims=(), node=None, priority=0, since_s=0.0)


def wait_for(**figures: int | bool) -> Wait:
    figures = {"nodes": 5, "need": 4, "free": 20, "taken": 20, "largest": 2} | figures
    miss = Miss(request="gpus", scope="one NVLink island", where=(), **figures)  # type: ignore[arg-type]
    return Wait(demand=DEMAND, text="", miss=miss)


def samples(metrics: ControllerMetrics) -> dict[str, float]:
    """Every line of the page, but those of the process."""
    lines = metrics.page("").body.decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("gpu_dra_"))
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        pytest.param(Wait(demand=DEMAND, text="the pod fits nowhere"), WaitReason.POD, id="the pod's own constraints"),
        pytest.param(wait_for(nodes=0), WaitReason.POD, id="no node is left"),
        pytest.param(wait_for(free=0, taken=0), WaitReason.UNMATCHED, id="no device matches"),
        pytest.param(wait_for(free=3), WaitReason.FULL, id="fewer free than needed"),
        pytest.param(wait_for(free=0, need=0), WaitReason.FULL, id="all are asked for, none is free"),
        pytest.param(wait_for(), WaitReason.FRAGMENTED, id="enough, on no island"),
        pytest.param(wait_for(is_together=True), WaitReason.TOGETHER, id="each alone would fit"),
    ],
)
def test_waits_are_counted_by_the_nearest_miss(wait: Wait, reason: WaitReason) -> None:
    assert classify_wait(wait) is reason


def test_decisions_by_outcome() -> None:
    metrics = ControllerMetrics()
    decisions: list[Place | LeaveAlone] = [
        Place(demand=DEMAND, node="a", grants=()),
        Place(demand=DEMAND, node="a", grants=()),
        LeaveAlone(demand=DEMAND, reason="no class", is_fault=True),
        LeaveAlone(demand=DEMAND, reason="another driver's", is_fault=False),
    ]
    for decision in decisions:
        metrics.note_decision(decision, took_s=0.003)
    seen = samples(metrics)
    outcomes = {"placed": 2.0, "fault": 1.0, "left_alone": 1.0}
    assert {name: seen[f'gpu_dra_decisions_total{{outcome="{name}"}}'] for name in outcomes} == outcomes
    assert seen['gpu_dra_decision_seconds_bucket{le="0.002"}'] == 0
    assert seen['gpu_dra_decision_seconds_bucket{le="0.005"}'] == 4


def test_waits_by_the_reason_that_was_told() -> None:
    metrics = ControllerMetrics()
    metrics.note_wait(classify_wait(wait_for()))
    metrics.note_wait(WaitReason.FULL)
    metrics.note_wait(WaitReason.FULL)
    waits = {name: value for name, value in samples(metrics).items() if name.startswith("gpu_dra_waits_total")}
    assert waits == {'gpu_dra_waits_total{reason="fragmented"}': 1, 'gpu_dra_waits_total{reason="full"}': 2}


def test_what_waits_now_is_replaced_whole() -> None:
    metrics = ControllerMetrics()
    metrics.set_waiting({WaitReason.FULL: 3, WaitReason.POD: 1}, oldest_s=90)
    metrics.set_waiting({WaitReason.FULL: 2}, oldest_s=30)
    seen = samples(metrics)
    waiting = {reason.value: seen[f'gpu_dra_waiting_claims{{reason="{reason.value}"}}'] for reason in WaitReason}
    assert waiting == {"pod": 0, "unmatched": 0, "full": 2, "fragmented": 0, "together": 0}
    assert seen["gpu_dra_oldest_waiting_seconds"] == 30


def test_writes_take_backs_doubles_and_failures() -> None:
    metrics = ControllerMetrics()
    metrics.note_write("allocation", took_s=0.02)
    metrics.note_write_failure("conflict")
    metrics.note_take_back("unbound")
    metrics.note_double()
    metrics.note_watch_failure("resourceclaims")
    metrics.note_placed(waited_s=0.4)
    seen = samples(metrics)
    assert seen['gpu_dra_write_seconds_count{write="allocation"}'] == 1
    assert seen['gpu_dra_write_failures_total{why="conflict"}'] == 1
    assert seen['gpu_dra_take_backs_total{cause="unbound"}'] == 1
    assert seen["gpu_dra_doubles_total"] == 1
    assert seen['gpu_dra_watch_failures_total{resource="resourceclaims"}'] == 1
    assert seen['gpu_dra_placement_seconds_bucket{le="0.5"}'] == 1


def test_the_fleets_figures() -> None:
    metrics = ControllerMetrics()
    metrics.set_occupancy(
        Occupancy(free=20, allocated=18, unavailable=2, unfenced=8, devices=19, largest_free_island=2, nodes=5)
    )
    seen = samples(metrics)
    assert {name: value for name, value in seen.items() if name.startswith("gpu_dra_gpus")} == {
        'gpu_dra_gpus{state="free"}': 20,
        'gpu_dra_gpus{state="allocated"}': 18,
        'gpu_dra_gpus{state="unavailable"}': 2,
        'gpu_dra_gpus{state="unfenced"}': 8,
    }
    assert (seen["gpu_dra_allocated_devices"], seen["gpu_dra_largest_free_island_gpus"]) == (19, 2)
    assert seen["gpu_dra_fenced_nodes"] == 5


def test_what_is_under_way() -> None:
    metrics = ControllerMetrics()
    metrics.set_work(queued=12, places=3, take_backs=1)
    metrics.set_holding(is_holding=True)
    seen = samples(metrics)
    assert seen["gpu_dra_queued_messages"] == 12
    assert (seen['gpu_dra_writes_in_flight{write="place"}'], seen['gpu_dra_writes_in_flight{write="take_back"}']) == (3, 1)
    assert seen["gpu_dra_held_nodes"] == 1
    metrics.set_holding(is_holding=False)
    assert samples(metrics)["gpu_dra_held_nodes"] == 0


def test_who_leads_and_which_version_runs() -> None:
    metrics = ControllerMetrics()
    assert samples(metrics)["gpu_dra_leader"] == 0
    metrics.set_leader(leads=True)
    seen = samples(metrics)
    assert seen["gpu_dra_leader"] == 1
    assert sum(value for name, value in seen.items() if name.startswith("gpu_dra_build_info{")) == 1


def test_a_label_never_has_more_than_twenty_values_and_other() -> None:
    metrics = ControllerMetrics()
    for number in range(100):
        metrics.note_take_back(f"cause {number}")
    causes = {name: value for name, value in samples(metrics).items() if name.startswith("gpu_dra_take_backs_total")}
    assert len(causes) == 21
    assert causes['gpu_dra_take_backs_total{cause="other"}'] == 80


def test_two_of_them_in_one_process_know_nothing_of_each_other() -> None:
    first, second = ControllerMetrics(), ControllerMetrics()
    first.note_double()
    assert samples(second)["gpu_dra_doubles_total"] == 0


def test_no_series_says_when_another_began() -> None:
    assert not [name for name in samples(ControllerMetrics()) if name.partition("{")[0].endswith("_created")]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", "text/plain", id="anything"),
        pytest.param("application/openmetrics-text;version=1.0.0", "application/openmetrics-text", id="OpenMetrics"),
    ],
)
def test_the_scraper_chooses_the_form(accept: str, content_type: str) -> None:
    page = ControllerMetrics().page(accept)
    assert (page.status, page.content_type.partition(";")[0]) == (200, content_type)
    assert b"gpu_dra_leader" in page.body
