"""What the driver's accounts may do, asked of the real API server for every resource it has; and what they really do."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.e2e import objects
from tests.e2e.identity import ACCOUNTS, SYSTEM_NAMESPACE
from tests.e2e.kube import Json, KubeApi
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import gpus, play
from tests.e2e.refusals import (
    acknowledge,
    as_account,
    chart_policies,
    find_refusal,
    forget_tries,
    merge,
    node_tries,
    slice_tries,
    wait_policies,
)
from tests.e2e.rights import LEASE, RIGHTS, allows, read_requests
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_ANYBODY = "default"
"""An account without a right of its own: what it may do, every account may."""
_ANYBODYS = {
    "authentication.k8s.io/selfsubjectreviews",
    "authorization.k8s.io/selfsubjectaccessreviews",
    "authorization.k8s.io/selfsubjectrulesreviews",
    "certificates.k8s.io/clustertrustbundles",
}
_CLIMBS = (
    ("impersonate", "users"),
    ("impersonate", "groups"),
    ("impersonate", "serviceaccounts"),
    ("impersonate", "authentication.k8s.io/userextras/scopes"),
    ("escalate", "rbac.authorization.k8s.io/clusterroles"),
    ("bind", "rbac.authorization.k8s.io/clusterroles"),
    ("escalate", "rbac.authorization.k8s.io/roles"),
    ("bind", "rbac.authorization.k8s.io/roles"),
    ("approve", "certificates.k8s.io/signers"),
    ("sign", "certificates.k8s.io/signers"),
    ("attest", "certificates.k8s.io/signers"),
    ("use", "policy/podsecuritypolicies"),
    ("arbitrary-node:update", "resource.k8s.io/resourceclaims/driver"),
    ("arbitrary-node:patch", "resource.k8s.io/resourceclaims/driver"),
    ("associated-node:update", "resource.k8s.io/resourceclaims/driver"),
    ("associated-node:patch", "resource.k8s.io/resourceclaims/driver"),
    ("create", "pods/exec"),
    ("get", "pods/exec"),
    ("get", "nodes/proxy"),
    ("create", "nodes/proxy"),
    ("get", "nodes/pods"),
    ("*", "*"),
    ("get", "secrets"),
    ("*", "resource.k8s.io/resourceclaims"),
)
"""Ways up that no list of resources has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    verb: str
    resource: str
    namespace: str = ""
    name: str = ""


@SUITE.add("rights: each account may do what the table says, and nothing else of all that there is", needs_minor=36)
def run_matrix(stage: Stage) -> str:
    """Every resource and subresource of the server, every verb, in the driver's namespace, in another one, and in all."""
    questions = [*_build_questions(stage.api), *_climbing_questions()]
    answers = {account: _ask_all(stage.api, account, questions) for account in (*ACCOUNTS, _ANYBODY)}
    basis = answers[_ANYBODY]
    expect({each.resource for each in basis} <= _ANYBODYS, f"every account may {_say(basis)}")
    counts = []
    for account in ACCOUNTS:
        wanted = {
            each
            for each in questions
            if allows(account, resource=each.resource, verb=each.verb, namespace=each.namespace, name=each.name)
        }
        more, less = answers[account] - basis - wanted, wanted - answers[account]
        expect(not more, f"{account} may also {_say(more)}")
        expect(not less, f"{account} may not {_say(less)}")
        counts.append(f"{account} {len(wanted)}")
    resources = len({each.resource for each in questions})
    return f"{len(questions)} questions about {resources} resources; allowed: {', '.join(counts)}"


@SUITE.add("rights: what the policies keep each account to", needs_minor=36)
def run_policies(stage: Stage) -> str:
    """With the accounts' own tokens, each thing that RBAC cannot tell apart: other nodes' slices, other fields of a Node."""
    with chart_policies(stage):
        plugin = as_account(stage.api, stage.folders.kubeconfig)
        controller = as_account(stage.api, stage.controller_kubeconfig)
        stage.start_plugin("dgx-h100")
        own = stage.wait_pool()[0]
        tries = [*slice_tries(stage, plugin, own), *node_tries(stage, controller)]
        wait_policies(stage.api, plugin, controller, stage.layout.node)
        wrong = [f"{what}: {said}" for what, attempt, words in tries if words not in (said := find_refusal(attempt))]
        expect(not wrong, "; ".join(wrong))
        acknowledge(controller, stage.layout.node, "2026-12-02T00:00:00Z")
        acknowledge(controller, stage.layout.node, None)
        forget_tries(stage)
        stage.wait_pool()
    return f"{len(tries)} refusals in the right words; the acknowledgement is let in, and the plugin's own slices"


