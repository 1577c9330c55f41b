"""The controller's word that a node may leave, on a server."""

from __future__ import annotations

import pytest

from driver.controller.writing.fence import Acknowledgement, write_acknowledgement
from driver.errors import Conflict, NotFound
from driver.kube.client import KubeClient
from tests.fakes.kube_api import FakeKubeApi

SINCE = "2026-12-02T01:00:00Z"


def test_the_node_gets_the_moment_as_an_annotation_beside_its_others() -> None:
    """Twice is as good as once."""
    with FakeKubeApi() as api:
        body = {"metadata": {"name": "node-a", "annotations": {"mine": "1"}, "labels": {"zone": "z"}}}
        made = api.create("nodes", body)
        client = KubeClient(api.credentials(), timeout_s=5.0)
        for _ in range(2):
            write_acknowledgement(client, Acknowledgement(node="node-a", node_uid=made["metadata"]["uid"], time_added=SINCE))
        (node,) = api.objects("nodes")
    assert node["metadata"]["annotations"] == {"mine": "1", "gpu.nvidia.com/allocator-drained": SINCE}
    assert node["metadata"]["labels"] == {"zone": "z"}


def test_another_node_of_that_name_is_not_told() -> None:
    with FakeKubeApi() as api:
        client = KubeClient(api.credentials(), timeout_s=5.0)
        told = Acknowledgement(node="node-a", node_uid="11111111-1111-4111-8111-111111111111", time_added=SINCE)
        with pytest.raises(NotFound):
            write_acknowledgement(client, told)
        api.create("nodes", {"metadata": {"name": "node-a"}})
        with pytest.raises(Conflict):
            write_acknowledgement(client, told)
