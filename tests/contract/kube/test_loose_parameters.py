"""Claims whose opaque parameters came with white space: no JSON request can change them, protobuf can."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from driver.api.resource_v1 import ResourceClaim
from driver.controller.objects.model import CLAIMS
from driver.errors import Conflict, Invalid, NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import Resource
from driver.kube.transport import Request, Transport
from tests.contract.kube.conftest import Cluster

NAMESPACE = "default"
PARAMETERS = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy", "mode": "preferred"}
LOOSE, TIGHT = (", ", ": "), (",", ":")


def create(cluster: Cluster, separators: tuple[str, str]) -> str:
    """A claim whose JSON has these separators; its name."""
    name = cluster.identity.node_name
    config = [{"opaque": {"driver": cluster.identity.driver, "parameters": PARAMETERS}}]
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request], "config": config}},
    }
    transport = Transport(cluster.credentials)
    data = json.dumps(body, separators=separators).encode()
    response = transport.send(Request(method="POST", path=CLAIMS.path(namespace=NAMESPACE), query={}, body=data))
    assert response.status == 201
    response.close()
    transport.close()
    return name


@pytest.fixture
def clean(cluster: Cluster) -> Iterator[KubeClient]:
    yield cluster.client
    name = cluster.identity.node_name
    try:
        claim = cluster.client.get(CLAIMS, name, namespace=NAMESPACE)
        if claim.metadata.finalizers:
            claim = cluster.client.edit_metadata(CLAIMS, claim.metadata, annotations={}, finalizers=())
        cluster.client.delete(CLAIMS, claim.metadata)
    except NotFound:
        pass


LABEL = {"metadata": {"labels": {"a": "1"}}}


def test_json_changes_a_claim_without_white_space(cluster: Cluster, clean: KubeClient) -> None:
    claim = clean.get(CLAIMS, create(cluster, TIGHT), namespace=NAMESPACE)
    assert clean.patch(CLAIMS, claim.metadata, LABEL).metadata.labels == {"a": "1"}


def test_no_json_changes_one_with_it(cluster: Cluster, clean: KubeClient) -> None:
    name = create(cluster, LOOSE)
    claim = clean.get(CLAIMS, name, namespace=NAMESPACE)
    with pytest.raises(Invalid, match="field is immutable"):
        clean.patch(CLAIMS, claim.metadata, LABEL)
    whole = Resource(group_version=CLAIMS.group_version, plural=CLAIMS.plural, type_=ResourceClaim)
    with pytest.raises(Invalid, match="field is immutable"):
        clean.replace(whole, clean.get(whole, name, namespace=NAMESPACE))


def test_protobuf_changes_it(cluster: Cluster, clean: KubeClient) -> None:
    claim = clean.get(CLAIMS, create(cluster, LOOSE), namespace=NAMESPACE)
    marked = clean.edit_metadata(CLAIMS, claim.metadata, annotations={"example.com/a": "1"}, finalizers=("example.com/f",))
    assert (marked.metadata.annotations, marked.metadata.finalizers) == ({"example.com/a": "1"}, ("example.com/f",))
    assert marked.metadata.resource_version != claim.metadata.resource_version
    assert json.loads(bytes(marked.spec)) == json.loads(bytes(claim.spec))
    unmarked = clean.edit_metadata(CLAIMS, marked.metadata, annotations={"example.com/a": None}, finalizers=())
    assert (unmarked.metadata.annotations, unmarked.metadata.finalizers) == ({}, ())


def test_protobuf_needs_the_version_that_is_there(cluster: Cluster, clean: KubeClient) -> None:
    claim = clean.get(CLAIMS, create(cluster, LOOSE), namespace=NAMESPACE)
    clean.edit_metadata(CLAIMS, claim.metadata, annotations={"example.com/a": "1"}, finalizers=())
    with pytest.raises(Conflict):
        clean.edit_metadata(CLAIMS, claim.metadata, annotations={"example.com/a": "2"}, finalizers=())
