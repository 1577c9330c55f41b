"""Pods and nodes as people write them, for tests of what fits where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from driver.controller.objects.model import Node, NodeSelector, Pod

ROOM: Mapping[str, str] = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}


def pod(name: str = "job", *, status: Mapping[str, Any] | None = None, **spec: Any) -> Pod:
    """A pod from fields of its spec in the API's own names; one container of nothing when none is given."""
    spec.setdefault("containers", [{"name": "main"}])
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": dict(status or {})}, Pod)


def container(
    cpu: str = "", memory: str = "", *, ports: Sequence[Mapping[str, Any]] = (), more: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A container with these requests."""
    requests = {"cpu": cpu, "memory": memory, **(more or {})}
    return {
        "name": "c",
        "resources": {"requests": {key: value for key, value in requests.items() if value}},
        "ports": list(ports),
    }


def asks_for(name: str = "job", **requests: str) -> Pod:
    """A pod of one container."""
    return pod(name, containers=[{"name": "main", "resources": {"requests": requests}}])


def node(
    name: str = "node-a",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    allocatable: Mapping[str, str] = ROOM,
) -> Node:
    """A node with plenty of everything."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})},
            "spec": {"unschedulable": unschedulable, "taints": list(taints)},
            "status": {"allocatable": dict(allocatable)},
        },
        Node,
    )


def selector(*terms: Mapping[str, Any]) -> NodeSelector:
    """A node selector of these terms."""
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A term of one expression over labels."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    """A term of one expression over fields."""
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


def affine(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """``spec.affinity`` that requires one of the terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
