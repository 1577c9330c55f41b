"""What a selector has cost so far, and when that is too much.

Kubernetes lets one evaluation cost a million units, which is up to a second here, and kube-scheduler asks again for each pod.
Whoever decides for a whole cluster cannot give one claim so much of its time. The bound is counted in Kubernetes' own units and
not in seconds: the same selector on the same devices has the same answer on every machine, every day.
"""

from __future__ import annotations

from dataclasses import dataclass

from driver.cel.costs import LIMIT

MOST_UNITS = 300_000
"""A selector may cost this much in all, whatever one device costs. About 0.15 s of CPU for loops, 0.3 s for quantities,
versions and formats, 0.8 s at worst, for networks and URLs that are taken apart over and over."""
MOST_MEAN_UNITS = 1_000
"""A device. Up to it a selector may go on for as many devices as there are. Most cost 2 to 60; one that compares an attribute
with as many texts as 10 KiB hold costs 950."""


@dataclass(slots=True)
class SelectorMeter:
    """Of one selector: evaluations and what they cost. What was answered from memory does not count again."""

    units: int = 0
    evaluations: int = 0

    def limit(self) -> int:
        """What the next evaluation may cost."""
        most = max(MOST_UNITS, MOST_MEAN_UNITS * (self.evaluations + 1))
        return min(LIMIT, most - self.units)

    def note(self, units: int) -> None:
        """An evaluation cost this."""
        self.units += units
        self.evaluations += 1

    def find_excess(self) -> str:
        """In plain words, why the selector is given up; empty while it is not."""
        if self.units <= max(MOST_UNITS, MOST_MEAN_UNITS * self.evaluations):
            return ""
        devices = "one device" if self.evaluations == 1 else f"{self.evaluations} devices"
        return (
            f"the selector is too slow: it cost {self.units:,} units on {devices}; beyond {MOST_UNITS:,} in all it may cost "
            f"{MOST_MEAN_UNITS:,} a device, so it is not asked any more; loop over less (a loop in a loop multiplies), "
            "or compare attributes directly"
        )
