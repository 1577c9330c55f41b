"""Pods, nodes, claims and classes as the mirror keeps them: what no decision reads is dropped.

Each reduction belongs to the thread of one watch.
"""

from __future__ import annotations

from sys import intern
from typing import Any, TypeVar

import msgspec

from driver.api.fence import DRAINED_ANNOTATION
from driver.api.resource_v1 import AllocationResult
from driver.controller.objects.life import ENDED
from driver.controller.objects.model import (
    UNSCHEDULABLE,
    AllocatedDevices,
    Allocation,
    Claim,
    ClaimStatus,
    DeviceClass,
    Meta,
    Node,
    NodeMeta,
    NodeSelector,
    NodeStatus,
    Pod,
    PodMeta,
    PodSpec,
)
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, EXTENDED_RESOURCE_ANNOTATION
from driver.controller.objects.sharing import NOTHING, Shared

_NO_SPEC = msgspec.Raw(b"{}")
_CLAIM_ANNOTATIONS = frozenset({ALLOCATION_ANNOTATION, EXTENDED_RESOURCE_ANNOTATION})
_NODE_ANNOTATIONS = frozenset({DRAINED_ANNOTATION})
_REFUSED = (UNSCHEDULABLE,)
_MOST_NODES = 1 << 16
_MOST_KEYS = 256
"""Of labels whose values are shared."""
Part = TypeVar("Part")


class PodReduction:
    """Pods: one that is bound keeps what it takes of its node, and its claims; one that has ended only its claims."""

    def __init__(self) -> None:
        self._parts: Shared[Any] = Shared()

    def __call__(self, pod: Pod) -> Pod:
        """The pod without what no decision reads."""
        spec, status, meta = pod.spec, pod.status, pod.metadata
        is_waiting = not spec.node_name and status.phase not in ENDED
        return Pod(
            metadata=PodMeta(
                name=meta.name,
                namespace=intern(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=meta.creation_timestamp,
                deletion_timestamp=meta.deletion_timestamp,
            ),
            spec=self._reduce_waiting(spec) if is_waiting else self._reduce_settled(spec, has_ended=status.phase in ENDED),
            status=msgspec.structs.replace(
                status, phase=intern(status.phase), conditions=_REFUSED if is_waiting and pod.is_refused else ()
            ),
        )

    def _reduce_waiting(self, spec: PodSpec) -> PodSpec:
        return msgspec.structs.replace(
            spec,
            containers=self._share("containers", spec.containers),
            init_containers=self._share("init_containers", spec.init_containers),
            tolerations=self._share("tolerations", spec.tolerations),
            affinity=self._share("affinity", spec.affinity),
        )

    def _reduce_settled(self, spec: PodSpec, *, has_ended: bool) -> PodSpec:
        """Where it may run is no question any more."""
        return PodSpec(
            node_name=intern(spec.node_name),
            scheduler_name=intern(spec.scheduler_name),
            node_selector=NOTHING,
            priority=spec.priority,
            containers=() if has_ended else self._share("containers", spec.containers),
            init_containers=() if has_ended else self._share("init_containers", spec.init_containers),
            overhead=NOTHING if has_ended else self._share("overhead", spec.overhead) or NOTHING,
            resources=None if has_ended else self._share("resources", spec.resources),
            resource_claims=spec.resource_claims,
            scheduling_group=spec.scheduling_group,
        )

    def _share(self, kind: str, part: Part) -> Part:
        shared: Part = self._parts.of((kind, msgspec.json.encode(part)), part) if part else part
        return shared


class NodeReduction:
    """Nodes: of the annotations only ours."""

    def __init__(self) -> None:
        self._values: dict[str, Shared[str]] = {}
        self._parts: Shared[Any] = Shared()

    def __call__(self, node: Node) -> Node:
        """The node without what no decision reads."""
        meta = node.metadata
        annotations = {key: value for key, value in meta.annotations.items() if key in _NODE_ANNOTATIONS}
        allocatable = node.status.allocatable
        return Node(
            metadata=NodeMeta(
                name=intern(meta.name),
                uid=meta.uid,
                resource_version=meta.resource_version,
                deletion_timestamp=meta.deletion_timestamp,
                labels={intern(key): self._share_label(key, value) for key, value in meta.labels.items()},
                annotations=annotations or NOTHING,
            ),
            spec=node.spec,
            status=NodeStatus(allocatable=self._parts.of(msgspec.json.encode(allocatable), allocatable)),
        )

    def _share_label(self, key: str, value: str) -> str:
        shared = self._values.get(key)
        if shared is None:
            if len(self._values) >= _MOST_KEYS:
                return value
            shared = self._values[key] = Shared()
        return shared.of(value, value)


class ClaimReduction:
    """Claims: what one asks for is kept until it is allocated, what it has after that."""

    def __init__(self) -> None:
        self._selectors: Shared[NodeSelector] = Shared(_MOST_NODES)

    def __call__(self, claim: Claim) -> Claim:
        """The claim without what no decision reads."""
        meta, allocation = claim.metadata, claim.status.allocation
        annotations = {key: value for key, value in meta.annotations.items() if key in _CLAIM_ANNOTATIONS}
        return Claim(
            metadata=Meta(
                name=meta.name,
                namespace=intern(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=meta.creation_timestamp,
                deletion_timestamp=meta.deletion_timestamp,
                labels=NOTHING,
                annotations=annotations or NOTHING,
                owner_references=meta.owner_references,
                finalizers=tuple([intern(each) for each in meta.finalizers]),
            ),
            # a Raw is a view of the whole answer that it came in, and would keep it
            spec=claim.spec.copy() if allocation is None else _NO_SPEC,
            status=ClaimStatus(
                allocation=None if allocation is None else self._reduce_allocation(allocation),
                reserved_for=claim.status.reserved_for,
            ),
        )

    def _reduce_allocation(self, allocation: Allocation) -> Allocation:
        selector = allocation.node_selector
        results = tuple([_reduce_result(each) for each in allocation.devices.results])
        return Allocation(
            devices=AllocatedDevices(results=results),
            node_selector=None if selector is None else self._selectors.of(selector, selector),
            allocation_timestamp=allocation.allocation_timestamp,
        )


def _reduce_result(result: AllocationResult) -> AllocationResult:
    return msgspec.structs.replace(
        result,
        request=intern(result.request),
        driver=intern(result.driver),
        pool=intern(result.pool),
        device=intern(result.device),
        consumed_capacity=result.consumed_capacity or NOTHING,
    )


def reduce_class(item: DeviceClass) -> DeviceClass:
    """A class with a spec of its own, which does not keep the answer that it came in."""
    return msgspec.structs.replace(item, spec=item.spec.copy())
