"""Claims that the fence lets in and that it refuses: one table for the admission policy and for the controller's search."""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]

KEY = "gpu.nvidia.com/allocator"
LOST = {"key": "gpu.nvidia.com/gpu-lost", "operator": "Exists"}


class Case(NamedTuple):
    """Requests of a claim, and whether they climb over the fence."""

    id: str
    requests: list[Json]
    climbs: bool


def exactly(*tolerations: Json, **more: object) -> list[Json]:
    """One request for a GPU with these tolerations."""
    body: Json = {"deviceClassName": "gpu.nvidia.com", **more}
    return [{"name": "gpus", "exactly": body | ({"tolerations": list(tolerations)} if tolerations else {})}]


def first_available(*alternatives: list[Json]) -> list[Json]:
    """One request with alternatives, of which each has these tolerations."""
    bodies = [
        {"name": f"way-{number}", "deviceClassName": "gpu.nvidia.com"} | ({"tolerations": tolerations} if tolerations else {})
        for number, tolerations in enumerate(alternatives)
    ]
    return [{"name": "gpus", "firstAvailable": bodies}]


CASES = (
    Case("no toleration", exactly(), climbs=False),
    Case("another taint's key", exactly(LOST), climbs=False),
    Case("the key exists", exactly({"key": KEY, "operator": "Exists"}), climbs=True),
    Case("the key exists, NoSchedule", exactly({"key": KEY, "operator": "Exists", "effect": "NoSchedule"}), climbs=True),
    Case("the key exists, NoExecute", exactly({"key": KEY, "operator": "Exists", "effect": "NoExecute"}), climbs=False),
    Case("every key", exactly({"operator": "Exists"}), climbs=True),
    Case("every key, NoSchedule", exactly({"operator": "Exists", "effect": "NoSchedule"}), climbs=True),
    Case("every key, NoExecute", exactly({"operator": "Exists", "effect": "NoExecute"}), climbs=False),
    Case("equal to controller", exactly({"key": KEY, "operator": "Equal", "value": "controller"}), climbs=True),
    Case("equal to draining, by default", exactly({"key": KEY, "value": "draining"}), climbs=True),
    Case("equal to what the fence never is", exactly({"key": KEY, "operator": "Equal", "value": "scheduler"}), climbs=False),
    Case("the second of two", exactly(LOST, {"key": KEY, "operator": "Exists"}), climbs=True),
    Case("an administrator's", exactly({"operator": "Exists"}, adminAccess=True, allocationMode="All"), climbs=False),
    Case("not an administrator's after all", exactly({"operator": "Exists"}, adminAccess=False), climbs=True),
    Case("no alternative", first_available([], [LOST]), climbs=False),
    Case("the last alternative", first_available([], [{"key": KEY, "operator": "Exists"}]), climbs=True),
    Case("every key in an alternative", first_available([{"operator": "Exists"}], []), climbs=True),
    Case("one request of two", [*exactly(), {**exactly({"operator": "Exists"})[0], "name": "more"}], climbs=True),
)
