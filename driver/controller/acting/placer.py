"""From decisions to writes: reserve, guard, hand over."""

from __future__ import annotations

import time
from collections.abc import Callable

from driver import log
from driver.allocator.result import list_holdings
from driver.controller.acting.ledger import Ledger
from driver.controller.books.demands import Demand
from driver.controller.deciding.decision import LeaveAlone, Place
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Claim
from driver.controller.writing.claim_steps import Placing
from driver.controller.writing.writer import PlaceJob
from driver.kube.events import NOTE_MAX_BYTES, cut_text

_LOG = log.logger(__name__)
_MOST_NAMED = 10
"""Claims in a line of the log."""
_LONGEST_ROUND_S = 2.0
"""Then what happened meanwhile is taken in: a round that goes on for minutes looks like a process that hangs."""


class _Searches:
    """Times the searches of one round."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._ends_s: float | None = None

    def are_enough(self) -> bool:
        """Whether it is time to end the round. The first time that it is asked the time begins."""
        now_s = self._timer()
        if self._ends_s is None:
            self._ends_s = now_s + _LONGEST_ROUND_S
        return now_s >= self._ends_s


class Placer:
    """For the decision thread."""

    def __init__(
        self, ledger: Ledger, line: WaitingLine, *, max_in_flight: int, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self._ledger = ledger
        self._line = line
        self._max_in_flight = max_in_flight
        self._timer = timer
        self.is_unfinished = False
        """Whether there may be more to place, once something was written."""

    def decide(self, now_s: float, wall_s: float) -> None:
        """Decide whatever can be decided, as many as may be under way.

        Every round looks at all that wait: one for each write that ends would be as many rounds as there are claims.
        """
        if self.is_unfinished and self._ledger.in_flight.places > self._max_in_flight // 2:
            return
        self.is_unfinished = False
        began_s = self._timer()
        searches = _Searches(self._timer)
        for decision in self._line.decide_all(wall_s, self._ledger.advise(now_s), is_enough=searches.are_enough):
            self._ledger.metrics.note_decision(decision, took_s=self._timer() - began_s)
            if isinstance(decision, Place):
                self._begin(decision)
            else:
                self._leave(decision)
            if self._is_full():
                self.is_unfinished = True
                return
            began_s = self._timer()
        self.is_unfinished = self._line.is_unfinished

    def _is_full(self) -> bool:
        return self._ledger.in_flight.places >= self._max_in_flight

    def _begin(self, place: Place) -> None:
        ledger = self._ledger
        guarded = self._list_guarded(place.demand)
        is_guarded = len(place.grants) > 1
        placings = tuple(
            Placing(claim=each.claim, allocation=each.allocation, consumers=each.reserved_for, is_guarded=is_guarded)
            for each in place.grants
        )
        for each in place.grants:
            ledger.cluster.reserve(each.claim.metadata.uid, list_holdings(each.allocation), place.node)
        ledger.in_flight.begin(PlaceJob(demand=place.demand, node=place.node, placings=placings, guarded=guarded))

    def _leave(self, left: LeaveAlone) -> None:
        self._ledger.speech.say_left_alone(left)
        claims = left.demand.claims
        names = ", ".join(each.metadata.full_name for each in claims[:_MOST_NAMED])
        level = log.WARNING if left.is_fault else log.DEBUG
        reason = cut_text(left.reason, NOTE_MAX_BYTES)
        log.event(_LOG, level, "claims are left alone", claims=names, count=len(claims), reason=reason)

    def _list_guarded(self, demand: Demand) -> tuple[Claim, ...]:
        """Claims of the pods that were written before, by us or by a leader before us, and still have a guard."""
        ledger = self._ledger
        claims = {each.metadata.uid: each for pod in demand.pods for each in ledger.list_claims(pod)}
        return tuple(each for uid, each in claims.items() if uid in ledger.guarded and not ledger.in_flight.is_busy(uid))
