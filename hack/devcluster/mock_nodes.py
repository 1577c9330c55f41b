"""Nodes without a kubelet: Node objects kept Ready by a lease each, so that the scheduler places pods on them.

A program of its own (``python3 mock_nodes.py <home of the cluster>``), which reads the names from ``mock-nodes.json`` there.
It uses the standard library alone, as the rest of the dev cluster does.
"""

from __future__ import annotations

import datetime
import http.client
import json
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LABEL = "gpu-dra.io/mock-node"
RENEW_S = 10.0
"""The node lifecycle controller takes a node for lost after 300 s here (50 s elsewhere) without a renewed lease."""


class Api:
    """Just enough of an API client, with the admin's certificate."""

    def __init__(self, home: Path) -> None:
        started = json.loads((home / "cluster.json").read_text())
        port = int(started["api_port"])
        tls = ssl.create_default_context(cafile=str(home / "pki" / "ca.crt"))
        tls.load_cert_chain(home / "pki" / "admin.crt", home / "pki" / "admin.key")
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None, *, kind: str = "application/json") -> int:
        """Send one request; return its status."""
        return self._send(method, path, body, kind)[0]

    def list_mock_nodes(self) -> dict[str, bool]:
        """The names of the nodes that were made here, and whether each is Ready."""
        answer = json.loads(self._send("GET", f"/api/v1/nodes?labelSelector={_LABEL}", None, "application/json")[1])
        return {node["metadata"]["name"]: _is_ready(node) for node in answer.get("items", [])}

    def _send(self, method: str, path: str, body: Mapping[str, object] | None, kind: str) -> tuple[int, bytes]:
        """On the one connection: thousands of nodes renew their leases, and a handshake takes longer than a request."""
        try:
            self._connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": kind})
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as err:
            self._connection.close()  # the next request makes it anew
            raise OSError(str(err)) from err


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def build_node(name: str, now: str) -> dict[str, object]:
    """A node with room for pods, Ready, as a kubelet reports itself."""
    resources = {"cpu": "128", "memory": "2Ti", "pods": "250", "ephemeral-storage": "1Ti"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "MockNode",
        "message": "kept ready by hack/devcluster",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", _LABEL: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }


def build_lease(name: str, now: str) -> dict[str, object]:
    """The node's heartbeat."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    }


def keep_ready(api: Api, name: str) -> None:
    """Make the node if it is missing, say that it is ready, and make or renew its lease."""
    moment = datetime.datetime.now(datetime.UTC)
    now = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    node = build_node(name, now)
    api.call("POST", "/api/v1/nodes", node)
    merge = "application/strategic-merge-patch+json"
    api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": node["status"]}, kind=merge)
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = build_lease(name, moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    if api.call("POST", leases, lease) == http.HTTPStatus.CONFLICT:
        api.call("PATCH", f"{leases}/{name}", {"spec": lease["spec"]}, kind="application/merge-patch+json")


def renew(api: Api, name: str) -> None:
    """Renew the lease of a node that is there."""
    moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    where = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    api.call("PATCH", where, {"spec": build_lease(name, moment)["spec"]}, kind="application/merge-patch+json")


def main(home: Path) -> None:
    """Keep the nodes of ``mock-nodes.json`` ready until this process is stopped; delete those that it does not name."""
    api = Api(home)
    made: set[str] = set()
    while True:
        wanted = set(json.loads((home / "mock-nodes.json").read_text()))
        try:
            present = api.list_mock_nodes()
            well = wanted & made & {name for name, is_ready in present.items() if is_ready}
            for name in sorted(well):
                renew(api, name)
            for name in sorted(wanted - well):
                keep_ready(api, name)
                made.add(name)
            for name in sorted(present.keys() - wanted):
                api.call("DELETE", f"/api/v1/nodes/{name}")
        except OSError as err:
            sys.stderr.write(f"the API server does not answer: {err}\n")
            time.sleep(1.0)
            continue
        time.sleep(RENEW_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
