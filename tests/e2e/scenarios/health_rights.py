"""Who may say how a claim's devices are: the plugin, of claims on its own node; and what it does where the server says no."""

from __future__ import annotations

from collections.abc import Iterator

from driver.nvml.mock.faults import XidEvent
from hack.devcluster.processes import wait_until
from tests.e2e import health_view, objects
from tests.e2e.health_view import play, select, wait_condition, wait_event
from tests.e2e.identity import PLUGIN, SYSTEM_NAMESPACE
from tests.e2e.kube import Json, KubeApi
from tests.e2e.objects import DRIVER, NAMESPACE
from tests.e2e.plugin import Plugin
from tests.e2e.refusals import Try, as_account, find_refusal, merge
from tests.e2e.rights import read_requests
from tests.e2e.runner import Suite
from tests.e2e.scenarios.health import TAINTS_SINCE, name_device
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_APPLY = "application/apply-patch+yaml"
_POLICY = "no-health-of-one-claim"
_MOST_TRIES = 3


def _build_entry(device: str, *, node: str, driver: str = DRIVER) -> Json:
    condition = {
        "type": "Healthy",
        "status": "False",
        "reason": "Tried",
        "message": "by a test",
        "lastTransitionTime": "2026-12-02T00:00:00Z",
    }
    return {"driver": driver, "pool": node, "device": device, "conditions": [condition]}


def _apply(plugin: KubeApi, claim: Json, *entries: Json, query: str = "") -> Json:
    """As the plugin does it."""
    meta = claim["metadata"]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": meta["name"], "namespace": NAMESPACE, "uid": meta["uid"]},
        "status": {"devices": list(entries)},
    }
    path = plugin.path("ResourceClaim", NAMESPACE, meta["name"], "status")
    return plugin.request("PATCH", f"{path}?fieldManager=tried&force=true{query}", body, kind=_APPLY)


def _tries(plugin: KubeApi, own: Json, foreign: Json, nobodys: Json, node: str) -> Iterator[Try]:
    """What the plugin may not write into claims, though it may write how its devices are."""
    device = name_device(3)
    status = plugin.path("ResourceClaim", NAMESPACE, own["metadata"]["name"], "status")
    claim = plugin.path("ResourceClaim", NAMESPACE, own["metadata"]["name"])
    entry = _build_entry(device, node=node)
    yield (
        "a condition in another node's claim",
        lambda: _apply(plugin, foreign, _build_entry(device, node="another-node")),
        "arbitrary-node:patch",
    )
    yield "one in a claim of a node by another selector", lambda: _apply(plugin, nobodys, entry), "arbitrary-node:patch"
    other = _build_entry("nic-0", node=node, driver="nic.example.com")
    yield "a condition of another driver's device", lambda: _apply(plugin, own, other), "nic.example.com"
    updated = {**own, "status": {**own["status"], "devices": [entry]}}
    yield "a condition by update", lambda: plugin.request("PUT", status, updated), "cannot update"
    yield "the claim itself", lambda: merge(plugin, claim, {"metadata": {"labels": {"a": "b"}}}), "cannot patch"
    yield "an allocation taken back", lambda: merge(plugin, status, {"status": {"allocation": None}}), "resourceclaims/binding"
    yield "who uses it", lambda: merge(plugin, status, {"status": {"reservedFor": [_POD]}}), "resourceclaims/binding"


@SUITE.add("health: a condition is written by the plugin of the claim's node alone", needs_minor=TAINTS_SINCE)
def run_refusals(stage: Stage) -> str:
    """With the plugin's own token: each thing that is near to what it may; then what it may."""
    node, device = stage.layout.node, name_device(3)
    plugin = as_account(stage.api, stage.folders.kubeconfig)
    own = stage.create_allocated_claim("own", [device])
    foreign = stage.api.create(objects.claim("foreign", objects.claim_spec([objects.exactly()])))
    foreign["status"] = {"allocation": objects.allocation([device], node="another-node")}
    foreign = stage.api.write_status(foreign)
    nobodys = stage.api.create(objects.claim("nobodys", objects.claim_spec([objects.exactly()])))
    allocation = objects.allocation([device], node=node)
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
    nobodys["status"] = {"allocation": allocation}
    nobodys = stage.api.write_status(nobodys)
    tries = list(_tries(plugin, own, foreign, nobodys, node))
    wrong = [f"{what}: {said}" for what, attempt, words in tries if words not in (said := find_refusal(attempt))]
    expect(not wrong, "; ".join(wrong))
    written = _apply(plugin, own, _build_entry(device, node=node))
    expect(health_view.read_condition(written) == {device: ("False", "Tried")}, f"{written['status']}")
    return f"{len(tries)} refusals; the node's own claim is let in"


