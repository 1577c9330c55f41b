"""Time, as the mock uses it: given from outside, so that tests need none."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the mock waits by."""

    def monotonic_s(self) -> float:
        """Never goes back."""

    def now_s(self) -> float:
        """Seconds since 1970."""

    def sleep(self, duration_s: float) -> None:
        """Waits."""


class SystemClock:
    """The machine's own clock."""

    def monotonic_s(self) -> float:
        """See ``Clock``."""
        return time.monotonic()

    def now_s(self) -> float:
        """See ``Clock``."""
        return time.time()

    def sleep(self, duration_s: float) -> None:
        """See ``Clock``."""
        time.sleep(duration_s)
