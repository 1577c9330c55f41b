"""Claims as ``kubectl gpu status`` tells them: which are looked at, how their devices are, which wait."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from driver.allocator.device_node import DeviceId
from driver.api.claim_status_v1 import DeviceStatus
from driver.api.resource_v1 import AllocationResult
from driver.cli.gpu.fleet_reading import FleetReading
from driver.cli.gpu.gpu_names import name_gpu
from driver.cli.gpu.holders import allocated_at_s, allocator_of
from driver.cli.gpu.status_views import (
    ClaimStatusView,
    ConditionView,
    HeldDeviceView,
    SubjectView,
    TroubleView,
    WaitView,
)
from driver.cli.gpu.words import describe_requests
from driver.controller.books.pods import list_claim_names
from driver.controller.objects.life import ENDED, format_time
from driver.controller.objects.model import Claim
from driver.controller.objects.ownership import is_pod
from driver.errors import NotFound

NODE, POD, CLAIM = "node", "pod", "claim"
_KINDS = {
    **dict.fromkeys(("node", "nodes", "no"), NODE),
    **dict.fromkeys(("pod", "pods", "po"), POD),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), CLAIM),
}


def find_subject(reading: FleetReading, namespace: str, named: str) -> SubjectView:
    """What ``named`` means: ``node/NAME``, ``pod/NAME``, ``claim/NAME``, or a name, which is a node's, a pod's, a claim's.

    Raises:
        NotFound: there is none, or it may not be read; says what there is of nearly that name.
    """
    prefix, slash, name = named.rpartition("/")
    kind = _KINDS.get(prefix.lower()) if slash else None
    if slash and kind is None:
        raise NotFound(f"status {named}", 0, f"{prefix!r} is no kind that has devices: node/{name}, pod/{name} or claim/{name}")
    if kind in (None, NODE) and name in list_nodes(reading):
        return SubjectView(kind=NODE, namespace="", name=name)
    if kind in (None, POD) and (namespace, name) in reading.pods:
        return SubjectView(kind=POD, namespace=namespace, name=name)
    if kind in (None, CLAIM) and reading.cluster.claim_book.find(namespace, name) is not None:
        return SubjectView(kind=CLAIM, namespace=namespace, name=name)
    raise NotFound(f"status {named}", 0, _describe_absent(reading, namespace, name, kind))


def list_nodes(reading: FleetReading) -> set[str]:
    """All nodes with devices of the driver, also where nothing can be had of them now."""
    left_out = (name for each in reading.cluster.pools_left_out.values() for name in each.nodes)
    return {*reading.cluster.fleet.nodes, *left_out}


def choose_claims(reading: FleetReading, subject: SubjectView | None) -> list[Claim]:
    """The claims to look at, by name: those of the subject; without one, those of which nodes say something."""
    claims, book = reading.cluster.claims.values(), reading.cluster.claim_book
    found: Iterable[Claim | None]
    if subject is None:
        found = (each for each in claims if each.metadata.uid in reading.statuses)
    elif subject.kind == NODE:
        found = (each for each in claims if _is_on(reading, each, subject.name))
    elif subject.kind == POD:
        pod = reading.pods[subject.namespace, subject.name]
        found = (book.find(*key) for _, key in list_claim_names(pod) if key is not None)
    else:
        found = (book.find(subject.namespace, subject.name),)
    return sorted((each for each in found if each is not None), key=lambda each: each.metadata.key)


def build_claim(reading: FleetReading, claim: Claim, troubles: Iterable[TroubleView]) -> ClaimStatusView:
    """The claim with its devices; ``troubles`` are those of the fleet."""
    allocation = claim.status.allocation
    statuses = {DeviceId(each.driver, each.pool, each.device): each for each in reading.statuses.get(claim.metadata.uid, ())}
    known = list(troubles) if allocation is not None else []
    results = () if allocation is None else allocation.devices.results
    return ClaimStatusView(
        claim=claim.metadata.full_name,
        state="waiting" if allocation is None else "allocated",
        node=reading.cluster.claim_book.node_of(claim),
        since=None if allocation is None else format_time(allocated_at_s(claim)),
        allocator=None if allocation is None else allocator_of(claim),
        pods=tuple(sorted(each.name for each in claim.status.reserved_for if is_pod(each))),
        devices=tuple(_build_device(reading, each, statuses, known) for each in results),
    )


def is_unwell(device: HeldDeviceView) -> bool:
    """Whether the node says that a claim's device is not as it should be."""
    return any(each.status == "False" for each in device.conditions)


