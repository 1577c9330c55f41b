"""What ``kubectl gpu status`` and ``topology`` read: slices, and all else as far as one may.

Nobody is turned away for a right that only a part of the answer needs. What may not be listed is named, with what is not known
because of it; what one has in one's own namespace is read instead of the whole cluster's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from driver.api.claim_status_v1 import Condition, DeviceStatus
from driver.cli.gpu.reading import list_needed, tell
from driver.controller.books.mirror import Cluster
from driver.controller.objects.model import CLAIMS, CLASSES, NODES, PODS, Claim, ClaimStatus, Node, NodeStatus, Pod
from driver.controller.objects.taint_rules import OLDER_TAINT_RULES, TAINT_RULES, DeviceTaintRule
from driver.errors import Forbidden, NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_SLICES, KubeObject, Resource, Selection

T = TypeVar("T", bound=KubeObject)


class SeenClaimStatus(ClaimStatus, frozen=True, kw_only=True):
    """With what the controller does not read."""

    devices: tuple[DeviceStatus, ...] = ()


class SeenClaim(Claim, frozen=True, kw_only=True):
    """A claim with what its nodes say of its devices."""

    status: SeenClaimStatus = SeenClaimStatus()


class SeenNodeStatus(NodeStatus, frozen=True, kw_only=True):
    """With what the controller does not read."""

    conditions: tuple[Condition, ...] = ()


class SeenNode(Node, frozen=True, kw_only=True):
    """A node with its conditions."""

    status: SeenNodeStatus = SeenNodeStatus()


_SEEN_CLAIMS = Resource(group_version=CLAIMS.group_version, plural=CLAIMS.plural, type_=SeenClaim)
_SEEN_NODES = Resource(group_version=NODES.group_version, plural=NODES.plural, type_=SeenNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReading:
    """What was read."""

    cluster: Cluster
    pods: Mapping[tuple[str, str], Pod] = field(default_factory=dict)
    """By namespace and name."""
    rules: tuple[DeviceTaintRule, ...] = ()
    statuses: Mapping[str, tuple[DeviceStatus, ...]] = field(default_factory=dict)
    """What nodes say of a claim's devices, by the claim's uid."""
    not_ready: frozenset[str] = frozenset()
    """Nodes that say they are not ready, or that nobody has heard of for a while."""
    are_claims_known: bool = True
    """All of them: else nobody can say which GPUs are free."""
    are_classes_known: bool = True
    notes: tuple[str, ...] = ()
    """What could not be read, and what follows from that."""


def read_fleet(client: KubeClient, driver: str, schedulers: frozenset[str], namespace: str) -> FleetReading:
    """List what there is. ``namespace`` is where to look for claims and pods if not everywhere.

    Raises:
        ApiError: the cluster does not answer, or does not let us list slices: without them nothing can be said.
    """
    listing = _Listing(client, namespace)
    slices = _list_slices(client)
    cluster = Cluster(driver, schedulers=schedulers)
    classes = listing.list(CLASSES, "which claims are for GPUs is not known: all that wait are shown")
    rules = listing.list(TAINT_RULES, "taints of rules are not seen: a GPU may look fit and not be", older=OLDER_TAINT_RULES)
    nodes = listing.list(_SEEN_NODES, "whether nodes are ready or cordoned is not known")
    claims = listing.list(_SEEN_CLAIMS, "who has which GPU, and so what is free, is not known")
    pods = listing.list(PODS, "which pods wait is not known")
    for items, note in (
        (classes, cluster.note_class),
        (rules, cluster.note_rule),
        (nodes, cluster.note_node),
        (slices, cluster.note_slice),
        (claims, cluster.note_claim),
        (pods, cluster.note_pod),
    ):
        tell(items, note)
    return FleetReading(
        cluster=cluster,
        pods={each.metadata.key: each for each in pods},
        rules=tuple(rules),
        statuses={each.metadata.uid: each.status.devices for each in claims if each.status.devices},
        not_ready=frozenset(each.metadata.name for each in nodes if not _is_ready(each)),
        are_claims_known=CLAIMS.plural not in listing.refused,
        are_classes_known=CLASSES.plural not in listing.refused,
        notes=tuple(listing.notes),
    )


class _Listing:
    """Lists what it may, and keeps what it may not."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.refused: set[str] = set()
        self.notes: list[str] = []

    def list(self, resource: Resource[T], without: str, *, older: Resource[T] | None = None) -> Sequence[T]:
        """All of a kind; where that is not allowed those of the own namespace, or none. One that is not served has none.

        ``older``: the same in another version of the API, where the first is not served.
        """
        try:
            return self._client.list_all(resource).items
        except NotFound:
            return () if older is None else self.list(older, without)
        except Forbidden as err:
            if err.status == 401:  # the credentials are wrong, which no other list will mend
                raise
            self.refused.add(resource.plural)
        own = self._list_own(resource) if resource.plural in (CLAIMS.plural, PODS.plural) else None
        only = f", only those of namespace {self._namespace} are seen" if own is not None else ""
        self.notes.append(
            f"you may not list {_full_name(resource)} in the whole cluster{only}: {without} (kubectl auth can-i list "
            f"{_full_name(resource)} -A)"
        )
        return own or ()

    def _list_own(self, resource: Resource[T]) -> Sequence[T] | None:
        try:
            return self._client.list_all(resource, Selection(namespace=self._namespace)).items
        except Forbidden:
            return None


def _list_slices(client: KubeClient) -> Sequence[KubeObject]:
    return list_needed(
        client,
        RESOURCE_SLICES,
        "nodes and GPUs are told by ResourceSlices, which you must be allowed to list: kubectl auth can-i "
        f"list {_full_name(RESOURCE_SLICES)}",
    )


def _full_name(resource: Resource[T]) -> str:
    group = resource.group_version.rpartition("/")[0]
    return f"{resource.plural}.{group}" if group else resource.plural


def _is_ready(node: SeenNode) -> bool:
    """A node that says nothing of it counts as ready: a mock fleet's nodes have no kubelet."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")
