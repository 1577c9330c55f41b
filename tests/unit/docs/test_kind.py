"""The files for kind are of the form that kind and the chart take. kind itself is not here."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no stubs of its own
import pytest
import yaml

from hack.checks.tree import REPOSITORY

KIND = REPOSITORY / "hack" / "kind"
CHART = REPOSITORY / "deploy" / "helm" / "gpu-dra"
VALUES: dict[str, Any] = yaml.safe_load((KIND / "values.yaml").read_text())
CLUSTER: dict[str, Any] = yaml.safe_load((KIND / "cluster.yaml").read_text())
GATES = {"DRADeviceTaints", "DRAPartitionableDevices", "DRAConsumableCapacity", "DRAExtendedResource", "ResourceHealthStatus"}


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """As helm merges values: null takes a default away."""
    merged = copy.deepcopy(base)
    for key, value in over.items():
        merged[key] = merge(merged[key], value) if isinstance(value, dict) and isinstance(merged.get(key), dict) else value
    return merged


def find_helm() -> str | None:
    """The one of the PATH, else the one that the dev cluster has built."""
    cache = Path(os.environ.get("DEVCLUSTER_CACHE", Path.home() / ".cache" / "gpu-dra-devcluster"))
    built = cache / "bin-node" / "helm"
    return shutil.which("helm") or (str(built) if built.exists() else None)


def test_the_cluster_is_of_the_form_that_kind_reads() -> None:
    assert {key: CLUSTER[key] for key in ("kind", "apiVersion", "name")} == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": "gpu-dra",
    }
    assert set(CLUSTER) == {"kind", "apiVersion", "name", "featureGates", "nodes"}
    assert [node["role"] for node in CLUSTER["nodes"]] == ["control-plane", "worker", "worker"]


def test_the_gates_are_on() -> None:
    assert dict.fromkeys(GATES, True) == CLUSTER["featureGates"]


def test_the_chart_takes_the_values() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(merge(defaults, VALUES), json.loads((CHART / "values.schema.json").read_text()))


def test_the_image_of_the_values_is_the_one_that_the_script_loads() -> None:
    image = f"{VALUES['image']['repository']}:{VALUES['image']['tag']}"
    assert f"image={image}\n" in (KIND / "up.sh").read_text()
    assert VALUES["image"]["pullPolicy"] == "Never"


@pytest.mark.skipif(find_helm() is None, reason="there is no helm: hack/devcluster/devcluster build makes one")
def test_the_chart_renders_without_a_right_that_a_mock_does_not_need() -> None:
    command = [str(find_helm()), "template", "gpu-dra", str(CHART), "-n", "gpu-dra", "--kube-version", "1.36.0"]
    done = subprocess.run([*command, "--values", str(KIND / "values.yaml")], capture_output=True, text=True, check=True)
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    (plugin,) = [each for each in objects if each["kind"] == "DaemonSet"]
    pod = plugin["spec"]["template"]["spec"]
    assert "NODE_NAME" in {variable["name"] for variable in pod["containers"][0]["env"]}
    assert "affinity" not in pod
    assert "hostPID" not in pod
    assert "privileged" not in pod["containers"][0]["securityContext"]
    assert "--nvml=mock:dgx-h100@$(NODE_NAME)" in pod["containers"][0]["args"]
    (plain,) = [each for each in objects if each["kind"] == "DeviceClass" and each["metadata"]["name"] == "gpu.nvidia.com"]
    assert plain["spec"]["extendedResourceName"] == "nvidia.com/gpu"