def list_waiting(reading: FleetReading) -> list[WaitView]:
    """Claims without devices that ask for some of the driver's, and whose pods have not ended; the oldest first."""
    return sorted(_list_waiting(reading), key=lambda each: (each.since, each.claim))


def _list_waiting(reading: FleetReading) -> Iterator[WaitView]:
    cluster = reading.cluster
    for claim in cluster.claims.values():
        if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
            continue
        judgement = cluster.judge.judge(claim) if reading.are_classes_known else None
        pods = [each for each in cluster.users(claim) if each.status.phase not in ENDED]
        if (judgement is not None and judgement.is_foreign) or (not pods and cluster.users(claim)):
            continue
        times = [each.metadata.creation_timestamp for each in pods] or [claim.metadata.creation_timestamp]
        yield WaitView(
            claim=claim.metadata.full_name,
            pods=tuple(sorted(each.metadata.name for each in pods)),
            since=min(times),
            requests=describe_requests(claim),
            fault=judgement.reason if judgement is not None and judgement.is_fault else "",
        )


def _is_on(reading: FleetReading, claim: Claim, node: str) -> bool:
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return any(reading.cluster.fleet.node_of(DeviceId(each.driver, each.pool, each.device)) == node for each in results)


def _build_device(
    reading: FleetReading,
    result: AllocationResult,
    statuses: Mapping[DeviceId, DeviceStatus],
    troubles: Sequence[TroubleView],
) -> HeldDeviceView:
    id_ = DeviceId(result.driver, result.pool, result.device)
    node = reading.cluster.fleet.nodes.get(reading.cluster.fleet.node_of(id_) or "")
    at = None if node is None else node.positions.get(id_)
    name = id_.device if node is None or at is None else name_gpu(node, at)
    gpu = None if node is None else node.positions.get(id_._replace(device=name))
    return HeldDeviceView(
        request=result.request,
        driver=id_.driver,
        pool=id_.pool,
        device=id_.device,
        node=None if node is None else node.name,
        gpu=gpu,
        is_admin=bool(result.admin_access),
        troubles=()
        if node is None
        else tuple(
            each
            for each in troubles
            if each.node == node.name and (each.device == id_.device or (gpu is not None and each.gpu == gpu))
        ),
        conditions=_build_conditions(statuses.get(id_)),
    )


def _build_conditions(status: DeviceStatus | None) -> tuple[ConditionView, ...]:
    return tuple(
        ConditionView(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            since=each.last_transition_time or None,
        )
        for each in (() if status is None else status.conditions)
    )


def _describe_absent(reading: FleetReading, namespace: str, name: str, kind: str | None) -> str:
    claims = [each.metadata.key for each in reading.cluster.claims.values()]
    spaced = [*(reading.pods if kind in (None, POD) else ()), *(claims if kind in (None, CLAIM) else ())]
    nodes = list_nodes(reading) if kind in (None, NODE) else set()
    near = difflib.get_close_matches(name, [*nodes, *(each for space, each in spaced if space == namespace)], n=1)
    elsewhere = sorted({space for space, each in spaced if each == name})
    hint = "kubectl gpu status shows all nodes"
    if elsewhere:
        hint = f"there is one in namespace {elsewhere[0]}: -n {elsewhere[0]}"
    elif near:
        hint = f"did you mean {near[0]}?"
    elif kind == NODE and name in reading.cluster.nodes:
        hint = f"the node is there, but has no devices of {reading.cluster.driver}: does its kubelet plugin run?"
    what = {None: "no node, pod or claim", NODE: "no node with devices", POD: "no pod", CLAIM: "no claim"}[kind]
    where = "" if kind == NODE else f" in namespace {namespace}"
    return f"there is {what} {name}{where}; {hint}"
