"""What the policies keep the driver's accounts to: attempts with their own tokens, and the words of the refusals."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from hack.devcluster.processes import wait_until
from tests.e2e import config_cases, objects
from tests.e2e.identity import SYSTEM_NAMESPACE
from tests.e2e.kube import ApiRefused, Json, KubeApi
from tests.e2e.objects import NAMESPACE
from tests.e2e.release import Release
from tests.e2e.stage import Stage, expect

Try = tuple[str, Callable[[], object], str]
"""What is tried, how, and words of the refusal."""


@contextlib.contextmanager
def chart_policies(stage: Stage) -> Iterator[None]:
    """With the policies that the chart has, and their bindings."""
    bodies = [each for each in yaml.safe_load_all(Release(layout=stage.layout).render("policies")) if each]
    for body in bodies:
        stage.api.apply(body)
    try:
        yield
    finally:
        for body in reversed(bodies):
            stage.api.delete(body["kind"], None, body["metadata"]["name"])


def as_account(api: KubeApi, kubeconfig: Path) -> KubeApi:
    """The API as the account whose token this file has."""
    return api.as_bearer(json.loads(kubeconfig.read_text())["users"][0]["user"]["token"])


def slice_tries(stage: Stage, plugin: KubeApi, own: Json) -> Iterator[Try]:
    """What the plugin may not write, though it may write slices."""
    api, node, foreign = stage.api, stage.layout.node, "may not write a slice of node"
    another = api.create(build_slice("another", nodeName="another-node"))
    meta = another["metadata"]
    where = api.path("ResourceSlice", None)
    yield "a slice of another node", lambda: plugin.try_creating(where, build_slice("x", nodeName="another-node")), foreign
    yield "one of all nodes", lambda: plugin.try_creating(where, build_slice("x", allNodes=True)), foreign
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    chosen = build_slice("x", nodeSelector={"nodeSelectorTerms": [term]})
    yield "one by node selector", lambda: plugin.try_creating(where, chosen), foreign
    per_device = build_slice("x", perDeviceNodeSelection=True)
    per_device["spec"]["devices"][0]["allNodes"] = True
    yield "one with a node a device", lambda: plugin.try_creating(where, per_device), foreign
    other_driver = build_slice("x", nodeName=node)
    other_driver["spec"]["driver"] = "nic.example.com"
    yield "another driver's", lambda: plugin.try_creating(where, other_driver), "and not nic.example.com"
    changed = {**another, "spec": {**another["spec"], "devices": [{"name": "gpu-9"}]}}
    path = api.path("ResourceSlice", None, meta["name"])
    yield "a change of another node's", lambda: plugin.request("PUT", path, changed), foreign
    yield "a deletion of another node's", lambda: plugin.delete("ResourceSlice", None, meta["name"]), foreign
    everything = api.path("ResourceSlice", None)
    yield "a deletion of all", lambda: plugin.request("DELETE", everything), "cannot deletecollection"
    yield (
        "a patch of its own",
        lambda: merge(plugin, api.path("ResourceSlice", None, own["metadata"]["name"]), {}),
        "cannot patch",
    )
    yield "a list of pods", lambda: plugin.find("Pod", NAMESPACE), "cannot list"
    yield "a secret", lambda: plugin.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/any"), "cannot get"
    yield "the deletion of a node", lambda: plugin.delete("Node", None, node), "cannot delete"
    claim = api.create(objects.claim("tried", objects.claim_spec([objects.exactly()])))
    status = {**claim, "status": {"allocation": objects.allocation(["gpu-0"], node=node)}}
    yield "an allocation by the plugin", lambda: plugin.write_status(status), "cannot update"


def node_tries(stage: Stage, controller: KubeApi) -> Iterator[Try]:
    """What the controller may not change, though it may patch nodes."""
    where, only = stage.api.path("Node", None, stage.layout.node), "allocator-drained, and nothing else"
    for what, patch in {
        "a label": {"metadata": {"labels": {"gpu.nvidia.com/allocator": "controller"}}},
        "a label taken away": {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
        "an annotation": {"metadata": {"annotations": {"example.com/a": "b"}}},
        "an annotation taken away": {
            "metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": None}}
        },
        "a taint": {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        "cordoning": {"spec": {"unschedulable": True}},
        "a finalizer": {"metadata": {"finalizers": ["example.com/held"]}},
    }.items():
        yield f"{what} of a node", lambda patch=patch: merge(controller, where, patch), only  # type: ignore[misc]
    yield "a node's status", lambda: merge(controller, f"{where}/status", {"status": {"phase": "x"}}), "cannot patch"
    yield "a node's deletion", lambda: controller.delete("Node", None, stage.layout.node), "cannot delete"
    yield "a slice", lambda: controller.create(build_slice("x", nodeName=stage.layout.node)), "cannot create"
    claim = stage.api.path("ResourceClaim", NAMESPACE, "tried")
    yield "a claim's deletion", lambda: controller.request("DELETE", claim), "cannot delete"
    foreign_lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + stage.layout.node
    yield "another's lease", lambda: controller.request("GET", foreign_lease), "cannot get"


def user_tries(stage: Stage) -> Iterator[Try]:
    """What nobody may create, the administrator neither: a claim that climbs over the fence, a config that prepare refuses."""
    where = stage.api.path("ResourceClaim", NAMESPACE)
    tolerating = objects.claim_spec([objects.exactly(tolerations=[{"operator": "Exists"}])])
    yield (
        "a claim over the fence",
        lambda: stage.api.try_creating(where, objects.claim("x", tolerating)),
        "topology.gpu.nvidia.com",
    )
    for what, parameters in config_cases.WRONG.items():
        config = {"opaque": {"driver": objects.DRIVER, "parameters": parameters}}
        body = objects.claim("x", objects.claim_spec([objects.exactly()], config=[config]))
        yield f"a config: {what}", lambda body=body: stage.api.try_creating(where, body), "refuse-wrong-configs"  # type: ignore[misc]


def forget_tries(stage: Stage) -> None:
    """Remove what the tries needed."""
    for found in stage.api.find("ResourceSlice", query="fieldSelector=spec.nodeName%3Danother-node"):
        stage.api.delete("ResourceSlice", None, found["metadata"]["name"])
    stage.api.delete("ResourceClaim", NAMESPACE, "tried")


def build_slice(name: str, **where: object) -> Json:
    """A slice of one device, for wherever."""
    pool = {"name": "another-node", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": f"{name}-"},
        "spec": {"driver": objects.DRIVER, "pool": pool, "devices": [{"name": "gpu-0"}], **where},
    }


def merge(api: KubeApi, path: str, body: Json) -> Json:
    return api.request("PATCH", path, body, kind="application/merge-patch+json")


def acknowledge(controller: KubeApi, node: str, value: str | None) -> None:
    annotations = {"gpu.nvidia.com/allocator-drained": value}
    merge(controller, controller.path("Node", None, node), {"metadata": {"annotations": annotations}})


def find_refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except ApiRefused as err:
        return str(err)
    return "it is let in"


def wait_policies(admin: KubeApi, plugin: KubeApi, controller: KubeApi, node: str) -> None:
    """A policy takes effect when the API server's own watch has told it."""
    slices, where = admin.path("ResourceSlice", None), admin.path("Node", None, node)

    def are_there() -> bool:
        foreign = find_refusal(lambda: plugin.try_creating(slices, build_slice("x", nodeName="another-node")))
        label = {"metadata": {"labels": {"tried": "yes"}}}
        labelled = find_refusal(lambda: merge(controller, f"{where}?dryRun=All", label))
        return "may not write" in foreign and "nothing else" in labelled

    expect(wait_until(are_there, timeout_s=30.0, interval_s=0.2), "the policies take no effect")
