"""When the publisher acts next: soon after a reason, not in a row without end, and later each time it fails.

A burst of deletions by others is answered at once; somebody who edits our slices continuously gets an answer every few seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from driver.kube.backoff import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceSettings:
    """Times of the publisher."""

    debounce_s: tuple[float, float] = (0.05, 0.1)
    burst: int = 10
    refill_s: float = 3.0
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0


class Pace:
    """Holds the moment of the next act. Not safe for several threads by itself."""

    def __init__(self, settings: PaceSettings, *, clock: Callable[[], float], rng: random.Random) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(base_s=settings.backoff_base_s, cap_s=settings.backoff_cap_s, random=rng)
        self._due_at: float | None = None
        self._not_before = float("-inf")
        self._tokens = float(settings.burst)
        self._counted_at = clock()

    def ask_now(self) -> None:
        """Our own content is new, or the kubelet registered us again: failures so far no longer count."""
        self._backoff.reset()
        self._not_before = float("-inf")
        self._due_at = self._clock()

    def ask_soon(self) -> None:
        """Somebody changed our slices: act when the flurry is over, a tenth of a second at most."""
        if self._due_at is None:
            self._due_at = self._clock() + self._rng.uniform(*self._settings.debounce_s)

    def wait_s(self) -> float | None:
        """Seconds until the next act; None while there is no reason for one."""
        if self._due_at is None:
            return None
        return max(0.0, max(self._due_at, self._not_before) - self._clock())

    def begin(self) -> None:
        """The act begins: reasons from now on are new ones."""
        self._due_at = None

    def take_token(self) -> bool:
        """Whether another round of writes is due now; if not, it is asked for when it will be."""
        now = self._clock()
        refilled = (now - self._counted_at) / self._settings.refill_s
        self._tokens = min(float(self._settings.burst), self._tokens + refilled)
        self._counted_at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return True
        self._due_at = now + (1 - self._tokens) * self._settings.refill_s
        return False

    def succeed(self) -> None:
        """Everything is in its place."""
        self._backoff.reset()
        self._not_before = float("-inf")

    def fail(self, *, at_least_s: float | None) -> float:
        """Something failed: try again after the wait that is returned."""
        wait_s = self._backoff.next_wait_s(at_least_s=at_least_s)
        self._not_before = self._clock() + wait_s
        self._due_at = self._not_before
        return wait_s
