"""A clock that stands still until somebody sleeps by it: waits take no time."""

from __future__ import annotations

from collections.abc import Callable


class StillClock:
    """A ``driver.nvml.mock.clock.Clock``. ``on_sleep`` is called at each sleep, to let something happen meanwhile."""

    def __init__(self, on_sleep: Callable[[float], None] | None = None) -> None:
        self.time_s = 1_000_000.0
        self.sleeps_s: list[float] = []
        self.on_sleep = on_sleep

    def monotonic_s(self) -> float:
        return self.time_s

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, duration_s: float) -> None:
        self.time_s += duration_s
        self.sleeps_s.append(duration_s)
        if self.on_sleep is not None:
            self.on_sleep(duration_s)
