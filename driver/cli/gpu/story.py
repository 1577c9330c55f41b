"""What becomes of a pod or a claim, in one line: where it stands on its way to devices, and what anybody can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.api.fence import CONTROLLER, SCHEDULER
from driver.cli.gpu.fragments import find_allocator
from driver.cli.gpu.holders import allocated_at_s, allocator_of
from driver.cli.gpu.reading import Reading
from driver.cli.gpu.words import count, describe_span_s, join_names
from driver.controller.books.demands import Demand
from driver.controller.books.mirror import Cluster
from driver.controller.books.pods import list_claim_names
from driver.controller.deciding.decision import LeaveAlone, Place, build_fit, decide
from driver.controller.deciding.pod_fit import PodAsk, build_pod_ask
from driver.controller.deciding.question import Question, build_question
from driver.controller.objects.life import ENDED
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import EXTENDED_RESOURCE_ANNOTATION
from driver.controller.objects.pod_use import OF_CLASS, build_pod_use

_CONTROLLER_HINT = "if it stays so, see whether the controller runs and leads: kubectl get leases -A | grep gpu"
_ONLOOKER_HINT = (
    "kube-scheduler keeps even admin access off GPUs of which claims have parts; the controller does not, also on nodes that "
    "are not fenced. Without a controller start monitors before the jobs, or set mig: static there (docs/mig.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Where it stands."""

    state: str
    """As ``ExplainView.state``."""
    summary: str
    advice: tuple[str, ...] = ()
    question: Question | None = None
    """What nodes are to be asked, where something waits for the controller."""
    fit: PodAsk | None = None
    """What the pods ask of nodes, where that is worth looking at."""
    nodes: tuple[str, ...] | None = None
    """The nodes that are worth showing; None is all of them."""


def tell_pod(reading: Reading, pod: Pod, now_s: float) -> Story:
    """The pod's."""
    cluster = reading.cluster
    if not pod.spec.resource_claims:
        return _tell_without_claims(cluster, pod)
    demand = cluster.demand_of(pod.metadata.uid)
    return _tell_still(cluster, pod, now_s) if demand is None else tell_demand(reading, demand, now_s)


def _tell_still(cluster: Cluster, pod: Pod, now_s: float) -> Story:
    """A pod for which nobody has to choose devices now."""
    claims, missing = list_claims(cluster, pod)
    obstacle = cluster.pod_book.find_obstacle(pod)
    if pod.status.phase in ENDED:
        return Story(state="ended", summary=f"the pod has ended ({pod.status.phase}): its claims are freed", nodes=())
    if missing:
        return Story(state="blocked", summary=missing[0][1], advice=(missing[0][2],), nodes=())
    if pod.spec.node_name:
        return _tell_bound(pod, claims)
    if obstacle is not None and not all(claim.status.allocation for claim in claims):
        return Story(state="blocked", summary=f"the pod does not wait for devices now: {obstacle}", nodes=())
    return _tell_allocated(cluster, pod, claims, now_s)


def tell_claim(reading: Reading, claim: Claim, now_s: float) -> Story:
    """The claim's."""
    cluster = reading.cluster
    users = cluster.users(claim)
    if claim.status.allocation is not None:
        return _tell_allocated_claim(cluster, claim, users, now_s)
    if claim.metadata.deletion_timestamp is not None:
        return Story(state="blocked", summary="the claim is being deleted", nodes=())
    demands = [demand for pod in users if (demand := cluster.demand_of(pod.metadata.uid)) is not None]
    if demands:
        return tell_demand(reading, demands[0], now_s)
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        return _tell_extended(cluster, "the claim is for an extended resource of a pod")
    if not users:
        advice = "the controller and kube-scheduler allocate a claim once a pod that names it waits"
        return Story(state="unused", summary="no pod uses the claim", advice=(advice,), nodes=())
    stories = [tell_pod(reading, pod, now_s) for pod in users]
    first = stories[0]
    return Story(state="blocked", summary=f"pod {users[0].metadata.name}: {first.summary}", advice=first.advice, nodes=())


def tell_demand(reading: Reading, demand: Demand, now_s: float) -> Story:
    """What the controller would do about pods and claims that wait."""
    cluster = reading.cluster
    decision = decide(cluster, demand, holds=reading.holds, now_s=now_s)
    hints = (_ONLOOKER_HINT,) if any(cluster.judge.judge(each).is_onlooker for each in demand.claims) else ()
    if isinstance(decision, LeaveAlone):
        who = "somebody has to mend this" if decision.is_fault else "it is kube-scheduler's to allocate"
        advice = (f"{who}; kubectl describe pod {demand.pods[0].metadata.name} has kube-scheduler's view", *hints)
        return Story(state="leftAlone", summary=decision.reason, advice=advice, fit=build_fit(cluster, demand))
    question = build_question(demand, cluster.judge)
    asked = question if isinstance(question, Question) else None
    fit = build_fit(cluster, demand if asked is None else asked.demand)
    if isinstance(decision, Place):
        number = sum(len(grant.allocation.devices.results) for grant in decision.grants)
        summary = f"{count(number, 'device')} can be had now on node {decision.node}: the controller is about to allocate"
        return Story(state="placeable", summary=summary, advice=(_CONTROLLER_HINT, *hints), question=asked, fit=fit)
    return Story(state="waiting", summary=decision.text, advice=hints, question=asked, fit=fit)


