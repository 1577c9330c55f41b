"""What the decision thread knows beside the mirror, and keeps in step with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from driver.allocator.pools import Pool
from driver.controller.acting.speech import Speech
from driver.controller.books.claims import find_only_node
from driver.controller.books.demands import Demand
from driver.controller.books.mirror import Cluster
from driver.controller.books.pods import list_claim_names
from driver.controller.deciding.doubles import DoubleWatch
from driver.controller.deciding.lessons import Lessons
from driver.controller.deciding.put_off import PutOff
from driver.controller.deciding.takeback import IdleWatch
from driver.controller.metrics import ControllerMetrics
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import has_guard, is_ours, is_pod
from driver.controller.writing.claim_steps import Step, choose_unmarking_step
from driver.controller.writing.fence import read_drain
from driver.controller.writing.in_flight import InFlight


class Ledger:
    """What the decision thread knows beside the mirror."""

    def __init__(
        self, cluster: Cluster, in_flight: InFlight, lessons: Lessons, speech: Speech, metrics: ControllerMetrics
    ) -> None:
        self.cluster = cluster
        self.in_flight = in_flight
        self.lessons = lessons
        self.speech = speech
        self.metrics = metrics
        self.idle = IdleWatch()
        self.put_off = PutOff()
        self.doubles = DoubleWatch(cluster.driver)
        self.guarded: set[str] = set()
        """Uids of claims of ours with a guard."""
        self.marked: dict[str, float] = {}
        """Uids of claims with our mark and without an allocation, and since when."""
        self.ours: set[str] = set()
        """Uids of claims with an allocation of ours."""
        self._changed_pools: set[str] = set()
        self._draining: set[str] = set()

    def advise(self, now_s: float) -> AdviceNow:
        """What is to be heeded in decisions now."""
        return AdviceNow(self, now_s)

    def note_claim(self, claim: Claim, now_s: float) -> None:
        """The mirror has a claim's new state: follow it."""
        uid = claim.metadata.uid
        self.doubles.note(claim)
        if choose_unmarking_step(claim) is Step.UNMARK:
            self.marked.setdefault(uid, now_s)
        else:
            self.marked.pop(uid, None)
        if not is_ours(claim):
            self._drop(uid)
            return
        self.ours.add(uid)
        (self.guarded.add if has_guard(claim) else self.guarded.discard)(uid)
        self.idle.look(claim, self.cluster.pods, now_s)

    def note_pod(self, pod: Pod, now_s: float) -> None:
        """The mirror has a pod's new state, or has it no more: its claims are in use from now on, or idle."""
        for claim in self.list_claims(pod):
            if claim.metadata.uid in self.ours:
                self.idle.look(claim, self.cluster.pods, now_s)

    def note_written(self, claim: Claim, now_s: float) -> None:
        """The server's answer to a write of ours."""
        uid = claim.metadata.uid
        self.cluster.note_written(claim)
        known = self.cluster.claims.get(uid)
        if known is not None:
            self.note_claim(known, now_s)

    def restart_idle(self, uid: str, now_s: float) -> None:
        """The claim could not be taken back: it has its whole time again."""
        self.idle.forget(uid)
        claim = self.cluster.claims.get(uid)
        if claim is not None:
            self.idle.look(claim, self.cluster.pods, now_s)

    def note_pool(self, name: str) -> None:
        """A slice of the pool came, changed or went."""
        self._changed_pools.add(name)

    def draining_pools(self) -> list[Pool]:
        """Our pools whose nodes want to leave the controller."""
        for name in self._changed_pools:
            pool = self.cluster.pools.get(name)
            (self._draining.add if pool is not None and read_drain(pool) is not None else self._draining.discard)(name)
        self._changed_pools.clear()
        return [self.cluster.pools[name] for name in sorted(self._draining)]

    def forget_claim(self, uid: str) -> None:
        """A claim is gone."""
        self.doubles.forget(uid)
        self.lessons.forget_claim(uid)
        self.put_off.forget(uid)
        self.marked.pop(uid, None)
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        self.ours.discard(uid)
        self.guarded.discard(uid)
        self.idle.forget(uid)

    def list_claims(self, pod: Pod) -> Iterator[Claim]:
        """The claims of a pod that exist."""
        for _, key in list_claim_names(pod):
            claim = None if key is None else self.cluster.claim_book.find(*key)
            if claim is not None:
                yield claim

    def waiting_pods(self, claim: Claim) -> list[Pod]:
        """The pods in ``reservedFor`` that are not bound and still want to be."""
        pods = [self.cluster.pods.get(each.uid) for each in claim.status.reserved_for if is_pod(each)]
        return [each for each in pods if each is not None and is_unbound(each)]


@dataclass(frozen=True, slots=True)
class AdviceNow:
    """``Advice`` for one round of decisions."""

    ledger: Ledger
    now_s: float

    def avoided(self, demand: Demand) -> dict[str, str]:
        """Nodes that are left out for the demand for now, each with the reason."""
        return self.ledger.lessons.avoided(demand, self.now_s)

    def is_resting(self, demand: Demand) -> bool:
        """Whether the demand is not to be placed at all for now.

        What is being taken back may be seen to be free before the writer has said so, and anything was learned from it.
        """
        is_busy = any(self.ledger.in_flight.is_busy(each.metadata.uid) for each in demand.claims)
        return is_busy or self.ledger.lessons.is_resting(demand, self.now_s)


def is_unbound(pod: Pod) -> bool:
    """Whether a pod still waits for its node."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def find_node(claim: Claim) -> str:
    """The node that an allocation is tied to; empty where there is none."""
    allocation = claim.status.allocation
    selector = None if allocation is None else allocation.node_selector
    return "" if selector is None else find_only_node(selector) or ""
