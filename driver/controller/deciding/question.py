"""What of a demand is ours to answer: pods that can be served, their claims, and the allocator's problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from driver.allocator.problem import ClaimAsk, Problem
from driver.controller.books.demands import Demand
from driver.controller.books.judge import Judge, Judgement, Whose
from driver.controller.books.pods import ClaimKey, is_made_for, list_claim_names
from driver.controller.objects.model import Claim, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``demand`` has only the pods that can be served, and only claims of ours; ``asks`` and the problem are in their order."""

    demand: Demand
    asks: tuple[ClaimAsk, ...]
    problem: Problem

    count: int
    """Devices that are asked for, at least; admin access takes none."""

    @property
    def looks_on(self) -> bool:
        """Some of it is admin access."""
        return any(each.is_admin for each in self.problem.alternatives())


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuestion:
    """Nothing of the demand is ours to answer."""

    reason: str
    is_fault: bool


def build_question(demand: Demand, judge: Judge) -> Question | NoQuestion:
    """The demand without the pods that cannot be served, and without claims that are kube-scheduler's."""
    judged = {claim.metadata.key: judge.judge(claim) for claim in demand.claims}
    claims = {claim.metadata.key: claim for claim in demand.claims}
    blocks = {pod.metadata.uid: _find_block(pod, claims, judged) for pod in demand.pods}
    pods = tuple(pod for pod in demand.pods if blocks[pod.metadata.uid] is None)
    needed = {key for pod in pods for _, key in list_claim_names(pod)}
    open_ = [key for key in judged if key in needed]
    ours = [key for key in open_ if judged[key].whose is Whose.OURS]
    if not all(pod.is_refused for pod in pods) or len(ours) < len(open_):
        ours = [key for key in ours if not judged[key].is_onlooker]  # kube-scheduler may yet serve it, with the others
    if not ours:
        return next((block for block in blocks.values() if block is not None), _describe_theirs(judged))
    readings = [judged[key].reading for key in ours]
    problem = Problem(claims=tuple(each.part for each in readings if each.part is not None))
    is_whole = len(pods) == len(demand.pods) and len(ours) == len(demand.claims)
    return Question(
        demand=demand if is_whole else replace(demand, pods=pods, claims=tuple(claims[key] for key in ours)),
        asks=tuple(each.ask for each in readings if each.ask is not None),
        problem=problem,
        count=_count(problem),
    )


def build_first(question: Question) -> Question | None:
    """The same for the first of several pods alone, with the claims that it needs; None where it is alone, or needs none.

    Pods that share a claim may be too many for any node at a time. The others then follow where the first one is, as its
    claim's allocation tells them to.
    """
    demand = question.demand
    if len(demand.pods) == 1:
        return None
    names = {key for _, key in list_claim_names(demand.pods[0])}
    kept = [number for number, claim in enumerate(demand.claims) if claim.metadata.key in names]
    if not kept:
        return None
    problem = Problem(claims=tuple(question.problem.claims[number] for number in kept))
    return Question(
        demand=replace(demand, pods=demand.pods[:1], claims=tuple(demand.claims[number] for number in kept)),
        asks=tuple(question.asks[number] for number in kept),
        problem=problem,
        count=_count(problem),
    )


def _count(problem: Problem) -> int:
    alternatives = (request.alternatives for claim in problem.claims for request in claim.requests)
    return sum(min(0 if each.is_admin else each.count or 1 for each in row) for row in alternatives)


def _find_block(pod: Pod, claims: Mapping[ClaimKey, Claim], judged: Mapping[ClaimKey, Judgement]) -> NoQuestion | None:
    """Why the pod cannot be served, None where it can."""
    if pod.spec.scheduling_group is not None:
        reason = f"pod {pod.metadata.name} is in a pod group: kube-scheduler places these together (not supported)"
        return NoQuestion(reason=reason, is_fault=False)
    for entry, key in list_claim_names(pod):
        if key is None or key not in judged:
            continue
        if entry.resource_claim_template_name is not None and not is_made_for(claims[key], (pod.metadata.uid,)):
            return NoQuestion(reason=f"claim {key[1]} was not made for pod {pod.metadata.name}", is_fault=True)
        if judged[key].whose is Whose.NOBODYS:
            return NoQuestion(reason=judged[key].reason, is_fault=judged[key].is_fault)
    return None


def _describe_theirs(judged: Mapping[ClaimKey, Judgement]) -> NoQuestion:
    reasons = [each.reason for each in judged.values() if each.reason]
    return NoQuestion(reason=reasons[0] if reasons else "no claim is needed", is_fault=False)
