"""Examples for other projects' controllers: fields that those projects publish, and pods that Kubernetes takes.

The controllers are not run. The fields are those of the projects' published types, read in December 2026: KServe's
``pkg/apis/serving/v1beta1``, KubeRay's ``ray.io_rayclusters.yaml``, Kueue's ``site/static/examples``,
the NIM operator's samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hack.checks.tree import REPOSITORY
from tests.e2e.workloads import find_pod_specs, make_pods

FILES = sorted((REPOSITORY / "deploy" / "examples" / "workloads").glob("*.yaml"))
DOCUMENTS = {path.stem: [each for each in yaml.safe_load_all(path.read_text()) if each] for path in FILES}
ALL = [(f"{stem}-{each['kind']}", each) for stem, documents in DOCUMENTS.items() for each in documents]
KUBERNETES = {"v1", "batch/v1", "apps/v1", "resource.k8s.io/v1"}
POD = "a pod's"
PUBLISHED: dict[str, Any] = {
    "serving.kserve.io/v1beta1/InferenceService": {"predictor": POD},
    "ray.io/v1/RayCluster": {
        "headGroupSpec": {"rayStartParams": ..., "template": {"spec": POD}},
        "workerGroupSpecs": {
            **dict.fromkeys(("groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams"), ...),
            "template": {"spec": POD},
        },
    },
    "apps.nvidia.com/v1alpha1/NIMService": {
        "image": dict.fromkeys(("repository", "tag", "pullPolicy", "pullSecrets"), ...),
        **dict.fromkeys(("authSecret", "replicas"), ...),
        "storage": {"nimCache": {"name": ...}},
        "draResources": dict.fromkeys(("resourceClaimName", "resourceClaimTemplateName"), ...),
        "expose": {"service": {"type": ..., "port": ...}},
    },
    "kueue.x-k8s.io/v1beta2/ResourceFlavor": {},
    "kueue.x-k8s.io/v1beta2/LocalQueue": {"clusterQueue": ...},
    "kueue.x-k8s.io/v1beta2/ClusterQueue": {
        "namespaceSelector": ...,
        "resourceGroups": {
            "coveredResources": ...,
            "flavors": {"name": ..., "resources": {"name": ..., "nominalQuota": ...}},
        },
    },
}
"""The fields of a spec that examples may use; an ellipsis is a value of any form."""


def find_unknown(value: Any, known: Any, path: str) -> list[str]:
    """Fields that the kind is not known to have."""
    if known is ... or known == POD:
        return []
    if isinstance(value, list):
        return [fault for each in value for fault in find_unknown(each, known, path)]
    if not isinstance(value, dict):
        return [f"{path} is no object"]
    unknown = [f"{path}.{key}" for key in value if key not in known]
    return unknown + [fault for key in value if key in known for fault in find_unknown(value[key], known[key], f"{path}.{key}")]


@pytest.mark.parametrize("document", [each for _, each in ALL], ids=[name for name, _ in ALL])
def test_each_object_has_fields_that_its_kind_has(document: dict[str, Any]) -> None:
    if document["apiVersion"] in KUBERNETES:
        kubernetes_validate.validate(document, "1.37", strict=True)
    else:
        known = PUBLISHED[f"{document['apiVersion']}/{document['kind']}"]
        assert find_unknown(document.get("spec", {}), known, "spec") == []


@pytest.mark.parametrize("document", [each for _, each in ALL], ids=[name for name, _ in ALL])
def test_its_pods_are_legal(document: dict[str, Any]) -> None:
    for pod in make_pods(document):
        kubernetes_validate.validate(pod, "1.34", strict=True)


@pytest.mark.parametrize("stem", sorted(DOCUMENTS))
def test_its_pods_claim_from_a_template_of_the_file(stem: str) -> None:
    documents = DOCUMENTS[stem]
    templates = {each["metadata"]["name"] for each in documents if each["kind"] == "ResourceClaimTemplate"}
    specs = [spec for each in documents for spec in find_pod_specs(each).values()]
    claiming = [spec for spec in specs if "resourceClaims" in spec]
    assert claiming
    for spec in claiming:
        (claim,) = spec["resourceClaims"]
        assert claim["resourceClaimTemplateName"] in templates
        assert spec["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
        assert not any("nvidia.com/gpu" in str(container["resources"]) for container in spec["containers"])


def test_a_field_that_a_kind_has_not_is_named() -> None:
    """The check of fields checks."""
    spec = {"draResources": [{"resourceClaimTemplate": "x"}], "imagee": {}}
    known = PUBLISHED["apps.nvidia.com/v1alpha1/NIMService"]
    assert find_unknown(spec, known, "spec") == ["spec.imagee", "spec.draResources.resourceClaimTemplate"]


def test_every_example_of_a_workload_says_what_it_shows() -> None:
    assert FILES
    assert all(Path(path).read_text().startswith("# ") for path in FILES)


def test_kueue_counts_what_the_claim_asks_by_class_alone() -> None:
    """Kueue reads class and count; selectors, constraints and configs of a claim may make it refuse the job."""
    for document in DOCUMENTS["kueue"]:
        if document["kind"] == "ResourceClaimTemplate":
            devices = document["spec"]["spec"]["devices"]
            assert set(devices) == {"requests"}
            assert all(set(request["exactly"]) == {"deviceClassName", "count"} for request in devices["requests"])
