"""A page of figures as a mapping."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from driver.metrics.registry import render_page


def read_page(registry: CollectorRegistry) -> dict[str, float]:
    """Each line's value by its name and labels."""
    lines = render_page(registry, "").body.decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
