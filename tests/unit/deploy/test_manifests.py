"""Every manifest that users copy is legal in the strictest reading of each Kubernetes version that we serve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from driver.api.resource_v1 import Attribute, Device
from driver.api.topology_policy import Policy, decode_policy
from driver.cel import build_view, compile_selector

ROOT = Path(__file__).parents[3]
CLASSES = sorted((ROOT / "deviceclasses").rglob("*.yaml"))
OTHERS = sorted((ROOT / "deploy" / "examples" / "workloads").glob("*.yaml"))  # tests/unit/docs/test_workloads.py
QUOTAS = sorted((ROOT / "deploy" / "examples" / "quota").glob("*.yaml"))
EXAMPLES = sorted({*(ROOT / "deploy" / "examples").rglob("*.yaml")} - {*OTHERS, *QUOTAS})
POLICIES = sorted((ROOT / "deploy" / "admission").glob("*.yaml"))
MANIFESTS = [*CLASSES, *EXAMPLES, *QUOTAS, *POLICIES]
KUBERNETES = ("1.34", "1.37")
CLASS_NAMES = {"gpu.nvidia.com", "mig.nvidia.com", "topology.gpu.nvidia.com"}
MIG_CONSTRAINT = "gpu.nvidia.com/parentUUID"
OUR_CONSTRAINTS = {MIG_CONSTRAINT, "gpu.nvidia.com/nvlinkIsland", "gpu.nvidia.com/nvlinkPair", "gpu.nvidia.com/nvlinkQuad"}


def read_documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def device_spec(document: dict[str, Any]) -> dict[str, Any]:
    """The ``devices`` of a claim or template; empty for other kinds."""
    spec = document.get("spec", {})
    found: dict[str, Any] = spec.get("spec", spec).get("devices", {})
    return found


def read_requests(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each request of a claim, alternatives one by one."""
    for request in device_spec(document).get("requests", []):
        yield from request.get("firstAvailable", [request.get("exactly", {})])


def file_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("path", MANIFESTS, ids=file_id)
def test_manifest_is_legal(path: Path, version: str) -> None:
    """No unknown field, no wrong type: a mistyped field would be dropped in silence on a cluster."""
    for document in read_documents(path):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=file_id)
def test_manifest_says_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", EXAMPLES, ids=file_id)
def test_example_holds_together(path: Path) -> None:
    """Each pod names a claim or template of its own file, and each container a claim (and request) of its pod."""
    documents = read_documents(path)
    names = {document["metadata"]["name"] for document in documents if document["kind"].startswith("ResourceClaim")}
    requests = {request["name"] for document in documents for request in device_spec(document).get("requests", [])}
    pods = [document["spec"] for document in documents if document["kind"] == "Pod"]
    assert pods
    for pod in pods:
        claims = pod.get("resourceClaims", [])
        assert {claim.get("resourceClaimName", claim.get("resourceClaimTemplateName")) for claim in claims} <= names
        for container in pod["containers"]:
            for use in container["resources"].get("claims", []):
                assert use["name"] in {claim["name"] for claim in claims}
                assert use.get("request") in {None, *requests}


@pytest.mark.parametrize("path", EXAMPLES, ids=file_id)
def test_example_asks_for_what_exists(path: Path) -> None:
    """Classes are those of ``deviceclasses/``, and constraints name an attribute that each device of the kind has."""
    documents = read_documents(path)
    own = {document["metadata"]["name"] for document in documents if document["kind"] == "DeviceClass"}
    for document in documents:
        assert {request["deviceClassName"] for request in read_requests(document)} <= CLASS_NAMES | own
        constraints = device_spec(document).get("constraints", [])
        assert {constraint["matchAttribute"] for constraint in constraints} <= OUR_CONSTRAINTS


def test_a_quota_names_every_class() -> None:
    """A class that is left out is not limited."""
    for path in QUOTAS:
        (quota,) = read_documents(path)
        suffix = ".deviceclass.resource.k8s.io/devices"
        assert {name.removesuffix(suffix) for name in quota["spec"]["hard"] if name.endswith(suffix)} == CLASS_NAMES


def test_classes_are_complete() -> None:
    """The extended-resource class differs from the plain one in nothing but its resource name."""
    plain = yaml.safe_load((ROOT / "deviceclasses" / "gpu.nvidia.com.yaml").read_text())
    extended = yaml.safe_load((ROOT / "deviceclasses" / "extended-resource" / "gpu.nvidia.com.yaml").read_text())
    assert extended["spec"].pop("extendedResourceName") == "nvidia.com/gpu"
    assert extended == plain
    assert {read_documents(path)[0]["metadata"]["name"] for path in CLASSES} == CLASS_NAMES


def test_shared_claim_is_one_claim() -> None:
    documents = read_documents(ROOT / "deploy" / "examples" / "shared-claim.yaml")
    users = [document["spec"]["resourceClaims"][0] for document in documents if document["kind"] == "Pod"]
    assert users == [{"name": "gpu", "resourceClaimName": "shared-gpu"}] * 2


def read_policies(document: dict[str, Any]) -> Iterator[Policy]:
    """The TopologyPolicies of a claim, a template or a class."""
    for config in device_spec(document).get("config", []) or document.get("spec", {}).get("config", []):
        policy = decode_policy(json.dumps(config["opaque"]["parameters"]).encode(), document["metadata"]["name"])
        if policy is not None:
            yield policy


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/examples/topology").glob("*.yaml")), ids=file_id)
def test_topology_examples_are_for_the_controller_alone(path: Path) -> None:
    """R4: else kube-scheduler would serve them without a look at their policy, which must be one that the controller reads."""
    documents = read_documents(path)
    own = {document["metadata"]["name"] for document in documents if document["kind"] == "DeviceClass"}
    asked = {request["deviceClassName"] for document in documents for request in read_requests(document)}
    assert asked <= {"topology.gpu.nvidia.com", *own}
    for document in documents:
        list(read_policies(document))
        if document["kind"] == "DeviceClass":
            assert "allocator == 'controller'" in document["spec"]["selectors"][0]["cel"]["expression"]


def test_the_topology_class_is_the_plain_class_and_the_fence() -> None:
    """Exactly the controller's whole GPUs, as Kubernetes evaluates it."""
    (document,) = read_documents(ROOT / "deviceclasses" / "topology.gpu.nvidia.com.yaml")
    selector = compile_selector(document["spec"]["selectors"][0]["cel"]["expression"])

    def matches(kind: str, side: str) -> bool:
        attributes = {"type": Attribute(string=kind), "allocator": Attribute(string=side)}
        return selector.matches(build_view("gpu.nvidia.com", Device(name="a", attributes=attributes)))

    sides = ("scheduler", "draining", "controller")
    matching = {(kind, side) for kind in ("gpu", "mig") for side in sides if matches(kind, side)}
    assert matching == {("gpu", "controller")}


def test_the_fences_policies_judge_every_version_and_only_what_changes() -> None:
    """Specs of claims never change: judging updates would only lock claims that are older than the policy."""
    for name in ("refuse-fence-tolerations", "warn-required-policy"):
        path = ROOT / "deploy" / "admission" / f"{name}.yaml"
        policy, binding = read_documents(path)
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        assert policy["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
            assert rule["apiVersions"] == ["v1"]
            assert "UPDATE" not in rule["operations"] or rule["resources"] == ["deviceclasses"]
