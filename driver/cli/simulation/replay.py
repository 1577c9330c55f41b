"""The event loop: pods arrive, wait in order of arrival with back-fill, run, and leave.

Back-fill: at each event the queue is gone through from the oldest on, and whoever fits is placed, so that a small pod does not
wait behind a large one. What keeps a large one from waiting for ever is the hold rule.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from driver.cli.simulation.arrivals import Arrival


class Chooser(Protocol):
    """Where pods go. Owns what is taken."""

    def place(self, pod: Arrival, now_s: float) -> str | None:
        """The node that the pod is now placed on; None where it has to wait."""

    def remove(self, pod: Arrival) -> None:
        """The pod has ended."""

    def before(self, waiting: Sequence[Arrival], now_s: float) -> float | None:
        """Called before the queue is gone through. The time at which it wants to be called again, if nothing happens before."""

    def kind(self, pod: Arrival, now_s: float) -> object:
        """Equal for pods of which the second cannot be placed where the first just could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of a pod."""

    pod: Arrival
    start_s: float
    """Infinite where it was never placed."""
    node: str = ""

    @property
    def wait_s(self) -> float:
        """From arrival to placement."""
        return self.start_s - self.pod.at_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The state after an event, for pictures."""

    at_s: float
    used: int
    """GPUs."""
    waiting: dict[int, int]
    """Pods by count of GPUs."""


@dataclass(slots=True)
class Replay:
    """The loop's state."""

    chooser: Chooser
    waiting: list[Arrival] = field(default_factory=list)
    ends: list[tuple[float, int, Arrival]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    used: int = 0

    def run(self, pods: Sequence[Arrival], progress: Callable[[int], None]) -> None:
        """Everything, from the first arrival until nothing more can happen. ``progress`` hears how many have arrived."""
        arrived, wake_s = 0, math.inf
        while True:
            now_s = min(
                pods[arrived].at_s if arrived < len(pods) else math.inf, self.ends[0][0] if self.ends else math.inf, wake_s
            )
            if math.isinf(now_s):
                break
            self._leave(now_s)
            while arrived < len(pods) and pods[arrived].at_s <= now_s:
                self.waiting.append(pods[arrived])
                arrived += 1
            wake_s = self._serve(now_s)
            progress(arrived)
        self.runs += [Run(pod=pod, start_s=math.inf) for pod in self.waiting]

    def _leave(self, now_s: float) -> None:
        while self.ends and self.ends[0][0] <= now_s:
            _, _, pod = heapq.heappop(self.ends)
            self.chooser.remove(pod)
            self.used -= pod.count

    def _serve(self, now_s: float) -> float:
        wake_s = self.chooser.before(self.waiting, now_s)
        still: list[Arrival] = []
        hopeless: set[object] = set()
        for pod in self.waiting:
            kind = self.chooser.kind(pod, now_s)
            node = None if kind in hopeless else self.chooser.place(pod, now_s)
            if node is None:
                hopeless.add(kind)
                still.append(pod)
                continue
            self.used += pod.count
            self.runs.append(Run(pod=pod, start_s=now_s, node=node))
            if math.isfinite(pod.run_s):
                heapq.heappush(self.ends, (now_s + pod.run_s, len(self.runs), pod))
        self.waiting = still
        self.samples.append(Sample(at_s=now_s, used=self.used, waiting=_by_count(still)))
        return math.inf if wake_s is None or wake_s <= now_s else wake_s


def _by_count(pods: Sequence[Arrival]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for pod in pods:
        counts[pod.count] = counts.get(pod.count, 0) + 1
    return counts
