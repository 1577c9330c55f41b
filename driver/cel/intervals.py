"""Estimates with a lower and an upper bound, in arithmetic that ends at the largest 64-bit number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """At least, and at most."""

    least: int
    most: int

    def plus(self, other: Interval) -> Interval:
        """The sum."""
        return Interval(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Interval) -> Interval:
        """The product."""
        return Interval(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Interval:
        """The product with a factor, rounded up."""
        return Interval(_scale(self.least, factor), _scale(self.most, factor))

    def union(self, other: Interval) -> Interval:
        """What holds both."""
        return Interval(min(self.least, other.least), max(self.most, other.most))


ZERO: Final = Interval(0, 0)
ONE: Final = Interval(1, 1)
UNKNOWN: Final = Interval(0, MOST)


def exactly(value: int) -> Interval:
    """No uncertainty."""
    return Interval(value, value)


def add(*parts: Interval) -> Interval:
    """The sum of all."""
    total = ZERO
    for part in parts:
        total = total.plus(part)
    return total


def _scale(value: int, factor: float) -> int:
    scaled = float(value) * factor
    if scaled >= 18446744073709551616.0:
        return MOST
    return math.ceil(scaled)
