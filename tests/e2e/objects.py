"""Builders of the objects that scenarios create, and readings of what they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.e2e.kube import Json

NAMESPACE = "e2e"
GPU_CLASS = "gpu.nvidia.com"
DRIVER = "gpu.nvidia.com"
DRAINED = "gpu.nvidia.com/allocator-drained"
"""The annotation of the controller's on a node that it let go."""
END_OF_REPORT = "END"
REPORT = (
    "env | grep ^GPU_DRA_ | sort; for n in /dev/nvidia*; do echo NODE $n; done; "
    f"nvidia-smi -L 2>&1 | sed 's/^/SMI /'; echo {END_OF_REPORT}; exec sleep 100000"
)
"""What a test container runs: it says what it sees, then stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """What a container says that it sees."""

    uuids: tuple[str, ...]
    """From the driver's variables."""
    gpu_nodes: tuple[str, ...]
    """``/dev/nvidia0`` and so on, without the control nodes."""
    smi_uuids: tuple[str, ...]
    """From ``nvidia-smi -L``."""


def parse_view(log: str) -> ContainerView:
    """A test container's report."""
    nodes = re.findall(r"^NODE (/dev/nvidia\d+)$", log, flags=re.MULTILINE)
    return ContainerView(
        uuids=tuple(sorted(re.findall(r"^GPU_DRA_DEVICE_\w+=(\S+)$", log, flags=re.MULTILINE))),
        gpu_nodes=tuple(sorted(nodes)),
        smi_uuids=tuple(sorted(re.findall(r"^SMI .*\(UUID: ([^)]+)\)", log, flags=re.MULTILINE))),
    )


def exactly(name: str = "gpus", *, count: int = 1, selector: str = "", **more: object) -> Json:
    """One request for so many GPUs."""
    body: Json = {"deviceClassName": GPU_CLASS, "count": count, **more}
    if selector:
        body["selectors"] = [{"cel": {"expression": selector}}]
    return {"name": name, "exactly": body}


def same(attribute: str, *requests: str) -> Json:
    """The constraint that all devices have the same value."""
    return {"requests": list(requests or ("gpus",)), "matchAttribute": f"{DRIVER}/{attribute}"}


def claim_spec(requests: Sequence[Json], constraints: Sequence[Json] = (), config: Sequence[Json] = ()) -> Json:
    """The spec of a claim."""
    return {"devices": {"requests": list(requests), "constraints": list(constraints), "config": list(config)}}


def claim(name: str, spec: Json) -> Json:
    """A claim of this name."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def template(name: str, spec: Json) -> Json:
    """A template that makes such claims."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def pod(name: str, *, named: str = "", templated: str = "", grace_s: int = 1, command: str = REPORT) -> Json:
    """A pod with one container that uses one claim (or none), named or made from a template."""
    uses = {"resourceClaimName": named} if named else {"resourceClaimTemplateName": templated}
    claims = [{"name": "gpus", **uses}] if named or templated else []
    container = {
        "name": "main",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"claims": [{"name": "gpus"}] if claims else []},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_s,
            "automountServiceAccountToken": False,
            "containers": [container],
            "resourceClaims": claims,
        },
    }


def pod_with(name: str, claims: Mapping[str, Json], *, command: str = REPORT, cpu: str = "", **spec: Any) -> Json:
    """A pod with one container that uses these claims: for each entry, where it is from. ``spec`` is added to the pod's."""
    body = pod(name, command=command)
    container = body["spec"]["containers"][0]
    container["resources"] = {"claims": [{"name": entry} for entry in claims]}
    if cpu:
        container["resources"]["requests"] = {"cpu": cpu}
    body["spec"] |= {"resourceClaims": [{"name": entry, **source} for entry, source in claims.items()], **spec}
    return body


def allocation(devices: Sequence[str], *, node: str, pool: str = "", driver: str = DRIVER, config: Sequence[Json] = ()) -> Json:
    """What an allocator writes into a claim's status; the pool is the node's when not given."""
    results = [{"request": "gpus", "driver": driver, "pool": pool or node, "device": device} for device in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results, "config": list(config)},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def allocated_devices(body: Json) -> tuple[str, ...]:
    """The devices of an allocated claim, in the order of its results."""
    results = body.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return tuple(result["device"] for result in results)


def slice_devices(slices: Sequence[Json]) -> Mapping[str, Json]:
    """All devices of a pool by name, in the order of the slices."""
    ordered = sorted(slices, key=lambda each: str(each["metadata"]["name"]))
    return {device["name"]: device for each in ordered for device in each["spec"].get("devices") or []}


def attribute(device: Json, name: str) -> object:
    """The value of a device's attribute; None when it has none."""
    value: Json = device["attributes"].get(name, {})
    return next(iter(value.values()), None)


def is_pool_complete(slices: Sequence[Json]) -> bool:
    """All slices of the newest generation are there, and no older one."""
    pools = [each["spec"]["pool"] for each in slices]
    return bool(pools) and all(
        each["generation"] == pools[0]["generation"] and each["resourceSliceCount"] == len(pools) for each in pools
    )


def is_running(body: Json) -> bool:
    """All containers of the pod run."""
    statuses = body.get("status", {}).get("containerStatuses", [])
    return bool(statuses) and all("running" in status.get("state", {}) for status in statuses)


PodCondition: TypeAlias = Callable[[Json], bool]
NodePods: TypeAlias = Mapping[str, str]
"""The node of each pod."""
