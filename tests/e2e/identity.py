"""The service account that the driver runs as: what an operator's RBAC gives it, and no more (contracts 4.7)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.kube import Json, KubeApi

SYSTEM_NAMESPACE = "gpu-dra"
ACCOUNT = "gpu-dra-kubelet-plugin"
_RULES: list[Json] = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]


def write_account(api: KubeApi) -> None:
    """Make the account and its role."""
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}
    reference = {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT}
    bodies: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": _RULES},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "subjects": [subject],
            "roleRef": reference,
        },
    ]
    for body in bodies:
        api.apply(body)


def write_kubeconfig(api: KubeApi, admin_kubeconfig: Path, node: str, path: Path) -> None:
    """Write a kubeconfig with a token of the account that is bound to the node, as the token of a pod there would be."""
    uid = api.request("GET", api.path("Node", None, node))["metadata"]["uid"]
    spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}, "expirationSeconds": 86400}
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = api.request("POST", api.path("ServiceAccount", SYSTEM_NAMESPACE, ACCOUNT, "token"), request)
    config = json.loads(admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
