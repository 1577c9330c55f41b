"""The admission policies of the fence on a real API server, in every form that a claim can have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e import manifests, objects
from tests.e2e.fence_cases import CASES, exactly, first_available
from tests.e2e.kube import ApiRefused, Json, KubeApi
from tests.e2e.play import FENCED, policy
from tests.e2e.runner import Suite
from tests.e2e.stage import NotAsExpected, Stage, expect

SUITE = Suite()
_GROUP = "/apis/resource.k8s.io"
_KINDS = {"ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates"}
_WITHIN_S = 30.0
"""A policy takes effect when the API server's own watch has told it."""


@SUITE.add("fence: no claim may tolerate it: claims and templates, all forms, all served versions")
def run_refusals(stage: Stage) -> str:
    """What the table says, from each version; refusals say what to write instead; the rest gets through unharmed."""
    with _policies(stage.api, "refuse-fence-tolerations"), _admin_namespace(stage.api):
        _wait_refused(stage.api)
        versions = _read_versions(stage.api)
        wrong, count = [], 0
        for version in versions:
            for case in CASES:
                for kind in _KINDS:
                    count += 1
                    refusal = _find_refusal(stage.api, kind, version, objects.claim_spec(case.requests))
                    if bool(refusal) is not case.climbs:
                        wrong.append(f"{version} {kind}, {case.id}: {refusal or 'let in'}")
                    elif refusal and "topology.gpu.nvidia.com" not in refusal:
                        wrong.append(f"{version} {kind}, {case.id}: says not what to write instead: {refusal}")
        expect(not wrong, f"{len(wrong)} of {count}: {'; '.join(wrong[:5])}")
        expect("v1" in versions, f"served are {versions}")
        return f"{count} claims and templates by {', '.join(versions)}; {sum(case.climbs for case in CASES)} forms refused"


@SUITE.add("fence: claims that are older than the policy live on, and can be written")
def run_older_claims(stage: Stage) -> str:
    """Only creation is judged: a claim with a finalizer to be removed must not be stuck for ever."""
    stage.api.create(objects.claim("older", objects.claim_spec(exactly({"operator": "Exists"}))))
    with _policies(stage.api, "refuse-fence-tolerations"):
        _wait_refused(stage.api)
        where = stage.api.path("ResourceClaim", objects.NAMESPACE, "older")
        for finalizers in (["example.com/held"], None):
            stage.api.request("PATCH", where, {"metadata": {"finalizers": finalizers}}, kind="application/merge-patch+json")
        stage.api.delete("ResourceClaim", objects.NAMESPACE, "older")
        expect(stage.api.get("ResourceClaim", objects.NAMESPACE, "older") is None, "the claim does not go")
    return "patched and deleted"


@SUITE.add("fence: a required policy that kube-scheduler may break is warned of")
def run_warnings(stage: Stage) -> str:
    """By class, by selector, by alternative; in a DeviceClass, too."""
    required, preferred = policy(scope="nvlink", mode="required"), policy(scope="nvlink", mode="preferred")
    topology = {"name": "gpus", "exactly": {"deviceClassName": "topology.gpu.nvidia.com", "count": 4}}
    ways = first_available([], [])
    bound_ways = [{"name": "gpus", "firstAvailable": [{**way, "selectors": _cel(FENCED)} for way in ways[0]["firstAvailable"]]}]
    cases = {
        "a plain class": (objects.claim_spec(exactly(), config=[required]), True),
        "the topology class": (objects.claim_spec([topology], config=[required]), False),
        "a selector": (objects.claim_spec([objects.exactly(selector=FENCED)], config=[required]), False),
        "preferred": (objects.claim_spec(exactly(), config=[preferred]), False),
        "no policy": (objects.claim_spec(exactly()), False),
        "an alternative without it": (objects.claim_spec(ways, config=[required]), True),
        "alternatives with it": (objects.claim_spec(bound_ways, config=[required]), False),
        "for another request": (
            objects.claim_spec([*exactly(), {**topology, "name": "t"}], config=[required | {"requests": ["t"]}]),
            False,
        ),
        "for an alternative": (objects.claim_spec(ways, config=[required | {"requests": ["gpus/way-1"]}]), True),
    }
    with _policies(stage.api, "warn-required-policy"):
        _wait(lambda: bool(_find_warning(stage.api, cases["a plain class"][0])), "the policy warns")
        wrong = [
            f"{name}: {warning or 'no warning'}"
            for name, (spec, warns) in cases.items()
            if bool(warning := _find_warning(stage.api, spec)) is not warns
        ]
        for name, expression, warns in (("open", "true", True), ("bound", FENCED, False)):
            warnings = stage.api.try_creating(stage.api.path("DeviceClass", None), _device_class(expression, required))
            if bool(warnings) is not warns:
                wrong.append(f"a class that is {name}: {warnings}")
        expect(not wrong, "; ".join(wrong))
    return f"{len(cases)} claims and 2 classes"


