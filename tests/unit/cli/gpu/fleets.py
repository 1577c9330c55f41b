"""Fleets for tests of status and topology: what would be read of a small cluster."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from rich.console import Console

from driver.api.claim_status_v1 import DeviceStatus
from driver.api.resource_v1 import Taint
from driver.cli.gpu.claim_status import find_subject
from driver.cli.gpu.fleet_reading import FleetReading
from driver.cli.gpu.fleet_status import build_status
from driver.cli.gpu.node_topology import build_node_topology
from driver.cli.gpu.status_tables import build_status_tables
from driver.cli.gpu.status_views import StatusView
from driver.cli.gpu.topology_views import TopologyView
from driver.controller.objects.model import Pod
from driver.controller.objects.taint_rules import DeviceTaintRule
from tests.unit.cli.gpu.stories import BOARDS, cut_gpus, gpu, islands, occupy
from tests.unit.controller.world import NAMESPACE, NOW_S, World, machine, policy, request

SICK_SINCE = "2027-01-15T07:55:00Z"
"""Five minutes before ``NOW_S``."""


XID = Taint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule", time_added=SICK_SINCE)


def read_fleet(world: World, **more: Any) -> FleetReading:
    """What ``kubectl gpu status`` would read of it."""
    items = list(world.objects.values())
    pods = {(each.metadata.namespace, each.metadata.name): each for each in items if isinstance(each, Pod)}
    rules = tuple(each for each in items if isinstance(each, DeviceTaintRule))
    return FleetReading(cluster=world.cluster, pods=pods, rules=rules, **more)


def status(world: World, name: str | None = None, **more: Any) -> StatusView:
    reading = read_fleet(world, **more)
    return build_status(reading, None if name is None else find_subject(reading, NAMESPACE, name))


def show(view: StatusView, width: int = 80, *, is_full: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False)
    console.print(build_status_tables(view, width, NOW_S, is_full=is_full))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def topology(world: World) -> tuple[StatusView, TopologyView]:
    """The fleet's status and its topology."""
    seen = status(world)
    driver, nodes = world.cluster.driver, world.cluster.fleet.nodes
    built = tuple(build_node_topology(driver, nodes[each.node], each) for each in seen.nodes)
    return seen, TopologyView(driver=driver, nodes=built, notes=())


def taint(world: World, node: str, kind: str, at: int, mark: Taint, allocator: str = "controller") -> None:
    """A GPU of a node is tainted by the node's driver."""
    name = gpu(kind, at)[0]
    devices = machine(kind, allocator)
    world.slice(
        node, [msgspec.structs.replace(each, taints=(*each.taints, mark)) if each.name == name else each for each in devices]
    )


def sick_fleet() -> World:
    """``islands`` with an XID on node-b, a rule on node-a, an unfenced node, a draining one, and two pods that wait."""
    world = islands("node-a", "node-b")
    taint(world, "node-b", BOARDS, 3, XID)
    world.rule("bad", pool="node-a", device=gpu(BOARDS, 0)[0])
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.node("node-x", machine("dgx-1v", "draining"))
    world.job("big", request(device_class="topology", count=4), devices={"config": [policy(mode="required")]})
    world.job("gone", request(device_class="nothing", count=4))
    return world


def partitioned() -> World:
    """A node of two GPUs, of the first of which two claims have MIG devices."""
    world = cut_gpus("node-m")
    for name, profile, at in (("small", "1g.10gb", 6), ("large", "3g.40gb", 0)):
        devices = world.cluster.fleet.nodes["node-m"].devices
        found = [
            each.name
            for each in devices
            if each.name.startswith("gpu-0-") and each.attributes["profile"].string == profile and each.name.endswith(f"-{at}")
        ]
        occupy(world, name, "node-m", found[:1], by="scheduler")
    return world


def condition(device: str, pool: str, state: str = "False") -> DeviceStatus:
    """What a node says of a device."""
    body = {"type": "Healthy", "status": state, "reason": "Xid", "message": "XID 79", "lastTransitionTime": SICK_SINCE}
    return msgspec.convert({"driver": "gpu.nvidia.com", "pool": pool, "device": device, "conditions": [body]}, DeviceStatus)
