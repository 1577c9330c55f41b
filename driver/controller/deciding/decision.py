"""What to do for one demand: place it, let it wait and say why, or leave it alone and say why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from driver.allocator.decide import Placement, place
from driver.allocator.hold import Holds, Waiting
from driver.allocator.miss import Miss
from driver.allocator.result import build_allocations
from driver.allocator.search import Found
from driver.api.claim_spec_v1 import ClaimAllocation
from driver.controller.books.demands import Demand
from driver.controller.books.mirror import Cluster
from driver.controller.books.node_room import NodeRoom
from driver.controller.books.pods import list_claim_names
from driver.controller.deciding.pod_fit import PodAsk, build_allows, build_demand_ask, find_misfit
from driver.controller.deciding.question import NoQuestion, Question, build_first, build_question
from driver.controller.deciding.waits import NOTHING, find_reason
from driver.controller.objects.model import Claim, Consumer
from driver.controller.objects.ownership import RESERVED_FOR_MAX, build_consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A claim, the allocation to be written (without its time stamp), and the pods of the demand that use it."""

    claim: Claim
    allocation: ClaimAllocation
    reserved_for: tuple[Consumer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Write these. Reserve each with ``list_holdings(grant.allocation)`` before the next decision."""

    demand: Demand
    """Only the pods and claims that are placed."""
    node: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing fits now."""

    demand: Demand
    text: str
    """The nearest miss in numbers, or what of the pods excludes every node."""
    miss: Miss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAlone:
    """Not for us to place."""

    demand: Demand
    reason: str
    is_fault: bool
    """Somebody has to mend something: a selector, a class, a policy. Otherwise it is kube-scheduler's."""


Decision: TypeAlias = Place | Wait | LeaveAlone


@dataclass(slots=True, kw_only=True)
class Search:
    """One search for a place, and what turned places down: what was refused by the hold rule may be had without any change."""

    cluster: Cluster
    avoid: Collection[str] = ()
    holds: Holds | None = None
    waiting: Waiting | None = None
    """The demand as the hold rule sees it; needed where there is one."""
    was_held: bool = False
    was_spared: bool = False

    def find_place(self, question: Question, only: Collection[str] | None = None) -> Place | None:
        """Where the demand goes, None where nothing fits. ``only``: nodes that there are to choose from.

        Where several pods do not fit together the first is placed alone. What kube-scheduler has nominated, having made room
        there, is tried before all else (R32).
        """
        for each in (question, build_first(question)):
            place = None if each is None or each.demand.conflict else self._find_one(each, only)
            if place is not None:
                return place
        return None

    def _find_one(self, question: Question, only: Collection[str] | None) -> Place | None:
        fit = build_fit(self.cluster, question.demand)
        fits = build_allows(fit, self.cluster.nodes, self.cluster.rooms)
        for nodes in self._list_choices(question.demand, only):
            placement = self._place(question, fits, nodes)
            if placement is not None:
                return build_place(self.cluster, question, placement)
        return None

    def _list_choices(self, demand: Demand, only: Collection[str] | None) -> Sequence[Collection[str] | None]:
        """Sets of nodes to choose from, one after the other; None is all."""
        if demand.node is not None:
            return [[demand.node]] if only is None or demand.node in only else []
        nominated = {pod.status.nominated_node_name for pod in demand.pods} - {""}
        first = nominated if only is None else nominated.intersection(only)
        return [first, only] if first else [only]

    def _place(self, question: Question, fits: Callable[[str], bool], only: Collection[str] | None) -> Placement | None:
        holds, waiting = self.holds, self.waiting
        nodes = None if only is None else tuple(only)
        if holds is None or waiting is None:
            return place(
                self.cluster.fleet, question.problem, allows=lambda node: node not in self.avoid and fits(node), only=nodes
            )

        def allows(node: str) -> bool:
            is_allowed = holds.allows(waiting, node)
            self.was_held |= not is_allowed
            return is_allowed and node not in self.avoid and fits(node)

        def accepts(found: Found) -> bool:
            is_welcome = holds.accepts(self.cluster.fleet, waiting, found)
            self.was_spared |= not is_welcome
            return is_welcome

        return place(self.cluster.fleet, question.problem, allows=allows, only=nodes, accepts=accepts)


def build_fit(cluster: Cluster, demand: Demand) -> PodAsk:
    """What the pods ask of their node, all of them together."""
    return build_demand_ask(demand, cluster.volumes, delegated=cluster.classes.extended_resources)


def build_waiting(cluster: Cluster, question: Question, now_s: float) -> Waiting:
    """The demand as the hold rule sees it."""
    demand = question.demand
    return Waiting(
        key=demand.key,
        problem=question.problem,
        count=question.count,
        waited_s=now_s - demand.since_s,
        priority=demand.priority,
        may_go=_CouldFit(cluster, demand),
    )


class _CouldFit:
    """Whether a demand's pods would fit a node if no other pod were there; hardly ever asked."""

    __slots__ = ("_cluster", "_demand", "_fit")

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self._cluster = cluster
        self._demand = demand
        self._fit: PodAsk | None = None

    def __call__(self, name: str) -> bool:
        node = self._cluster.nodes.get(name)
        if self._fit is None:
            self._fit = build_fit(self._cluster, self._demand)
        room = NodeRoom(self._cluster.rooms.room(name).capacity)
        return node is not None and find_misfit(self._fit, node, room) is None


def build_place(cluster: Cluster, question: Question, placement: Placement) -> Place:
    """The allocations of a placement."""
    demand = question.demand
    allocations = build_allocations(
        cluster.fleet.nodes[placement.node], placement, question.asks, question.problem, cluster.classes.specs
    )
    grants = tuple(
        Grant(claim=claim, allocation=allocation, reserved_for=_list_consumers(demand, claim))
        for claim, allocation in zip(demand.claims, allocations, strict=True)
    )
    return Place(demand=demand, node=placement.node, grants=grants)


def _list_consumers(demand: Demand, claim: Claim) -> tuple[Consumer, ...]:
    users = (pod for pod in demand.pods if any(key == claim.metadata.key for _, key in list_claim_names(pod)))
    return tuple(build_consumer(pod) for pod in users)[:RESERVED_FOR_MAX]


def build_wait(cluster: Cluster, question: Question, *, avoid: Mapping[str, str] = NOTHING, holds: Holds | None = None) -> Wait:
    """Why the question has no answer now. Looks at every node."""
    reason = find_reason(cluster, question, build_fit(cluster, question.demand), avoid=avoid, holds=holds)
    return Wait(demand=question.demand, text=reason.text, miss=reason.miss)


def decide(
    cluster: Cluster, demand: Demand, *, avoid: Mapping[str, str] = NOTHING, holds: Holds | None = None, now_s: float
) -> Decision:
    """The decision for one demand as the cluster is now. ``avoid``: nodes that are left out for now, each with the reason.

    Looks at every node where it waits, to say why; ``WaitingLine`` is for those who decide all the time.
    """
    question = build_question(demand, cluster.judge)
    if isinstance(question, NoQuestion):
        return LeaveAlone(demand=demand, reason=question.reason, is_fault=question.is_fault)
    search = Search(cluster=cluster, avoid=avoid, holds=holds, waiting=build_waiting(cluster, question, now_s))
    return search.find_place(question) or build_wait(cluster, question, avoid=avoid, holds=holds)
