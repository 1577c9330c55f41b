"""The service accounts that the driver's halves run as, with the rights that the chart gives them and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from hack.devcluster.layout import Layout
from tests.e2e.kube import Json, KubeApi

SYSTEM_NAMESPACE = "gpu-dra"
PLUGIN = "gpu-dra-kubelet-plugin"
CONTROLLER = "gpu-dra-controller"
ACCOUNTS = (PLUGIN, CONTROLLER)


def write_accounts(api: KubeApi, manifests: str) -> None:
    """Make the accounts with their rights; ``manifests`` is what the chart has of them."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
    for body in yaml.safe_load_all(manifests):
        if body:
            api.apply(body)


def write_kubeconfigs(api: KubeApi, layout: Layout) -> Mapping[str, Path]:
    """Write one for each account; again when the Node was made again, whose tokens died with it."""
    paths = {account: layout.home / f"{account}.kubeconfig" for account in ACCOUNTS}
    for account, path in paths.items():
        write_kubeconfig(api, account, layout.admin_kubeconfig, layout.node, path)
    return paths


def write_kubeconfig(api: KubeApi, account: str, admin_kubeconfig: Path, node: str | None, path: Path) -> None:
    """Write a kubeconfig with a token of the account that is bound to the node, as the token of a pod there would be.

    Without a node it outlives every Node: a pod's token does so, too.
    """
    spec: Json = {"expirationSeconds": 86400}
    if node is not None:
        uid = api.request("GET", api.path("Node", None, node))["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = api.request("POST", api.path("ServiceAccount", SYSTEM_NAMESPACE, account, "token"), request)
    config = json.loads(admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
