"""Everything that ``kubectl gpu explain`` says of a pod or a claim."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from driver.allocator.device_node import DeviceId, DeviceNode
from driver.api.resource_v1 import AllocationResult
from driver.cli.gpu.answers import Asker, build_answers, build_bare_answers
from driver.cli.gpu.fragments import name_product
from driver.cli.gpu.gpu_names import name_gpu
from driver.cli.gpu.holders import allocated_at_s, allocator_of
from driver.cli.gpu.reading import Reading, SeenEvent
from driver.cli.gpu.sets import number_islands
from driver.cli.gpu.story import Story, list_claims, tell_claim, tell_pod
from driver.cli.gpu.views import ClaimView, DeviceView, EventView, ExplainView, NodeAnswer, PodView
from driver.cli.gpu.words import describe_links, describe_policy, describe_requests
from driver.controller.books.mirror import Cluster
from driver.controller.objects.life import format_time
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import is_pod
from driver.errors import NotFound

POD, CLAIM = "pod", "claim"
_KINDS = {"pod": POD, "pods": POD, "po": POD, "claim": CLAIM, "resourceclaim": CLAIM, "resourceclaims": CLAIM}
_MOST_EVENTS = 10
_REASONS = frozenset(
    {
        "FailedScheduling",
        "FailedPrepareDynamicResources",
        "FailedResourceClaimCreation",
        "Preempted",
        "DeviceTaintManagerEviction",
    }
)
"""Of kube-scheduler, the kubelet and kube-controller-manager."""


def find_subject(reading: Reading, namespace: str, named: str) -> Pod | Claim:
    """The pod or the claim that ``named`` means: ``pod/NAME``, ``claim/NAME``, or a name, which is a pod's first.

    Raises:
        NotFound: there is none; says what there is of nearly that name.
    """
    prefix, slash, name = named.rpartition("/")
    kind = _KINDS.get(prefix.lower()) if slash else None
    if slash and kind is None:
        raise NotFound(f"explain {named}", 0, f"{prefix} is no kind that has devices: pod/{name} or claim/{name}")
    pod = reading.pods.get((namespace, name)) if kind in (None, POD) else None
    if pod is not None:
        return pod
    claim = reading.cluster.claim_book.find(namespace, name) if kind in (None, CLAIM) else None
    if claim is not None:
        return claim
    raise NotFound(f"explain {named}", 0, _describe_absent(reading, namespace, name, kind))


def list_uids(reading: Reading, subject: Pod | Claim) -> tuple[str, ...]:
    """The objects whose events are worth reading: the subject, and a pod's claims."""
    claims = list_claims(reading.cluster, subject)[0] if isinstance(subject, Pod) else []
    return (subject.metadata.uid, *(each.metadata.uid for each in claims))


def build_explanation(reading: Reading, subject: Pod | Claim, events: Iterable[SeenEvent], now_s: float) -> ExplainView:
    """The subject, its claims or the pods that use it, and what each node says."""
    cluster = reading.cluster
    if isinstance(subject, Pod):
        claims, missing = list_claims(cluster, subject)
        story = tell_pod(reading, subject, now_s)
        pods = (subject, *_list_partners(story, subject))
    else:
        claims, missing = [subject], []
        story = tell_claim(reading, subject, now_s)
        pods = cluster.users(subject)
    return ExplainView(
        kind=POD if isinstance(subject, Pod) else CLAIM,
        namespace=subject.metadata.namespace,
        name=subject.metadata.name,
        state=story.state,
        summary=story.summary,
        advice=story.advice,
        pods=tuple(_build_pod(cluster, pod) for pod in pods),
        claims=(*_build_claims(cluster, claims), *(_build_missing(name, subject) for name, _, _ in missing)),
        nodes=_build_nodes(reading, story, now_s),
        events=tuple(_build_event(each) for each in _choose_events(events, cluster.driver)),
        notes=reading.notes,
    )


def _build_nodes(reading: Reading, story: Story, now_s: float) -> tuple[NodeAnswer, ...]:
    cluster = reading.cluster
    if story.nodes == ():
        return ()
    if story.question is not None and story.fit is not None:
        answers = build_answers(Asker(reading=reading, question=story.question, fit=story.fit, now_s=now_s))
    else:
        answers = build_bare_answers(cluster, now_s, story.fit)
    return answers if story.nodes is None else tuple(each for each in answers if each.node in story.nodes)


