"""Which pods wait, and which of their claims are placed together.

A change touches pods; only demands that have to do with them are built anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from driver.controller.books.change_log import ChangeLog
from driver.controller.books.claims import ClaimBook
from driver.controller.books.pods import PodBook, list_claim_names
from driver.controller.objects.life import parse_time_s
from driver.controller.objects.model import Claim, NodeSelector, Pod

Rank: TypeAlias = tuple[int, float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Pods that wait and the claims that are placed together for them: claims of one pod, and pods that share a claim (R6)."""

    key: str
    """The uid of the oldest pod: the same for as long as it waits."""
    pods: tuple[Pod, ...]
    """In order of priority, then age."""
    claims: tuple[Claim, ...]
    """Without an allocation and without a reservation, in the order of the pods' specs."""
    node: str | None
    """Fixed by the ``nodeName`` of a pod, or by a claim that is allocated or reserved, by anyone, of any driver."""
    selectors: tuple[NodeSelector, ...] = ()
    """Of allocations that leave more than one node to choose from: all must hold."""
    conflict: str = ""
    """What fixes two different nodes, in words: nothing can be placed."""
    priority: int
    """The highest of the pods'."""
    since_s: float
    """When the oldest pod was created, in unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """Something that fixes the node of a demand."""

    node: str
    why: str


class DemandBook:
    """All demands, kept in order of priority, then age."""

    def __init__(self, pods: PodBook, claims: ClaimBook) -> None:
        self._pods = pods
        self._claims = claims
        self._dirty: set[str] = set()
        self._of_pod: dict[str, Demand] = {}
        self._demands: dict[str, Demand] = {}
        self._order: list[Rank] = []
        self._log = ChangeLog()

    def touch(self, pods: Iterable[str]) -> None:
        """Something about these pods (by uid), or about claims of theirs, is different now."""
        self._dirty.update(pods)

    @property
    def version(self) -> int:
        """Another number after each change of a demand, as things are now."""
        if self._dirty:
            self._renew()
        return self._log.version

    def changed_since(self, version: int) -> frozenset[str] | None:
        """Keys of demands that came, changed or went since ``version``; None where that is no longer known."""
        return self._log.since(version)

    def find(self, key: str) -> Demand | None:
        """The demand of this key, as of the last ``version``."""
        return self._demands.get(key)

    def in_order(self) -> Sequence[Demand]:
        """The demands as things are now."""
        if self._dirty:
            self._renew()
        return [self._demands[key] for _, _, key in self._order]

    def of_pod(self, uid: str) -> Demand | None:
        """The demand that the pod is part of."""
        if self._dirty:
            self._renew()
        return self._of_pod.get(uid)

    def _renew(self) -> None:
        todo = dict.fromkeys(sorted(self._dirty))
        self._dirty.clear()
        for uid in list(todo):
            todo.update(self._drop(uid))
        done: set[str] = set()
        for uid in todo:
            if uid not in done:
                component = self._gather(uid)
                done.update(component)
                self._build(component)

    def _drop(self, uid: str) -> dict[str, None]:
        """Takes the demand of a pod out. All pods that it was for."""
        demand = self._of_pod.get(uid)
        if demand is None:
            return {}
        del self._demands[demand.key]
        del self._order[bisect_left(self._order, rank_of(demand))]
        self._log.add((demand.key,))
        for pod in demand.pods:
            del self._of_pod[pod.metadata.uid]
        return dict.fromkeys(pod.metadata.uid for pod in demand.pods)

    def _gather(self, start: str) -> dict[str, tuple[Claim, ...]]:
        """The pods that share claims with a pod, directly or over others, each with all of its claims."""
        component: dict[str, tuple[Claim, ...]] = {}
        followed: set[str] = set()
        rest = [start]
        while rest:
            uid = rest.pop()
            pod = self._pods.waiting.get(uid)
            claims = None if pod is None or uid in component else self._resolve(pod)
            if claims is None:
                continue
            self._drop(uid)
            component[uid] = claims
            for claim in claims:
                if claim.metadata.uid not in followed and self._claims.is_open(claim):
                    followed.add(claim.metadata.uid)  # thousands of pods may share it
                    rest += self._pods.users(claim.metadata.key)
        return component

    def _resolve(self, pod: Pod) -> tuple[Claim, ...] | None:
        """The pod's claims; None while one of them does not exist, or where all are allocated."""
        names = [key for _, key in list_claim_names(pod)]
        claims = [None if key is None else self._claims.find(*key) for key in names]
        found = tuple(claim for claim in claims if claim is not None)
        if len(found) < len(names) or not any(self._claims.is_open(claim) for claim in found):
            return None
        return found

    def _build(self, component: dict[str, tuple[Claim, ...]]) -> None:
        if not component:
            return
        pods = sorted((self._pods.waiting[uid] for uid in component), key=_pod_rank)
        claims = {claim.metadata.uid: claim for pod in pods for claim in component[pod.metadata.uid]}
        ties, selectors = self._list_ties(pods, claims.values())
        oldest = min(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.uid))
        demand = Demand(
            key=oldest.metadata.uid,
            pods=tuple(pods),
            claims=tuple(claim for claim in claims.values() if self._claims.is_open(claim)),
            node=ties[0].node if ties else None,
            selectors=selectors,
            conflict=_find_conflict(ties),
            priority=pods[0].spec.priority,
            since_s=parse_time_s(oldest.metadata.creation_timestamp),
        )
        self._demands[demand.key] = demand
        insort(self._order, rank_of(demand))
        self._log.add((demand.key,))
        self._of_pod.update((pod.metadata.uid, demand) for pod in pods)

    def _list_ties(self, pods: Iterable[Pod], claims: Iterable[Claim]) -> tuple[list[Tie], tuple[NodeSelector, ...]]:
        """What fixes the node, and selectors that leave a choice."""
        ties = [Tie(node=pod.spec.node_name, why=f"pod {pod.metadata.name}") for pod in pods if pod.spec.node_name]
        selectors = []
        for claim in claims:
            node = self._claims.node_of(claim)
            allocation = claim.status.allocation
            if node is not None:
                ties.append(Tie(node=node, why=f"claim {claim.metadata.name}"))
            elif allocation is not None and allocation.node_selector is not None:
                selectors.append(allocation.node_selector)
        return ties, tuple(selectors)


def _find_conflict(ties: Sequence[Tie]) -> str:
    first = next(iter(ties), None)
    other = next((tie for tie in ties if first is not None and tie.node != first.node), None)
    if first is None or other is None:
        return ""
    return f"{first.why} is on node {first.node}, but {other.why} is on node {other.node}"


def rank_of(demand: Demand) -> Rank:
    """What demands are ordered by: priority, then age."""
    return (-demand.priority, demand.since_s, demand.key)


def _pod_rank(pod: Pod) -> tuple[int, str, str]:
    return (-pod.spec.priority, pod.metadata.creation_timestamp, pod.metadata.uid)
