"""The pods that other projects' controllers make of their objects, as far as claims are concerned.

None of those controllers runs here. Taken from each object is its pod template, so that it can be judged, and run, as a pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.kube import Json

_OF_KSERVE = {"minReplicas", "maxReplicas"}
"""Fields of a predictor that are no pod's."""


def find_pod_specs(document: Json) -> dict[str, Json]:
    """The spec of each kind of pod that the object stands for, by a name; empty for objects without pods."""
    return dict(_FINDERS.get(document["kind"], _find_none)(document))


def make_pods(document: Json) -> list[Json]:
    """A pod of each kind."""
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec, "restartPolicy": "Never"}}
        for name, spec in find_pod_specs(document).items()
    ]


def _find_none(_document: Json) -> Iterator[tuple[str, Json]]:
    yield from ()


def _find_in_template(document: Json) -> Iterator[tuple[str, Json]]:
    yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def _find_in_predictor(document: Json) -> Iterator[tuple[str, Json]]:
    predictor = document["spec"]["predictor"]
    yield f"{document['metadata']['name']}-predictor", {key: predictor[key] for key in predictor if key not in _OF_KSERVE}


def _find_in_groups(document: Json) -> Iterator[tuple[str, Json]]:
    spec = document["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        name = f"{document['metadata']['name']}-{group.get('groupName', 'head')}"
        yield name, group["template"]["spec"]


def _find_in_service(document: Json) -> Iterator[tuple[str, Json]]:
    """As the NIM operator's documentation has it: one container, and a claim for each entry of ``draResources``."""
    name, spec = document["metadata"]["name"], document["spec"]
    claims = [{"name": f"claim-{place}", **entry} for place, entry in enumerate(spec["draResources"])]
    container = {
        "name": name,
        "image": f"{spec['image']['repository']}:{spec['image']['tag']}",
        "resources": {"claims": [{"name": claim["name"]} for claim in claims]},
    }
    yield name, {"containers": [container], "resourceClaims": claims}


_FINDERS = {
    "Job": _find_in_template,
    "Deployment": _find_in_template,
    "InferenceService": _find_in_predictor,
    "RayCluster": _find_in_groups,
    "NIMService": _find_in_service,
}
