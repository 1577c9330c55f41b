"""The plain manifests are legal, whole, and what the chart says today."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.deploy.rendered import MANIFESTS, OBJECTS, ROOT, find

_NAMESPACE = MANIFESTS.with_name("0-namespace.yaml")
_HELM = Path(os.environ.get("DEVCLUSTER_CACHE") or Path.home() / ".cache" / "gpu-dra-devcluster") / "bin-node" / "helm"


@pytest.mark.skipif(
    not (shutil.which("helm") or _HELM.exists()), reason="no helm here; the chart's end-to-end scenario compares, too"
)
def test_they_are_what_the_chart_renders_today(tmp_path: Path) -> None:
    """Else: make manifests."""
    made = tmp_path / "gpu-dra.yaml"
    subprocess.run([ROOT / "hack" / "manifests.sh", made], check=True, timeout=60)
    assert made.read_text() == MANIFESTS.read_text()


@pytest.mark.parametrize("version", ["1.34", "1.37"])
@pytest.mark.parametrize("body", OBJECTS, ids=lambda body: f"{body['kind']}-{body['metadata']['name']}")
def test_each_object_is_legal(body: dict[str, Any], version: str) -> None:
    """No unknown field and no wrong type."""
    kubernetes_validate.validate(body, version, strict=True)


def test_each_object_is_there_once_and_in_the_namespace() -> None:
    counts = Counter((each["kind"], each["metadata"]["name"]) for each in OBJECTS)
    assert max(counts.values()) == 1
    namespace = yaml.safe_load(_NAMESPACE.read_text())
    assert {each["metadata"]["namespace"] for each in OBJECTS if "namespace" in each["metadata"]} == {
        namespace["metadata"]["name"]
    }
    assert namespace["metadata"]["labels"] == dict.fromkeys(
        (f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn")), "privileged"
    )


def test_the_selectors_choose_the_pods_and_nothing_else() -> None:
    """Of the workloads, the budget, the service, the spread and the network policy."""
    for kind in ("DaemonSet", "Deployment"):
        spec = find(kind)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
    labels = find("Deployment")["spec"]["template"]["metadata"]["labels"]
    (spread,) = find("Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    others = find("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    for selector in (find("PodDisruptionBudget")["spec"]["selector"], spread["labelSelector"]):
        assert selector["matchLabels"].items() <= labels.items()
        assert not selector["matchLabels"].items() <= others.items()
    for chosen in (labels, others):
        assert find("NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= chosen.items()
