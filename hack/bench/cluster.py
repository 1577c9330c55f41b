"""The API server of a run: the stand-in, or a real one by kubeconfig; and the objects that the benchmark makes there."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.errors import Conflict, NotFound
from driver.kube.client import KubeClient
from driver.kube.credentials import read_credentials
from driver.kube.resources import NODES, RESOURCE_SLICES, Node, Resource, Selection
from hack.bench.calls import Claim
from hack.bench.processes import Child, python

DRIVER = "gpu.nvidia.com"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class BenchClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A claim as its author and its allocator write it."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Namespace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: ObjectMeta


CLAIMS = Resource(group_version="resource.k8s.io/v1", plural="resourceclaims", type_=BenchClaim)
_NAMESPACES = Resource(group_version="v1", plural="namespaces", type_=_Namespace)


class Cluster(Protocol):
    """What a run needs of an API server."""

    kubeconfig: Path
    namespace: str
    """Where claims are made; of this run alone on a real server, which takes a while to delete one."""

    def slices(self, node: str) -> list[Any]:
        """The node's slices, as JSON objects."""

    def delete_slices(self, node: str) -> None:
        """As the kubelet does with those of a driver that it lost."""

    def requests(self) -> list[tuple[float, str, str]] | None:
        """Time, verb and resource of each request since the last ``forget``; None where nobody counts."""

    def forget(self) -> None:
        """Count from now on."""

    def end(self) -> None:
        """Leave nothing behind."""


class StandIn:
    """``tests/fakes/kube_api`` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.namespace = "bench"
        self._child = Child(python("hack.bench.api_process", str(self.kubeconfig)), folder / "api.log")
        self._child.read_line()

    def slices(self, node: str) -> list[Any]:
        """As ``Cluster`` says."""
        found = self._child.ask({"do": "objects", "plural": "resourceslices"})
        return [each for each in found if each["spec"]["nodeName"] == node]

    def delete_slices(self, node: str) -> None:
        """As ``Cluster`` says."""
        del node
        self._child.ask({"do": "delete", "plural": "resourceslices"})

    def requests(self) -> list[tuple[float, str, str]] | None:
        """As ``Cluster`` says."""
        return [(at, verb, plural) for at, verb, plural in self._child.ask({"do": "requests"})]

    def forget(self) -> None:
        """As ``Cluster`` says."""
        self._child.ask({"do": "forget"})

    def end(self) -> None:
        """As ``Cluster`` says."""
        self._child.end()


class RealServer:
    """A real API server; requests are not counted."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = f"gpu-dra-bench-{uuid.uuid4().hex[:8]}"
        self._client = KubeClient(read_credentials(str(kubeconfig)))
        self._made_nodes: set[str] = set()
        labels = {"resource.kubernetes.io/admin-access": "true"}
        self._client.create(_NAMESPACES, _Namespace(metadata=ObjectMeta(name=self.namespace, labels=labels)))

    def slices(self, node: str) -> list[Any]:
        """As ``Cluster`` says."""
        self._made_nodes.add(node)
        found = self._client.list_all(RESOURCE_SLICES, Selection(field_selector=f"spec.nodeName={node}"))
        return [msgspec.to_builtins(each) for each in found.items]

    def delete_slices(self, node: str) -> None:
        """As ``Cluster`` says."""
        for each in self._client.list_all(RESOURCE_SLICES, Selection(field_selector=f"spec.nodeName={node}")).items:
            with contextlib.suppress(NotFound):
                self._client.delete(RESOURCE_SLICES, each.metadata)

    def requests(self) -> list[tuple[float, str, str]] | None:
        """As ``Cluster`` says."""
        return None

    def forget(self) -> None:
        """As ``Cluster`` says."""
        return

    def end(self) -> None:
        """As ``Cluster`` says."""
        for node in self._made_nodes:
            self.delete_slices(node)
            with contextlib.suppress(NotFound):
                self._client.delete(NODES, ObjectMeta(name=node))
        with contextlib.suppress(NotFound):
            self._client.delete(_NAMESPACES, ObjectMeta(name=self.namespace))
        self._client.close()


class Author:
    """Makes nodes and claims: the scheduler's and the users' part."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = KubeClient(read_credentials(str(cluster.kubeconfig)))
        self._namespace = cluster.namespace

    def make_node(self, name: str) -> None:
        """A Node; slices are owned by it."""
        with contextlib.suppress(Conflict):
            self._client.create(NODES, Node(metadata=ObjectMeta(name=name)))

    def make_claim(self, node: str, devices: Sequence[str], *, is_admin: bool = False) -> Claim:
        """A claim that was given these devices of the node."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        admin = {"adminAccess": True} if is_admin else {}
        request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": len(devices), **admin}}
        claim = BenchClaim(
            metadata=ObjectMeta(name=name, namespace=self._namespace),
            spec={"devices": {"requests": [request]}},
        )
        made = self._client.create(CLAIMS, claim, namespace=self._namespace)
        results = [{"request": "gpus", "driver": DRIVER, "pool": node, "device": each, **admin} for each in devices]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        self._client.patch(CLAIMS, made.metadata, status, subresource="status")
        return self._namespace, name, made.metadata.uid

    def delete_claims(self, claims: Iterable[Claim]) -> None:
        """They are used up."""
        for namespace, name, _ in claims:
            with contextlib.suppress(NotFound):
                self._client.delete(CLAIMS, ObjectMeta(name=name, namespace=namespace))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
