"""A figure and its arithmetic: medians, 95th percentiles, ratios of pairs. Pure.

A ratio is the median of the ratios of pairs: what was measured and its floor ran one right after the other, so that whatever
else the machine did hurt both alike. Two medians of one run, divided, would let a slow minute fall on one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``at_most`` (or ``at_least``) for one field of a figure, and where the number is from."""

    of: str
    """``p50``, ``p95`` or ``ratio``."""
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether a measured value keeps to the target."""
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        """``ratio <= 3``."""
        return f"{self.of} <= {self.at_most:g}" if self.at_most is not None else f"{self.of} >= {self.at_least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity. ``values`` and ``floor`` are of one unit; with a floor, value ``i`` and floor ``i`` are a pair."""

    name: str
    unit: str
    values: Sequence[float]
    floor: Sequence[float] = ()
    target: Target | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def build_fields(self) -> dict[str, Any]:
        """The figure as its line has it; numbers with four digits that count."""
        fields: dict[str, Any] = {
            "name": self.name,
            "value": round_digits(percentile(self.values, 0.5)),
            "unit": self.unit,
            "p50": round_digits(percentile(self.values, 0.5)),
            "p95": round_digits(percentile(self.values, 0.95)),
            "n": len(self.values),
        }
        if self.floor:
            fields["floor_p50"] = round_digits(percentile(self.floor, 0.5))
            fields["floor_p95"] = round_digits(percentile(self.floor, 0.95))
            fields["ratio"] = round_digits(median_ratio(self.values, self.floor))
        if self.target is not None and self.target.of in fields:
            fields["target"] = str(self.target)
            fields["met"] = self.target.is_met(fields[self.target.of])
        return fields | {key: round_digits(value) if isinstance(value, float) else value for key, value in self.detail.items()}

    def encode_line(self) -> str:
        """One line of JSON."""
        return msgspec.json.encode(self.build_fields()).decode()


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the values lie, between neighbours by proportion.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a percentile of nothing")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median_ratio(values: Sequence[float], floor: Sequence[float]) -> float:
    """The median of ``values[i] / floor[i]``.

    Raises:
        ValueError: they are not pairs, or a floor is not above zero.
    """
    if len(values) != len(floor):
        raise ValueError(f"{len(values)} values and {len(floor)} floors are no pairs")
    if min(floor) <= 0:
        raise ValueError("a floor of nothing: the ratio has no meaning")
    return percentile([value / base for value, base in zip(values, floor, strict=True)], 0.5)


def round_digits(value: float, digits: int = 4) -> float:
    """``value`` with so many digits that count."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