def list_claims(cluster: Cluster, pod: Pod) -> tuple[list[Claim], list[tuple[str, str, str]]]:
    """The pod's claims; and of those that are not there the name, why, and what to do."""
    found: list[Claim] = []
    missing: list[tuple[str, str, str]] = []
    for entry, key in list_claim_names(pod):
        claim = None if key is None else cluster.claim_book.find(*key)
        if claim is not None:
            found.append(claim)
        elif key is None:
            template = entry.resource_claim_template_name
            why = f"the claim for {entry.name} is not made yet from ResourceClaimTemplate {template}"
            missing.append((entry.name, why, f"see that it exists: kubectl get resourceclaimtemplate {template}"))
        else:
            why = f"claim {key[1]} does not exist"
            missing.append((key[1], why, "create it, or name another one in a new pod: claims of a pod cannot be changed"))
    return found, missing


def _tell_without_claims(cluster: Cluster, pod: Pod) -> Story:
    extended = cluster.classes.extended_resources
    names = [name for name, _ in build_pod_use(pod).requests if name in extended or name.startswith(OF_CLASS)]
    if names:
        return _tell_extended(cluster, f"the pod asks for {join_names(names)}")
    return Story(state="unused", summary="the pod has no claims: it asks for no device", nodes=())


def _tell_extended(cluster: Cluster, start: str) -> Story:
    """R7: such claims have no tolerations, so fenced devices are not for them."""
    nodes = cluster.fleet.nodes.values()
    free = sum(find_allocator(node) == SCHEDULER for node in nodes)
    fenced = sum(find_allocator(node) == CONTROLLER for node in nodes)
    summary = (
        f"{start}: kube-scheduler makes and allocates the claim for it, and cannot use fenced nodes: "
        f"{count(free, 'node')} of its own, {count(fenced, 'node')} of the controller's"
    )
    advice = "keep unfenced nodes for such pods, or give them a claim of a DeviceClass instead"
    return Story(state="leftAlone", summary=summary, advice=(advice,))


def _tell_bound(pod: Pod, claims: Sequence[Claim]) -> Story:
    devices = sum(len(claim.status.allocation.devices.results) for claim in claims if claim.status.allocation is not None)
    state = "running" if pod.status.phase == "Running" else "allocated"
    verb = "runs" if state == "running" else f"is bound ({pod.status.phase or 'Pending'})"
    return Story(state=state, summary=f"the pod {verb} on node {pod.spec.node_name} with {count(devices, 'device')}", nodes=())


def _tell_allocated(cluster: Cluster, pod: Pod, claims: Sequence[Claim], now_s: float) -> Story:
    """All claims are allocated, and the pod is not bound: perhaps it does not fit there any more."""
    nodes = [node for claim in claims if (node := cluster.claim_book.node_of(claim)) is not None]
    since = max((allocated_at_s(claim) for claim in claims), default=now_s)
    summary = f"its claims are allocated, the last {describe_span_s(now_s - since)} ago; it waits for kube-scheduler to bind it"
    fit = build_pod_ask(pod, cluster.volumes)
    node = nodes[0] if nodes else None
    if node is not None:
        summary += f" to node {node}"
    advice = (
        f"kubectl describe pod {pod.metadata.name} has kube-scheduler's reasons; the controller takes back what stays unused",
    )
    return Story(state="allocated", summary=summary, advice=advice, fit=fit, nodes=() if node is None else (node,))


def _tell_allocated_claim(cluster: Cluster, claim: Claim, users: Sequence[Pod], now_s: float) -> Story:
    node = cluster.claim_book.node_of(claim)
    where = "" if node is None else f" on node {node}"
    allocation = claim.status.allocation
    number = 0 if allocation is None else len(allocation.devices.results)
    ago = describe_span_s(now_s - allocated_at_s(claim))
    summary = f"allocated{where} by {allocator_of(claim)} {ago} ago: {count(number, 'device')}"
    bound = [pod.metadata.name for pod in users if pod.spec.node_name and pod.status.phase not in ENDED]
    if bound:
        return Story(state="running", summary=f"{summary}, used by {join_names(bound)}", nodes=())
    return Story(state="allocated", summary=f"{summary}; no pod that is bound uses it", nodes=())