@contextmanager
def _policies(api: KubeApi, name: str) -> Iterator[None]:
    documents = manifests.read_documents(manifests.ADMISSION / f"{name}.yaml")
    for document in documents:
        api.apply(document)
    try:
        yield
    finally:
        for document in reversed(documents):
            api.delete(document["kind"], None, document["metadata"]["name"])
        _wait(lambda: not _find_refusal(api, "ResourceClaim", "v1", _CLIMBING), "the policy is gone")


@contextmanager
def _admin_namespace(api: KubeApi) -> Iterator[None]:
    """Ours is one in which claims may have admin access."""
    where, key = api.path("Namespace", None, objects.NAMESPACE), "resource.kubernetes.io/admin-access"
    kind = "application/merge-patch+json"
    api.request("PATCH", where, {"metadata": {"labels": {key: "true"}}}, kind=kind)
    try:
        yield
    finally:
        api.request("PATCH", where, {"metadata": {"labels": {key: None}}}, kind=kind)


_CLIMBING = objects.claim_spec(exactly({"operator": "Exists"}))


def _wait_refused(api: KubeApi) -> None:
    _wait(lambda: bool(_find_refusal(api, "ResourceClaim", "v1", _CLIMBING)), "the policy refuses")


def _wait(is_so: object, what: str) -> None:
    end = time.monotonic() + _WITHIN_S
    while not is_so():  # type: ignore[operator]
        if time.monotonic() > end:
            raise NotAsExpected(f"not within {_WITHIN_S:.0f} s: {what}")
        time.sleep(0.1)


def _read_versions(api: KubeApi) -> list[str]:
    """The versions of the API group that have claims."""
    found = [each["version"] for each in api.request("GET", _GROUP)["versions"]]
    served = {version: {each["name"] for each in api.request("GET", f"{_GROUP}/{version}")["resources"]} for version in found}
    return [version for version in found if "resourceclaims" in served[version]]


def _find_refusal(api: KubeApi, kind: str, version: str, spec: Json) -> str:
    """What the server says against a claim of this spec, written in ``v1``; empty where it takes it."""
    spec = _to_v1beta1(spec) if version == "v1beta1" else spec
    namespace = objects.NAMESPACE
    body = objects.claim("tried", spec) if kind == "ResourceClaim" else objects.template("tried", spec)
    body["apiVersion"] = f"resource.k8s.io/{version}"
    try:
        api.try_creating(f"{_GROUP}/{version}/namespaces/{namespace}/{_KINDS[kind]}", body)
    except ApiRefused as err:
        if err.status != 422 or "ValidatingAdmissionPolicy" not in str(err):
            raise
        return str(err)
    return ""


def _to_v1beta1(spec: Json) -> Json:
    """There a request has the fields of ``exactly`` itself."""
    devices = spec["devices"]
    requests = [{"name": each["name"], **each.get("exactly", {})} | _alternatives(each) for each in devices["requests"]]
    return {"devices": {**devices, "requests": requests}}


def _alternatives(request: Json) -> Json:
    return {"firstAvailable": request["firstAvailable"]} if "firstAvailable" in request else {}


def _find_warning(api: KubeApi, spec: Json) -> str:
    warnings = api.try_creating(api.path("ResourceClaim", objects.NAMESPACE), objects.claim("tried", spec))
    return " ".join(warnings)


def _cel(expression: str) -> list[Json]:
    return [{"cel": {"expression": expression}}]


def _device_class(expression: str, config: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "tried"},
        "spec": {"selectors": _cel(expression), "config": [config]},
    }
