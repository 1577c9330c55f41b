"""Which demands are alike: what one of a kind cannot have, no other of it can."""

from __future__ import annotations

import contextlib
import hashlib
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import msgspec

from driver.controller.books.demands import Demand, Rank, rank_of
from driver.controller.books.effort import Costs, NotYet
from driver.controller.books.mirror import Cluster
from driver.controller.books.volumes import has_claims
from driver.controller.deciding.decision import LeaveAlone
from driver.controller.deciding.question import NoQuestion, Question, build_question

_MOST_NUMBERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A demand that has a question."""

    demand: Demand
    question: Question
    kind: int
    """The same number for demands that ask for the same and may go to the same nodes."""


class Kinds:
    """Prepares demands; those that are as they were before are not looked at again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._token: object = None
        self._seen = -1
        """Up to which change of a demand all are known; before the first where nothing is."""
        self._known: dict[str, Prepared | LeaveAlone] = {}
        self._asked: list[Prepared] = []
        """Of those that are known, in order."""
        self._numbers: dict[Hashable, int] = {}
        self._next = 0
        self._costs = Costs()
        self.pending: tuple[Demand, ...] = ()
        """Those of the last ``prepare_all`` of which more is to be found out than was possible in one round."""
        self.left_alone: dict[str, LeaveAlone] = {}
        """News, by key: demands without a question. Whoever has seen one takes it out."""

    def prepare_all(self) -> list[Prepared]:
        """All demands that have a question, in their order, but for those that are ``pending``.

        Only what has changed is looked at: what is kube-scheduler's may wait by the thousand beside ours.
        """
        self._follow_terms()
        book = self._cluster.demand_book
        version = book.version
        changed = None if self._seen < 0 else book.changed_since(self._seen)
        self._seen = version
        if changed is None:
            self._forget_all()
            new = book.in_order()
        else:
            for key in changed:
                self._forget(key)
            found = map(book.find, changed.union(each.key for each in self.pending))
            new = sorted((each for each in found if each is not None), key=rank_of)
        if new:
            self._prepare_new(new)
        self.pending = tuple(each for each in new if each.key not in self._known)
        if not self.pending:
            self._costs.forget()
        return list(self._asked)

    def prepare(self, demand: Demand) -> Prepared | LeaveAlone:
        """One demand, whatever it costs."""
        self._follow_terms()
        known = self._known.get(demand.key)
        return known if known is not None and known.demand is demand else self._prepare(demand)

    def _follow_terms(self) -> None:
        token = (self._cluster.judge.follow(), self._cluster.terms)
        is_full = len(self._numbers) > _MOST_NUMBERS
        if is_full:
            self._numbers.clear()
        if is_full or token != self._token:
            self._token = token
            self._seen = -1
            self._forget_all()

    def _forget_all(self) -> None:
        self._known.clear()
        self._asked.clear()
        self.left_alone.clear()

    def _forget(self, key: str) -> None:
        self.left_alone.pop(key, None)
        known = self._known.pop(key, None)
        if isinstance(known, Prepared):
            del self._asked[bisect_left(self._asked, rank_of(known.demand), key=_rank)]

    def _keep(self, found: Prepared | LeaveAlone) -> None:
        self._known[found.demand.key] = found
        if isinstance(found, Prepared):
            insort(self._asked, found, key=_rank)
        else:
            self.left_alone[found.demand.key] = found

    def _prepare(self, demand: Demand) -> Prepared | LeaveAlone:
        question = build_question(demand, self._cluster.judge)
        if isinstance(question, NoQuestion):
            return LeaveAlone(demand=demand, reason=question.reason, is_fault=question.is_fault)
        return Prepared(demand=demand, question=question, kind=self._number(_build_kind(question)))

    def _prepare_new(self, demands: Iterable[Demand]) -> None:
        effort = self._cluster.effort
        effort.begin()
        try:
            for demand in self._costs.order(demands):
                before = effort.work
                with contextlib.suppress(NotYet):
                    self._keep(self._prepare(demand))
                self._costs.note(demand, effort.work - before)
                if effort.is_spent:
                    break
        finally:
            effort.end()

    def _number(self, kind: Hashable) -> int:
        """Numbers are never used again, so that nothing that is known of one is believed of another."""
        known = self._numbers.get(kind)
        if known is None:
            self._next += 1
            known = self._numbers[kind] = self._next
        return known


def _rank(prepared: Prepared) -> Rank:
    return rank_of(prepared.demand)


def _build_kind(question: Question) -> Hashable:
    """Several pods, volumes, and what is nominated or in conflict make a demand one of its own, for as long as it is so."""
    demand = question.demand
    pod = demand.pods[0]
    is_plain = len(demand.pods) == 1 and not (demand.conflict or pod.status.nominated_node_name or has_claims(pod))
    # all that may say where the pod can go; a text is quicker to make than what it means
    fit = msgspec.json.encode(msgspec.structs.replace(pod.spec, resource_claims=())) if is_plain else _digest(demand)
    return (question.problem, demand.node, demand.selectors, fit)


def _digest(demand: Demand) -> bytes:
    """A pod may be resized, nominated elsewhere, or go: what the others then cannot have is to be found out anew."""
    pods = [(pod.metadata.uid, pod.status.nominated_node_name, pod.spec) for pod in demand.pods]
    return hashlib.sha256(msgspec.json.encode((demand.key, demand.conflict, pods))).digest()
