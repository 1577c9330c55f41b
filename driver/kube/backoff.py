"""How long to wait before the next try: exponential, with full jitter, so that thousands of nodes spread out by themselves."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits that double from ``base_s`` to ``cap_s``; each is drawn from the whole range below, down to a tenth of it.

    The tenth keeps an unlucky row of draws from becoming a hot loop.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    random: random.Random
    _failures: int = 0

    def next_wait_s(self, *, at_least_s: float | None = None) -> float:
        """The wait after one more failure; the server's own Retry-After is a floor that jitter is added to."""
        ceiling = min(self.cap_s, self.base_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return (at_least_s or 0.0) + self.random.uniform(ceiling / 10, ceiling)

    def reset(self) -> None:
        """Something worked: the next failure starts from the bottom."""
        self._failures = 0
