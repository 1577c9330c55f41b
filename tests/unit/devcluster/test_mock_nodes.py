"""Nodes without a kubelet look to the scheduler like nodes with one."""

from __future__ import annotations

from typing import Any

import kubernetes_validate

from hack.devcluster import mock_nodes


def test_node_is_legal_and_ready() -> None:
    node: dict[str, Any] = mock_nodes.build_node("mock-1", "2026-12-01T22:00:00Z")
    kubernetes_validate.validate(node, "1.37", strict=True)
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [("Ready", "True")]
    assert set(node["status"]["allocatable"]) >= {"cpu", "memory", "pods"}


def test_lease_is_legal_and_lasts_beyond_its_renewal() -> None:
    """The node lifecycle controller goes by the lease; it is renewed well before it is over."""
    lease: dict[str, Any] = mock_nodes.build_lease("mock-1", "2026-12-01T22:00:00.000000Z")
    kubernetes_validate.validate(lease, "1.37", strict=True)
    assert lease["metadata"] == {"name": "mock-1", "namespace": "kube-node-lease"}
    assert lease["spec"]["leaseDurationSeconds"] > 2 * mock_nodes.RENEW_S


class Recorder(mock_nodes.Api):
    """Answers as a server on which everything but ``conflicts`` goes well."""

    def __init__(self, *conflicts: str) -> None:
        self.calls: list[tuple[str, str]] = []
        self._conflicts = conflicts

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> int:
        """Note the request."""
        self.calls.append((method, path))
        return 409 if method == "POST" and path.endswith(self._conflicts) else 200


def test_new_node_is_made_with_its_lease() -> None:
    api = Recorder("/none")
    mock_nodes.keep_ready(api, "mock-1")
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    assert api.calls == [("POST", "/api/v1/nodes"), ("PATCH", "/api/v1/nodes/mock-1/status"), ("POST", leases)]


def test_known_node_has_its_lease_renewed() -> None:
    api = Recorder("/nodes", "/leases")
    mock_nodes.keep_ready(api, "mock-1")
    assert api.calls[-1] == ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/mock-1")
