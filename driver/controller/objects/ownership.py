"""How an allocation is known to be ours: we never take back what somebody else allocated.

The main object gets an annotation with a digest of the devices before the status gets the allocation. The allocation is ours if
and only if the two agree: kube-scheduler, when it is quicker, leaves an annotation that fits nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from driver.api.resource_v1 import AllocationResult
from driver.controller.objects.model import Claim, Consumer, Pod

ALLOCATION_ANNOTATION = "gpu-dra.io/allocation"
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""On claims that kube-scheduler makes and allocates, for pods that ask by a resource's name."""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""With it kube-controller-manager frees the claim after its last pod (R5); kube-scheduler sets the same."""

GUARD_GROUP = "gpu-dra.io"
GUARD_RESOURCE = "allocations"
GUARD_NAME = "guard"
RESERVED_FOR_MAX = 256


def digest_allocation(results: Iterable[AllocationResult]) -> str:
    """16 hex digits over the devices, in whatever order they come."""
    lines = sorted("\0".join((each.driver, each.pool, each.device, each.share_id or "")) for each in results)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_mark(claim: Claim) -> str | None:
    """The digest of the allocation that we wrote, or were about to; None where there is none."""
    return claim.metadata.annotations.get(ALLOCATION_ANNOTATION)


def is_ours(claim: Claim) -> bool:
    """Whether the claim has an allocation, and we wrote it."""
    allocation = claim.status.allocation
    return allocation is not None and read_mark(claim) == digest_allocation(allocation.devices.results)


def build_guard(claim_uid: str) -> Consumer:
    """The entry that keeps kube-scheduler from taking a claim back while its pod's other claims are written (R6)."""
    return Consumer(api_group=GUARD_GROUP, resource=GUARD_RESOURCE, name=GUARD_NAME, uid=claim_uid)


def is_guard(consumer: Consumer) -> bool:
    """Whether an entry is our guard."""
    return consumer.api_group == GUARD_GROUP and consumer.resource == GUARD_RESOURCE


def has_guard(claim: Claim) -> bool:
    """Whether a guard is on the claim: it is being written, or taken back, or a leader died over it."""
    return any(is_guard(each) for each in claim.status.reserved_for)


def is_pod(consumer: Consumer) -> bool:
    """Whether an entry is a pod."""
    return not consumer.api_group and consumer.resource == "pods"


def build_consumer(pod: Pod) -> Consumer:
    """The entry for a pod."""
    return Consumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def merge_consumers(first: Iterable[Consumer], second: Iterable[Consumer]) -> tuple[Consumer, ...]:
    """Both, each uid once, as many as the API takes."""
    by_uid = {each.uid: each for each in (*first, *second)}
    return tuple(by_uid.values())[:RESERVED_FOR_MAX]