@SUITE.add("rights: none is there that nothing asks for, and nothing is asked for that is not there", needs_minor=36)
def run_used(stage: Stage) -> str:
    """From the audit log of everything that ran on this cluster, and of a node that goes behind the fence and back here."""
    audit = stage.layout.home / "audit.log"
    before = len(list(read_requests(audit)))  # scenarios before this one may have taken rights away
    with play(stage) as on:
        stage.api.delete("Lease", SYSTEM_NAMESPACE, LEASE)  # the controller makes its own
        on.start_controller()
        stage.start_plugin("dgx-a100", options=("--allocation", "controller", "--drain-time", "1s"))
        on.create_pod("pod", {"gpus": gpus(2)})
        stage.wait_running("pod")
        on.delete_pods("pod")
        _go_out(stage)
    seen = list(read_requests(audit))
    unexpected = {
        f"{each.account} {each.verb} {each.resource}"
        for each in seen
        if not allows(each.account, resource=each.resource, verb=each.verb, namespace=each.namespace, name=each.name)
    }
    expect(not unexpected, f"asked for, and in no table: {sorted(unexpected)}")
    refused = {f"{each.account} {each.verb} {each.resource} {each.name}" for each in seen[before:] if each.status in {401, 403}}
    expect(not refused, f"refused: {sorted(refused)}")
    unused = []
    for account, rights in RIGHTS.items():
        asked = {(each.resource, each.verb) for each in seen if each.account == account}
        idle = [right for right in rights if right.key not in asked and not right.is_implied]
        needless = [" ".join(right.key) for right in idle if not right.is_seldom]
        expect(not needless, f"{account} was never seen to use {needless}")
        unused += [f"{account}: {right.verb} {right.resource}" for right in idle]
    return f"{len(seen)} requests, none refused; not seen in this run: {', '.join(unused) or 'nothing'}"


# -- questions


def _build_questions(api: KubeApi) -> Iterator[_Question]:
    for group, resource, is_namespaced in _read_resources(api):
        named = f"{group}/{resource}" if group else resource
        for verb in _VERBS:
            for namespace in ("", SYSTEM_NAMESPACE, NAMESPACE) if is_namespaced else ("",):
                yield _Question(verb=verb, resource=named, namespace=namespace)
            if resource == "leases":
                yield _Question(verb=verb, resource=named, namespace=SYSTEM_NAMESPACE, name=LEASE)
                yield _Question(verb=verb, resource=named, namespace="kube-node-lease", name="node-a")


def _climbing_questions() -> Iterator[_Question]:
    for verb, resource in _CLIMBS:
        for namespace in ("", SYSTEM_NAMESPACE, "kube-system"):
            yield _Question(verb=verb, resource=resource, namespace=namespace)


def _read_resources(api: KubeApi) -> list[tuple[str, str, bool]]:
    """Group, resource with its subresource, and whether it is namespaced, of every version served."""
    found = {("", each["name"], each["namespaced"]) for each in api.request("GET", "/api/v1")["resources"]}
    for group in api.request("GET", "/apis")["groups"]:
        for version in group["versions"]:
            served = api.request("GET", f"/apis/{version['groupVersion']}")["resources"]
            found |= {(group["name"], each["name"], each["namespaced"]) for each in served}
    return sorted(found)


def _ask_all(api: KubeApi, account: str, questions: Sequence[_Question]) -> set[_Question]:
    """Those that are allowed."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda each: _is_allowed(api, account, each), questions)
        return {question for question, is_allowed in zip(questions, answers, strict=True) if is_allowed}


def _is_allowed(api: KubeApi, account: str, question: _Question) -> bool:
    group, resource, subresource = _split(question.resource)
    attributes = {
        "verb": question.verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": question.namespace,
        "name": question.name,
    }
    user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{SYSTEM_NAMESPACE}", "system:authenticated"]
    body: Json = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def _split(resource: str) -> tuple[str, str, str]:
    """Group, resource, subresource; a group has a dot, or is one of the old ones without."""
    first, _, rest = resource.partition("/")
    if not rest or not ("." in first or first in {"apps", "autoscaling", "batch", "extensions", "policy"}):
        return "", first, rest
    plural, _, subresource = rest.partition("/")
    return first, plural, subresource


def _say(questions: set[_Question]) -> str:
    return "; ".join(sorted(f"{each.verb} {each.resource} in {each.namespace or 'all'} {each.name}" for each in questions)[:20])


def _go_out(stage: Stage) -> None:
    """The node goes back to kube-scheduler, which the controller acknowledges."""
    where, label = stage.api.path("Node", None, stage.layout.node), "gpu.nvidia.com/allocator"

    def is_out(slices: list[Json]) -> bool:
        devices = objects.slice_devices(slices).values()
        return bool(devices) and {objects.attribute(each, "allocator") for each in devices} == {"scheduler"}

    merge(stage.api, where, {"metadata": {"labels": {label: "scheduler"}}})
    try:
        stage.api.wait("ResourceSlice", None, is_out, what="the node out of the fence", query=stage.pool_query)
    finally:
        merge(stage.api, where, {"metadata": {"labels": {label: None}}})
