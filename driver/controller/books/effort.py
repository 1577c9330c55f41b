"""How much is found out about selectors at a time, counted by the engine and not by a clock.

Ten claims may bring hundreds of selectors that were never asked before. Who decides for all others must not work them off at a
stretch: what is over the limit is found out in later rounds, those first that have cost least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from driver.allocator.cel_engine import CelEngine
from driver.controller.books.demands import Demand

WORK_A_ROUND = 400_000
"""In the engine's units: some tenths of a second."""


class NotYet(Exception):
    """There is more to find out than may be done at a time: ask again in the next round, which goes on from here."""


class Effort:
    """A limit on the engine's work, set for a while."""

    def __init__(self, engine: CelEngine) -> None:
        self._engine = engine
        self._ends_at: int | None = None

    @property
    def work(self) -> int:
        """What was done so far."""
        return self._engine.work

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self._ends_at is not None and self._engine.work >= self._ends_at

    def begin(self, most: int = WORK_A_ROUND) -> None:
        """From now on so much and no more."""
        self._ends_at = self._engine.work + most

    def end(self) -> None:
        """From now on whatever it takes."""
        self._ends_at = None

    def check(self) -> None:
        """Go on, if there is something left.

        Raises:
            NotYet: there is not.
        """
        if self.is_spent:
            raise NotYet


class Costs:
    """What demands have cost while others waited for their turn, by namespace and each."""

    def __init__(self) -> None:
        self._of_namespace: Counter[str] = Counter()
        self._of_demand: Counter[str] = Counter()

    def order(self, demands: Iterable[Demand]) -> Sequence[Demand]:
        """Those first whose namespace has cost least, then those that have cost least themselves."""
        if not self._of_demand:
            return tuple(demands)
        return sorted(demands, key=lambda each: (self._of_namespace[_namespace(each)], self._of_demand[each.key]))

    def note(self, demand: Demand, work: int) -> None:
        """A demand has cost this."""
        self._of_namespace[_namespace(demand)] += work
        self._of_demand[demand.key] += work

    def forget(self) -> None:
        """Nobody waits for a turn any more."""
        self._of_namespace.clear()
        self._of_demand.clear()


def _namespace(demand: Demand) -> str:
    return demand.pods[0].metadata.namespace
