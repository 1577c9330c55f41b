"""A process's figures: one registry of our own, labels whose values stay few, and the page that a scraper reads.

The registry is not the library's default one, so what libraries register for themselves is not served. Of the process itself
memory, CPU, threads and files are: they cost one read of ``/proc`` a scrape, and a leak is seen by them first. The
interpreter's own (garbage collector, version) are not: nobody acts on them.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from driver.metrics.pages import Page

OTHER = "other"
MOST_VALUES = 20
"""Of one label."""


class FewValues:
    """Keeps a label's values few, whatever comes."""

    def __init__(self, known: Collection[str] = (), *, most: int = MOST_VALUES) -> None:
        self._known = set(known)
        self._most = most

    def bound(self, value: str) -> str:
        """The value, or ``other`` where there are too many already."""
        if value not in self._known and len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value


def build_registry(component: str) -> CollectorRegistry:
    """A registry with the process's own figures and its version."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which says when it began
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Gauge(
        "gpu_dra_build_info", "1, with the program's version and which half it is", ["component", "version"], registry=registry
    )
    build.labels(component, _read_version()).set(1)
    return registry


def render_page(registry: CollectorRegistry, accept: str) -> Page:
    """Everything, in the form that the scraper asks for."""
    encode, content_type = choose_encoder(accept)
    return Page(status=200, body=encode(registry), content_type=content_type)


def _read_version() -> str:
    try:
        return importlib.metadata.version("gpu-dra")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
