"""Every manifest that users copy is legal in the strictest reading of each Kubernetes version that we serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[3]
CLASSES = sorted((ROOT / "deviceclasses").rglob("*.yaml"))
EXAMPLES = sorted((ROOT / "deploy" / "examples").glob("*.yaml"))
KUBERNETES = ("1.34", "1.37")
CLASS_NAMES = {"gpu.nvidia.com", "mig.nvidia.com"}
OUR_CONSTRAINTS = {"gpu.nvidia.com/nvlinkIsland", "gpu.nvidia.com/nvlinkPair", "gpu.nvidia.com/nvlinkQuad"}


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
@pytest.mark.parametrize("path", [*CLASSES, *EXAMPLES], ids=file_id)
def test_manifest_is_legal(path: Path, version: str) -> None:
    """No unknown field, no wrong type: a mistyped field would be dropped in silence on a cluster."""
    for document in read_documents(path):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", [*CLASSES, *EXAMPLES], ids=file_id)
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
    """Classes are those of ``deviceclasses/``, and constraints name an attribute that each whole GPU has."""
    for document in read_documents(path):
        assert {request["deviceClassName"] for request in read_requests(document)} <= CLASS_NAMES
        constraints = device_spec(document).get("constraints", [])
        assert {constraint["matchAttribute"] for constraint in constraints} <= OUR_CONSTRAINTS


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
