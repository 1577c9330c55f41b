"""Pods, nodes, claims and classes as the controller reads them: lean, only what a decision uses.

What is not named here is skipped while the answer is decoded and never costs memory. Specs of claims and classes stay as they
came (``Raw``), because they are decoded whole or not at all (R14). Source: k8s.io/api v0.37.2.
"""

from __future__ import annotations

from typing import Any

import msgspec

from driver.api.meta_v1 import OwnerReference
from driver.api.resource_v1 import GROUP_VERSION, AllocationResult
from driver.kube.resources import Resource


class Lean(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):  # values of trees: no cycles to collect
    """Base of all: frozen, defaults stay off the wire, unknown fields are skipped."""


class PodMeta(Lean, frozen=True, kw_only=True):
    """A pod's metadata: without what nobody asks for here (managed fields are half of many objects)."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Meta(PodMeta, frozen=True, kw_only=True):
    """Metadata of an object that is written to, or read more closely."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Requirement(Lean, frozen=True, kw_only=True):
    """One expression of a node selector: over labels, or over fields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class SelectorTerm(Lean, frozen=True, kw_only=True):
    """All of its expressions must hold; one without any selects nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Lean, frozen=True, kw_only=True):
    """One of the terms must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] = ()


class NodeAffinity(Lean, frozen=True, kw_only=True):
    """Only what is required: preferences are kube-scheduler's."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(Lean, frozen=True, kw_only=True):
    """A pod's affinity to nodes; that to pods is not modelled, it is learned when the scheduler takes back."""

    node_affinity: NodeAffinity | None = None


class HostPort(Lean, frozen=True, kw_only=True):
    """A container's port; 0 is none on the host."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Resources(Lean, frozen=True, kw_only=True):
    """Requests as quantities by resource name."""

    requests: dict[str, str] = {}


class Container(Lean, frozen=True, kw_only=True):
    """A container: an init container with ``restart_policy`` ``Always`` is a sidecar."""

    resources: Resources = Resources()
    ports: tuple[HostPort, ...] = ()
    restart_policy: str = ""


class PodClaim(Lean, frozen=True, kw_only=True):
    """A claim that a pod names: an existing one, or one made for it from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimVolume(Lean, frozen=True, kw_only=True):
    """A volume's PersistentVolumeClaim."""

    claim_name: str


class Volume(Lean, frozen=True, kw_only=True):
    """A volume; all but PersistentVolumeClaims fit everywhere. An ephemeral one is a claim named ``<pod>-<volume>``."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: dict[str, Any] | None = None


class SchedulingGate(Lean, frozen=True, kw_only=True):
    """What keeps a pod from being scheduled at all."""

    name: str


class PodToleration(Lean, frozen=True, kw_only=True):
    """Which taints of nodes a pod puts up with. Not decoded whole, as a claim's are: one odd pod must not hide all others."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSpec(Lean, frozen=True, kw_only=True):
    """What decides where a pod may run."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: dict[str, Any] | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[PodToleration, ...] = ()
    priority: int = 0
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] = {}
    resources: Resources | None = None
    resource_claims: tuple[PodClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodClaimStatus(Lean, frozen=True, kw_only=True):
    """Which claim was made for an entry of the pod; none where none was needed."""

    name: str
    resource_claim_name: str | None = None


class PodCondition(Lean, frozen=True, kw_only=True):
    """One thing that is true of a pod, or false."""

    type: str
    status: str = ""
    reason: str = ""


class PodStatus(Lean, frozen=True, kw_only=True):
    """How far a pod is. Of the conditions the mirror keeps the one that says that kube-scheduler found no node."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()


UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


class Pod(Lean, frozen=True, kw_only=True):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_refused(self) -> bool:
        """kube-scheduler has looked for a node and found none."""
        return UNSCHEDULABLE in self.status.conditions


class NodeTaint(Lean, frozen=True, kw_only=True):
    """A node's taint."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Lean, frozen=True, kw_only=True):
    """What keeps pods off a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(Lean, frozen=True, kw_only=True):
    """What a node has."""

    allocatable: dict[str, str] = {}


class NodeMeta(Lean, frozen=True, kw_only=True):
    """A node's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Node(Lean, frozen=True, kw_only=True):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Consumer(Lean, frozen=True, kw_only=True):
    """An entry of ``reservedFor``: a pod (``apiGroup`` empty, ``resource`` pods), or something else that keeps the claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class AllocatedDevices(Lean, frozen=True, kw_only=True):
    """The devices of an allocation; its configs are the node's business."""

    results: tuple[AllocationResult, ...] = ()


class Allocation(Lean, frozen=True, kw_only=True):
    """``status.allocation``, as far as the controller reads it."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimStatus(Lean, frozen=True, kw_only=True):
    """``status`` of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Claim(Lean, frozen=True, kw_only=True):
    """A ResourceClaim; ``spec`` is decoded by ``driver.api.claim_spec_v1.decode_claim_spec``."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: ClaimStatus = ClaimStatus()


class DeviceClass(Lean, frozen=True, kw_only=True):
    """A DeviceClass; ``spec`` is decoded by ``driver.api.claim_spec_v1.decode_class_spec``."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


CLAIMS = Resource(group_version=GROUP_VERSION, plural="resourceclaims", type_=Claim)
CLASSES = Resource(group_version=GROUP_VERSION, plural="deviceclasses", type_=DeviceClass)
PODS = Resource(group_version="v1", plural="pods", type_=Pod)
NODES = Resource(group_version="v1", plural="nodes", type_=Node)
