"""A figure that is looked up when a scraper asks: what it is called and means, and its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class Definition:
    """``name`` is without a counter's ``_total``."""

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    labels: tuple[str, ...] = ()

    def sample(self, value: float, *labels: str) -> Sample:
        """A value of it; the labels' values in the order of their names."""
        return Sample(definition=self, labels=labels, value=float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of the page."""

    definition: Definition
    labels: tuple[str, ...]
    value: float


class LookedUp(Collector):
    """Serves ``definitions``: every one is named, also while it has no sample."""

    def __init__(self, definitions: Iterable[Definition], read: Callable[[], Iterable[Sample]]) -> None:
        self._definitions = tuple(definitions)
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """The families without samples, so that registering looks nothing up."""
        yield from (_build_family(each) for each in self._definitions)

    def collect(self) -> Iterator[Metric]:
        """The families as they are now."""
        families = {each: _build_family(each) for each in self._definitions}
        for sample in self._read():
            families[sample.definition].add_metric(sample.labels, sample.value)
        yield from families.values()


def _build_family(definition: Definition) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    return kind(definition.name, definition.text, labels=definition.labels)
