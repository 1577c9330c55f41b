"""Figures that are looked up."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from driver.metrics.definition import Definition, LookedUp, Sample
from driver.metrics.registry import render_page

HEAT = Definition("gpu_dra_heat_celsius", "gauge", "How hot", ("gpu",))
BANGS = Definition("gpu_dra_bangs", "counter", "How often", ("gpu", "kind"))
ALONE = Definition("gpu_dra_alone", "gauge", "Without labels")


class Source:
    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.reads = 0

    def read(self) -> Iterable[Sample]:
        self.reads += 1
        return self.samples


def page_of(source: Source) -> list[str]:
    registry = CollectorRegistry()
    registry.register(LookedUp((HEAT, BANGS, ALONE), source.read))
    return render_page(registry, "").body.decode().splitlines()


def test_samples_stand_with_their_labels_below_their_name() -> None:
    source = Source()
    source.samples = [HEAT.sample(31, "a"), BANGS.sample(2, "a", "xid"), HEAT.sample(40.5, "b"), ALONE.sample(True)]
    assert page_of(source) == [
        "# HELP gpu_dra_heat_celsius How hot",
        "# TYPE gpu_dra_heat_celsius gauge",
        'gpu_dra_heat_celsius{gpu="a"} 31.0',
        'gpu_dra_heat_celsius{gpu="b"} 40.5',
        "# HELP gpu_dra_bangs_total How often",
        "# TYPE gpu_dra_bangs_total counter",
        'gpu_dra_bangs_total{gpu="a",kind="xid"} 2.0',
        "# HELP gpu_dra_alone Without labels",
        "# TYPE gpu_dra_alone gauge",
        "gpu_dra_alone 1.0",
    ]


def test_what_has_no_sample_is_named_all_the_same() -> None:
    assert len([line for line in page_of(Source()) if line.startswith("# TYPE")]) == 3


def test_registering_looks_nothing_up() -> None:
    source = Source()
    registry = CollectorRegistry()
    registry.register(LookedUp((HEAT,), source.read))
    assert source.reads == 0
    render_page(registry, "")
    assert source.reads == 1


def test_a_label_with_quotes_and_line_ends_stays_one_line() -> None:
    source = Source()
    source.samples = [HEAT.sample(1, 'a"b\n\\c')]
    assert 'gpu_dra_heat_celsius{gpu="a\\"b\\n\\\\c"} 1.0' in page_of(source)
