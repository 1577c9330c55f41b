"""Every example of ``deploy/examples`` does what its first line says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.e2e import manifests, objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE, ContainerView
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_GPUS_SEEN = {
    "admin-access": {"gpu-monitor/main": 8},
    "containers-with-own-requests": {"train-and-serve/train": 2, "train-and-serve/serve": 1},
    "extended-resource": {"extended-resource/main": 2},
    "nvlink-island": {"nvlink-island/main": 4},
    "nvlink-pair": {"nvlink-pair/main": 2},
    "nvlink-preferred": {"nvlink-preferred/main": 4},
    "nvlink-quad": {"nvlink-quad/main": 4},
    "shared-claim": {"shared-gpu-1/main": 1, "shared-gpu-2/main": 1},
}
"""How many GPUs each container of an example sees on a DGX H100; one where nothing is said."""


def _make(path: Path) -> Callable[[Stage], str]:
    def run(stage: Stage) -> str:
        is_extended = path.stem == "extended-resource"
        for body in manifests.read_device_classes(with_extended_resource=is_extended):
            stage.api.apply(body)
        stage.start_plugin("dgx-h100")
        stage.wait_pool(devices=8)
        documents = [manifests.fit_example(document, NAMESPACE) for document in manifests.read_documents(path)]
        try:
            views = _run_documents(stage, documents)
            return _check(path.stem, views)
        finally:
            for body in manifests.read_device_classes(with_extended_resource=False):
                stage.api.apply(body)

    return run


def _run_documents(stage: Stage, documents: list[Json]) -> dict[str, ContainerView]:
    for document in documents:
        stage.api.apply(document)
    views = {}
    for pod in (document for document in documents if document["kind"] == "Pod"):
        name = pod["metadata"]["name"]
        stage.wait_pod(name, objects.is_running, what="running")
        for container in pod["spec"]["containers"]:
            views[f"{name}/{container['name']}"] = stage.read_view(name, container["name"])
    return views


def _check(example: str, views: dict[str, ContainerView]) -> str:
    expected = _GPUS_SEEN.get(example) or dict.fromkeys(views, 1)
    seen = {name: len(view.uuids) for name, view in views.items()}
    expect(seen == expected, f"containers see {seen} GPUs, not {expected}")
    for name, view in views.items():
        expect(view.smi_uuids == view.uuids, f"{name} is told of {view.uuids} and nvidia-smi lists {view.smi_uuids}")
        expect(len(view.gpu_nodes) == len(view.uuids), f"{name} has the nodes {view.gpu_nodes}")
    distinct = {uuid for view in views.values() for uuid in view.uuids}
    total = 1 if example == "shared-claim" else sum(seen.values())
    expect(len(distinct) == total, f"{total} different GPUs expected, seen {sorted(distinct)}")
    return ", ".join(f"{name}: {count}" for name, count in seen.items())


for _path in sorted(manifests.EXAMPLES.glob("*.yaml")):
    SUITE.add(f"example {_path.stem}", needs_minor=36 if _path.stem == "extended-resource" else 34)(_make(_path))
