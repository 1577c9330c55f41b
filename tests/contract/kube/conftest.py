"""Which API servers the cases run on: the fake, and the real one where ``GPU_DRA_E2E_KUBECONFIG`` names its kubeconfig."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import ResourceSlice
from driver.errors import NotFound
from driver.kube.client import KubeClient
from driver.kube.credentials import Credentials, read_credentials
from driver.kube.resources import NODES, RESOURCE_SLICES, Node, Selection
from driver.kube.transport import Request, Transport
from driver.names import PoolName
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import PoolIdentity
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.slices import existing

KUBECONFIG = os.environ.get("GPU_DRA_E2E_KUBECONFIG", "")
SERVERS = ("fake", "real") if KUBECONFIG else ("fake",)


@dataclass(frozen=True)
class Cluster:
    """A server with a driver name and a node of this test's own."""

    credentials: Credentials
    client: KubeClient
    identity: PoolIdentity

    @property
    def selection(self) -> Selection:
        identity = self.identity
        return Selection(field_selector=f"spec.driver={identity.driver},spec.nodeName={identity.node_name}")

    def slice_(self, content: SliceContent, *, index: int = 0, name: str = "") -> ResourceSlice:
        """A slice that can be created."""
        base = existing(index, content, pool=self.identity.node_name)
        spec = msgspec.structs.replace(base.spec, driver=self.identity.driver, node_name=self.identity.node_name)
        meta = ObjectMeta(name=name) if name else ObjectMeta(generate_name=f"{index:05x}-{self.identity.driver}-")
        return ResourceSlice(metadata=meta, spec=spec)

    def wipe(self) -> None:
        """Delete the node's slices as the kubelet does."""
        transport = Transport(self.credentials)
        request = Request(method="DELETE", path=RESOURCE_SLICES.path(), query=self.selection.query())
        response = transport.send(request)
        assert response.status == 200
        response.close()
        transport.close()


@pytest.fixture(params=SERVERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        credentials = (
            read_credentials(KUBECONFIG) if request.param == "real" else stack.enter_context(FakeKubeApi()).credentials()
        )
        client = KubeClient(credentials)
        stack.callback(client.close)
        tag = secrets.token_hex(4)
        node = f"contract-{tag}"
        identity = PoolIdentity(driver=f"{tag}.contract.example", node_name=node, pool=PoolName(node))
        made = Cluster(credentials, client, identity)
        client.create(NODES, Node(metadata=ObjectMeta(name=node)))
        yield made
        made.wipe()
        with contextlib.suppress(NotFound):
            client.delete(NODES, ObjectMeta(name=node))