_POD = {"resource": "pods", "name": "tried", "uid": "77777777-0000-4000-8000-000000000000"}


def _build_policy(claim: str) -> list[Json]:
    """The server says 403 to what the plugin writes into this claim's status."""
    account = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{PLUGIN}"
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims/status"],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": _POLICY}}
    refuses = {"expression": "false", "reason": "Forbidden", "message": "this claim is told nothing"}
    conditions = [
        {"name": "plugin", "expression": f"request.userInfo.username == '{account}'"},
        {"name": "claim", "expression": f"request.name == '{claim}'"},
    ]
    return [
        head
        | {
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": conditions,
                "validations": [refuses],
            },
        },
        head | {"kind": "ValidatingAdmissionPolicyBinding", "spec": {"policyName": _POLICY, "validationActions": ["Deny"]}},
    ]


@SUITE.add("health: a claim that may not be written holds up no other", needs_minor=TAINTS_SINCE)
def run_forbidden(stage: Stage) -> str:
    """One of two sick claims is forbidden: said once, not tried again and again; the other is told, and it, too, in the end."""
    plugin = stage.start_plugin("dgx-h200")
    for pod, gpu in (("forbidden", 1), ("allowed", 5)):
        stage.run_pod(pod, objects.claim_spec([select(stage, name_device(gpu))]))
    name = stage.read_claim_of("forbidden")["metadata"]["name"]
    bodies = _build_policy(name)
    for body in bodies:
        stage.api.apply(body)
    try:
        tries = _play_forbidden(stage, plugin, name)
    finally:
        for body in reversed(bodies):
            stage.api.delete(body["kind"], None, _POLICY)
    plugin.stop()
    plugin.start()
    wait_condition(stage, "forbidden", {name_device(1): ("False", "Xid48")})
    return f"{tries} tries, said once; told after a new start"


def _play_forbidden(stage: Stage, plugin: Plugin, name: str) -> int:
    """How often it was tried."""
    account = as_account(stage.api, stage.folders.kubeconfig)
    claim = stage.read_claim_of("forbidden")
    entry = _build_entry(name_device(1), node=stage.layout.node)

    def is_forbidden() -> bool:  # a policy takes effect when the API server's own watch has told it
        return "is told nothing" in find_refusal(lambda: _apply(account, claim, entry, query="&dryRun=All"))

    expect(wait_until(is_forbidden, timeout_s=30.0), "the policy takes no effect")
    before = _count_tries(stage, name)
    play(stage, XidEvent(gpu=1, xid=48), XidEvent(gpu=5, xid=48))
    plugin.wait_for_log("may not be told")
    wait_condition(stage, "allowed", {name_device(5): ("False", "Xid48")})
    wait_event(stage, "Pod", "forbidden", "GpuUnhealthy", "XID 48")
    play(stage, XidEvent(gpu=1, xid=48), XidEvent(gpu=5, xid=48), XidEvent(gpu=5, xid=79))
    health_view.wait_message(stage, "allowed", "XID 79")
    tries = _count_tries(stage, name) - before
    expect(0 < tries <= _MOST_TRIES, f"{tries} tries to write what is forbidden")
    said = plugin.read_log().count("may not be told")
    expect(said == 1, f"said {said} times")
    expect("devices" not in stage.read_claim_of("forbidden")["status"], "the claim was written to")
    return tries


def _count_tries(stage: Stage, claim: str) -> int:
    seen = read_requests(stage.layout.home / "audit.log")
    return sum(each.account == PLUGIN and each.verb == "patch" and each.name == claim for each in seen)
