"""Small clusters in which something waits, for tests of what people are told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from driver.api.fence import CONTROLLER, SCHEDULER
from driver.cli.gpu.explanation import build_explanation, find_subject
from driver.cli.gpu.reading import Reading, SeenEvent, hold_nodes
from driver.cli.gpu.views import ExplainView
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, digest_allocation
from tests.unit.controller.world import NAMESPACE, NOW_S, World, machine, request

BOARDS = "hgx-a100-4x2"
"""Two islands of four GPUs."""
AT = "2027-01-15T06:30:00Z"
"""One hour and a half before ``NOW_S``."""


def gpu(machine_name: str, *positions: int) -> tuple[str, ...]:
    """Names of a machine's GPUs by position."""
    names = sorted(device.name for device in machine(machine_name))
    return tuple(names[at] for at in positions)


def occupy(
    world: World, name: str, node: str, devices: Sequence[str], *, at: str = AT, by: str = "controller", pods: bool = True
) -> Claim:
    """A claim with these devices, and a pod that runs with it."""
    if ("Claim", name) not in world.objects:
        world.claim(name, request(count=len(devices)))
    world.allocate(name, node, *devices)
    allocation = world.get(Claim, name).status.allocation
    assert allocation is not None
    digest = digest_allocation(allocation.devices.results) if by == "controller" else "another"
    status: dict[str, Any] = json.loads(msgspec.json.encode(world.get(Claim, name)))["status"]
    status["allocation"]["allocationTimestamp"] = at
    status["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}] if pods else []
    claim = world.change_claim(name, status=status, metadata={"annotations": {ALLOCATION_ANNOTATION: digest}})
    if pods:
        world.pod(name, name, nodeName=node, status={"phase": "Running"})
    return claim


def islands(*nodes: str, taken: Mapping[str, Sequence[int]] | None = None) -> World:
    """Nodes of two islands of four; by default two GPUs of each island are somebody's, by two claims a node."""
    world = World()
    world.classes()
    for node in nodes:
        world.node(node, machine(BOARDS))
        if taken is None:
            occupy(world, f"{node}-one", node, gpu(BOARDS, 0, 1))
            occupy(world, f"{node}-two", node, gpu(BOARDS, 4, 5))
    for node, positions in (taken or {}).items():
        occupy(world, f"{node}-one", node, gpu(BOARDS, *positions))
    return world


def cut_gpus(node: str, *, is_fenced: bool = False) -> World:
    """A node of two GPUs that claims may have in parts, of kube-scheduler's or of the controller's."""
    world = World()
    world.classes()
    world.node(node)
    world.divide(node, value=CONTROLLER if is_fenced else SCHEDULER)
    return world


def read(world: World, *notes: str) -> Reading:
    """What would be read of it."""
    pods = {(item.metadata.namespace, item.metadata.name): item for item in world.objects.values() if isinstance(item, Pod)}
    return Reading(cluster=world.cluster, pods=pods, notes=notes)


def explain(world: World, name: str, events: Sequence[SeenEvent] = (), *, is_held: bool = False) -> ExplainView:
    """What is said of a pod or a claim."""
    reading = hold_nodes(read(world), NOW_S) if is_held else read(world)
    return build_explanation(reading, find_subject(reading, NAMESPACE, name), events, NOW_S)