def _list_partners(story: Story, pod: Pod) -> list[Pod]:
    """Other pods that are placed together with it."""
    if story.question is None:
        return []
    return [each for each in story.question.demand.pods if each.metadata.uid != pod.metadata.uid]


def _build_pod(cluster: Cluster, pod: Pod) -> PodView:
    return PodView(
        pod=pod.metadata.name,
        phase=pod.status.phase or "Pending",
        node=pod.spec.node_name or None,
        since=pod.metadata.creation_timestamp,
        state=cluster.pod_book.find_obstacle(pod) or "",
    )


def _build_claims(cluster: Cluster, claims: Iterable[Claim]) -> Iterator[ClaimView]:
    for claim in claims:
        allocation = claim.status.allocation
        part = cluster.judge.judge(claim).reading.part
        requests = describe_requests(claim)
        policy = "" if part is None else describe_policy(part)
        devices = () if allocation is None else allocation.devices.results
        views = tuple(_build_device(cluster, each) for each in devices)
        yield ClaimView(
            claim=claim.metadata.full_name,
            state="waiting" if allocation is None else "allocated",
            requests=(*requests, policy) if policy else requests,
            allocator=None if allocation is None else allocator_of(claim),
            since=None if allocation is None else format_time(allocated_at_s(claim)),
            node=cluster.claim_book.node_of(claim),
            devices=views,
            quality=_describe_quality(cluster, [DeviceId(each.driver, each.pool, each.device) for each in devices]),
            pods=tuple(sorted(each.name for each in claim.status.reserved_for if is_pod(each))),
        )


def _build_missing(name: str, pod: Pod | Claim) -> ClaimView:
    return ClaimView(
        claim=f"{pod.metadata.namespace}/{name}",
        state="missing",
        requests=(),
        allocator=None,
        since=None,
        node=None,
        devices=(),
        quality="",
        pods=(pod.metadata.name,),
    )


def _build_device(cluster: Cluster, result: AllocationResult) -> DeviceView:
    id_ = DeviceId(result.driver, result.pool, result.device)
    node = _node_of(cluster, id_)
    at = None if node is None else node.positions.get(id_)
    gpu = island = None
    product = ""
    if node is not None and at is not None:
        product = name_product([node.devices[at]])
        gpu = node.positions.get(id_._replace(device=name_gpu(node, at)))
        if node.whole >> at & 1:
            island = number_islands(node.values_of(f"{cluster.driver}/nvlinkIsland"), node.whole)[at]
    return DeviceView(
        request=result.request,
        driver=id_.driver,
        pool=id_.pool,
        device=id_.device,
        gpu=gpu,
        is_admin=bool(result.admin_access),
        product=product,
        island=island,
    )


def _describe_quality(cluster: Cluster, ids: Sequence[DeviceId]) -> str:
    nodes = {node.name: node for id_ in ids if (node := _node_of(cluster, id_)) is not None}
    if len(nodes) != 1:
        return ""
    node = next(iter(nodes.values()))
    return describe_links(node, sum({1 << node.positions[id_] for id_ in ids if id_ in node.positions}))


def _node_of(cluster: Cluster, id_: DeviceId) -> DeviceNode | None:
    name = cluster.fleet.node_of(id_)
    return None if name is None else cluster.fleet.nodes.get(name)


def _choose_events(events: Iterable[SeenEvent], driver: str) -> list[SeenEvent]:
    """What has to do with devices: what we say, and what keeps a pod or its claims from going on."""
    return [each for each in events if each.reporter.startswith(f"{driver}/") or each.reason in _REASONS][:_MOST_EVENTS]


def _build_event(event: SeenEvent) -> EventView:
    return EventView(time=event.time, reason=event.reason, note=event.note, reporter=event.reporter)


def _describe_absent(reading: Reading, namespace: str, name: str, kind: str | None) -> str:
    pods = list(reading.pods) if kind in (None, POD) else []
    claims = [each.metadata.key for each in reading.cluster.claims.values()]
    known = [*pods, *(claims if kind in (None, CLAIM) else [])]
    what = f"no {kind}" if kind is not None else "no pod and no claim"
    elsewhere = sorted({space for space, each in known if each == name})
    near = difflib.get_close_matches(name, [each for space, each in known if space == namespace], n=1)
    hint = "; kubectl get pods,resourceclaims shows what there is"
    if elsewhere:
        hint = f"; there is one in namespace {elsewhere[0]}: -n {elsewhere[0]}"
    elif near:
        hint = f"; did you mean {near[0]}?"
    return f"there is {what} {name} in namespace {namespace}{hint}"
