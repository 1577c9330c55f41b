"""Asks a Prometheus over HTTP."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class PrometheusRefused(Exception):
    """It did not answer, or says that the query is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Labels, and values by time: UNIX seconds."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """``url`` is without a path."""

    url: str

    def ask(self, expr: str, at_s: float) -> tuple[Series, ...]:
        """The values at a moment.

        Raises:
            PrometheusRefused: also where the query is wrong; the text has Prometheus' own words.
        """
        found = self._get("query", {"query": expr, "time": f"{at_s}"})["result"]
        return tuple(Series(labels=each["metric"], points=(_point(each["value"]),)) for each in found)

    def ask_range(self, expr: str, from_s: float, to_s: float, step_s: float) -> tuple[Series, ...]:
        """The values from a moment to another. Raises as ``ask``."""
        times = {"start": f"{from_s}", "end": f"{to_s}", "step": f"{step_s}"}
        found = self._get("query_range", {"query": expr, **times})["result"]
        series = (Series(labels=each["metric"], points=_list_points(each["values"])) for each in found)
        return tuple(each for each in series if each.points)

    def read_alerts(self) -> list[Any]:
        """Alerts that are pending or fire, as Prometheus tells them. Raises as ``ask``."""
        found: list[Any] = self._get("alerts", {})["alerts"]
        return found

    def _get(self, what: str, parameters: Mapping[str, str]) -> Any:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30.0) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as err:
            raise PrometheusRefused(f"{parameters.get('query', what)}: {err.read(2000).decode(errors='replace')}") from err
        except (OSError, ValueError, KeyError) as err:
            raise PrometheusRefused(f"asking {self.url} for {what}: {err}") from err


def _list_points(values: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    """Without those that are no number: a rate of nothing by nothing."""
    return tuple(point for point in map(_point, values) if not math.isnan(point[1]))


def _point(pair: tuple[float, str]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
