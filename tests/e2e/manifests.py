"""The manifests that users apply, read from the repository, and fitted to a node without a registry."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.kube import Json
from tests.e2e.objects import REPORT
from tests.e2e.process import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
ADMISSION = REPOSITORY / "deploy" / "admission"
_CLASSES = REPOSITORY / "deviceclasses"


def namespace(name: str) -> Json:
    """A plain namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def read_documents(path: Path) -> list[Json]:
    """All documents of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def read_device_classes(*, with_extended_resource: bool) -> list[Json]:
    """The device classes, in one of the two forms of ``gpu.nvidia.com``."""
    plain = "extended-resource/gpu.nvidia.com" if with_extended_resource else "gpu.nvidia.com"
    names = [plain, "mig.nvidia.com", "topology.gpu.nvidia.com"]
    return [document for name in names for document in read_documents(_CLASSES / f"{name}.yaml")]


def fit_example(document: Json, namespace_name: str) -> Json:
    """An example's document for this cluster: the local image, a container that reports and stays, our namespace.

    A namespace of the example becomes ours, with its labels.
    """
    fitted: Json = {**document, "metadata": {**document["metadata"]}}
    fitted["metadata"]["name" if fitted["kind"] == "Namespace" else "namespace"] = namespace_name
    if fitted["kind"] == "Pod":
        containers = [
            {**container, "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", REPORT]}
            for container in fitted["spec"]["containers"]
        ]
        fitted["spec"] = {**fitted["spec"], "containers": containers, "terminationGracePeriodSeconds": 1}
    return fitted
