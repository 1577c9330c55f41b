"""All demands in order, each decided anew only where something has changed that could serve it.

After a change on some nodes, a kind of demand that had no place before is tried on these nodes alone, once for all of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from driver.allocator.hold import Holds, Waiting
from driver.controller.books.demands import Demand
from driver.controller.books.mirror import Cluster
from driver.controller.deciding.decision import LeaveAlone, Place, Search, Wait, build_wait, build_waiting
from driver.controller.deciding.kinds import Kinds, Prepared
from driver.controller.deciding.question import Question
from driver.controller.deciding.waits import NOTHING


class Advice(Protocol):
    """What take-backs have taught."""

    def avoided(self, demand: Demand) -> Mapping[str, str]:
        """Nodes that are left out for the demand for now, each with the reason."""

    def is_resting(self, demand: Demand) -> bool:
        """Whether the demand is not to be placed at all for now."""


class NoAdvice:
    """Nothing was learned."""

    def avoided(self, _demand: Demand) -> Mapping[str, str]:
        """Nothing is left out."""
        return NOTHING

    def is_resting(self, _demand: Demand) -> bool:
        """Nobody rests."""
        return False


NO_ADVICE: Advice = NoAdvice()
RESTING = "an allocation of it was given up a moment ago; it is placed again in a while"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """What was known of a kind when it had no place: beside changes of nodes, the hold rule may judge it otherwise later."""

    log_version: int
    hold: Hashable = None
    """Who holds what, where the kind was kept off for that."""
    was_spared: bool = False


class WaitingLine:
    """What the loop asks after each batch of changes. Not thread-safe: one owner, the cluster's."""

    def __init__(self, cluster: Cluster, holds: Holds | None = None) -> None:
        self._cluster = cluster
        self._holds = holds
        self._kinds = Kinds(cluster)
        self._terms = -1
        self._refusals: dict[Hashable, _Refusal] = {}
        self._reasons: dict[Hashable, tuple[int, Wait]] = {}
        self._left_alone: dict[str, LeaveAlone] = {}
        self._demands_seen = -1
        self._questions: dict[str, Question] = {}
        self._waits: dict[str, Waiting] = {}
        self._has_searched = False
        self.waiting: tuple[Demand, ...] = ()
        """What found no place in the last round, or was not looked at before it was stopped; in order."""
        self.refused: tuple[Demand, ...] = ()
        """Those of them that were looked at."""
        self.is_unfinished = False
        """Whether the last round looked at a part only, and the next is to follow at once."""
        self.left_alone: Mapping[str, LeaveAlone] = MappingProxyType(self._left_alone)
        """What is left alone, by key of the demand."""

    def decide_all(
        self, now_s: float, advice: Advice = NO_ADVICE, *, is_enough: Callable[[], bool] = lambda: False
    ) -> Iterator[Place | LeaveAlone]:
        """What is left alone from now on, or for another reason than before; then what is to be placed, in order.

        Reserve a ``Place`` (``Cluster.reserve``) before you ask for the next; stop whenever you like. ``now_s`` is of the clock
        of pods' time stamps. ``is_enough`` is asked after each search; what they found stays known for the next round.
        """
        line = iter(self._begin(now_s))
        self.is_unfinished = bool(self._kinds.pending)
        refused: list[Demand] = []
        try:
            yield from self._leave_alone()
            for prepared in line:
                self._left_alone.pop(prepared.demand.key, None)
                self._has_searched = False
                place = self._find_place(prepared, advice)
                if place is None:
                    refused.append(prepared.demand)
                else:
                    yield place
                    self._hold_for_others(prepared.demand)
                if self._has_searched and is_enough():
                    self.is_unfinished = True
                    return
        finally:  # who asks may have enough before the end
            rest = (each.demand for each in line)
            self.refused = tuple(refused)
            self.waiting = (*self.refused, *rest, *self._kinds.pending)

    def explain(self, demand: Demand, advice: Advice = NO_ADVICE) -> Wait | LeaveAlone:
        """Why the demand is not placed. Looks at every node, once for each kind and state of the cluster."""
        prepared = self._kinds.prepare(demand)
        if isinstance(prepared, LeaveAlone):
            return prepared
        if advice.is_resting(demand):
            return Wait(demand=demand, text=RESTING)
        avoid = advice.avoided(demand)
        key = (prepared.kind, tuple(sorted(avoid.items())), self._hold_state())
        seen = self._cluster.version
        known = self._reasons.get(key)
        if known is None or known[0] != seen:
            self._reasons = {each: value for each, value in self._reasons.items() if value[0] == seen}
            wait = build_wait(self._cluster, prepared.question, avoid=avoid, holds=self._holds)
            known = self._reasons[key] = (seen, wait)
        return replace(known[1], demand=demand)

    def next_change_s(self, now_s: float) -> float | None:
        """In how many seconds the hold rule judges one of those that wait otherwise, though nothing has changed."""
        if self._holds is None:
            return None
        return self._holds.next_change_s(self._list_waiting(now_s))

    def _begin(self, now_s: float) -> list[Prepared]:
        line = self._kinds.prepare_all()
        self._forget_gone()
        if self._terms != self._cluster.terms or len(self._refusals) > 2 * len(line) + 1000:
            self._terms = self._cluster.terms
            self._refusals.clear()
        self._questions = {each.demand.key: each.question for each in line}
        if self._holds is not None:
            self._waits = {each.key: each for each in self._list_waiting(now_s)}
            self._holds.update(self._cluster.fleet, tuple(self._waits.values()))
        return line

    @property
    def is_holding(self) -> bool:
        """Whether a node is kept for one of those that wait."""
        return self._holds is not None and self._holds.node is not None

    def _hold_for_others(self, placed: Demand) -> None:
        """Whom a node was held for has its place: the next one that starves holds, before lesser ones are looked at."""
        del self._questions[placed.key]
        if self._holds is not None:
            del self._waits[placed.key]
            if self._holds.key == placed.key:
                self._holds.update(self._cluster.fleet, tuple(self._waits.values()))

    def _list_waiting(self, now_s: float) -> list[Waiting]:
        return [build_waiting(self._cluster, question, now_s) for question in self._questions.values()]

    def _forget_gone(self) -> None:
        book = self._cluster.demand_book
        changed = book.changed_since(self._demands_seen)
        self._demands_seen = book.version
        for key in tuple(self._left_alone) if changed is None else self._left_alone.keys() & changed:
            if book.find(key) is None:
                del self._left_alone[key]

    def _leave_alone(self) -> Iterator[LeaveAlone]:
        news = self._kinds.left_alone
        for key in tuple(news):
            decision = news.pop(key, None)
            if decision is None:
                return  # who asked has had it explained, and things were different by then: the next round tells them all
            known = self._left_alone.get(key)
            self._left_alone[key] = decision
            if known is None or known.reason != decision.reason:
                yield decision

    def _find_place(self, prepared: Prepared, advice: Advice) -> Place | None:
        if advice.is_resting(prepared.demand):
            return None
        avoid = advice.avoided(prepared.demand)
        waiting = None if self._holds is None else self._waits[prepared.demand.key]
        patience = None if self._holds is None or waiting is None else self._holds.patience(waiting)
        key = (prepared.kind, frozenset(avoid), patience)
        known = self._refusals.get(key)
        only = None if known is None else self._list_news(known)
        if known is not None and only is not None and not only:
            if known.log_version != self._cluster.log_version:
                self._refusals[key] = replace(known, log_version=self._cluster.log_version)
            return None
        search = Search(cluster=self._cluster, avoid=avoid, holds=self._holds, waiting=waiting)
        self._has_searched = True
        place = search.find_place(prepared.question, only)
        if place is None:
            self._refusals[key] = self._build_refusal(search, known if only is not None else None)
        return place

    def _list_news(self, known: _Refusal) -> Collection[str] | None:
        """The nodes on which the kind may have a place now, None for all of them."""
        log_version = self._cluster.log_version
        if known.log_version == log_version:
            changed: Collection[str] | None = ()
        else:
            changed = None if known.was_spared else self._cluster.changed_since(known.log_version)
        if known.hold is not None and known.hold != self._hold_state():
            return None
        return None if changed is None else [name for name in changed if name in self._cluster.fleet.nodes]

    def _build_refusal(self, search: Search, before: _Refusal | None) -> _Refusal:
        """``before`` still holds for the nodes that were not looked at."""
        hold = self._hold_state() if search.was_held or (before is not None and before.hold is not None) else None
        return _Refusal(
            log_version=self._cluster.log_version,
            hold=hold,
            was_spared=search.was_spared or (before is not None and before.was_spared),
        )

    def _hold_state(self) -> Hashable:
        return None if self._holds is None else (self._holds.key, self._holds.node)
