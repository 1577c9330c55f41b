"""What a report says, counted by hand; and the picture of it."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from rich.console import Console

from driver.cli.simulation.arrivals import Arrival
from driver.cli.simulation.picture import draw_picture
from driver.cli.simulation.replay import Run, Sample
from driver.cli.simulation.report import GpuHours, Links, Placed, Report, Setting, Waits, build_report
from driver.cli.simulation.show import build_tables, format_seconds

SETTING = Setting(nodes=2, gpus=16, machine="dgx-h100", policy="pack", arrivals="a.csv", skipped_pods=3)


def run(count: int, wait_s: float) -> Run:
    return Run(pod=Arrival(name="p", at_s=100.0, run_s=1.0, count=count), start_s=100.0 + wait_s, node="n")


SAMPLES = [
    Sample(at_s=0.0, used=0, waiting={}),
    Sample(at_s=3600.0, used=12, waiting={8: 1, 4: 2}),
    Sample(at_s=7200.0, used=16, waiting={8: 1}),
    Sample(at_s=10800.0, used=0, waiting={}),
]


def report() -> Report:
    runs = [*(run(1, wait) for wait in (0, 0, 0, 4000)), run(8, 3601), run(8, math.inf)]
    return build_report(SETTING, runs, SAMPLES, {8: Links(placed=1, ideal=1, nvlink=1)})


def test_waits_by_size() -> None:
    """95 % is the nearest rank; who was never placed counts as over an hour, and not into the mean."""
    assert report().waits == {
        "1": Waits(count=4, mean_s=1000.0, p95_s=4000.0, max_s=4000.0, over_1h=1, never_placed=0),
        "8": Waits(count=2, mean_s=3601.0, p95_s=3601.0, max_s=3601.0, over_1h=2, never_placed=1),
    }


def test_what_was_placed_and_used() -> None:
    made = report()
    assert made.placed == Placed(pods=5, of_pods=6, gpus=12, of_gpus=20, percent_of_gpus=60.0)
    assert made.gpu_hours == GpuHours(capacity=48.0, used=28.0, percent_used=58.33)
    assert made.duration_s == 10800.0


def test_hours_in_which_pods_waited_beside_enough_free_gpus() -> None:
    """Four GPUs were free in the second hour: enough for fours, not for eights."""
    assert report().pending_while_free_h == {"4": 1.0}


def test_nothing_at_all_is_a_report_too() -> None:
    made = build_report(SETTING, [], [], {})
    assert (made.placed.percent_of_gpus, made.waits, made.duration_s) == (0.0, {}, 0.0)


def test_tables_fit_eighty_columns_and_have_every_size() -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(build_tables(report()))
    text = captured.get()
    assert max(map(len, text.splitlines())) <= 80
    for word in ("2 nodes, 16 GPUs (dgx-h100), policy pack", "placed 5 of 6 pods", "60.00 %", "3 pods of the list", "100.0 %"):
        assert word in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2.0 min"), (7199, "120.0 min"), (7200, "2.0 h"), (172800, "2.0 d")]
)
def test_lengths_of_time_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_the_picture_is_well_formed_and_has_an_area_for_each_size() -> None:
    svg = draw_picture(SAMPLES, gpus=16, title="a < b & c")
    root = ElementTree.fromstring(svg)
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    texts = [element.text for element in root.iter() if element.text]
    assert tags.count("polygon") == 3
    assert "a < b & c" in texts
    assert {"4 GPUs", "8 GPUs"} <= set(texts)


@pytest.mark.parametrize("samples", [[], SAMPLES[:1]], ids=["nothing", "one moment"])
def test_a_picture_of_nearly_nothing(samples: list[Sample]) -> None:
    ElementTree.fromstring(draw_picture(samples, gpus=8, title="x"))
