"""A case of kube-scheduler's filters, judged by ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from driver.controller.books.node_room import NodeRooms
from driver.controller.books.volumes import Volumes
from driver.controller.deciding.pod_fit import build_pod_ask, list_misfits
from driver.controller.objects.model import Node, Pod
from driver.controller.objects.pod_use import build_pod_use


def judge(case: Mapping[str, Any]) -> list[str]:
    """What keeps the pod off the node, as the oracle says it: ``taint``, ``port``, and what is short with the numbers."""
    pod, node = msgspec.convert(case["pod"], Pod), msgspec.convert(case["node"], Node)
    rooms = NodeRooms()
    rooms.set_node(node.metadata.name, node.status.allocatable)
    for other in case["others"]:
        rooms.put(other["metadata"]["uid"], build_pod_use(msgspec.convert(other, Pod)), node.metadata.name)
    ask, room = build_pod_ask(pod, Volumes()), rooms.room(node.metadata.name)
    found = {_name(each.kind) for each in list_misfits(ask, node, room)} - {""}
    shortages = room.list_shortages(ask.use, ask.pods, ask.uids)
    return sorted(found | {f"{each.resource} {each.need} {each.left} {each.capacity}" for each in shortages})


def translate(theirs: list[str]) -> list[str]:
    """The oracle's answer in our terms: what is left instead of what is used, and a cordon is one thing with its taint."""
    ours = set()
    for each in theirs:
        words = each.split()
        if len(words) == 4:
            resource, need, used, capacity = words[0], *map(int, words[1:])
            ours.add(f"{resource} {need} {max(0, capacity - used)} {capacity}")
        else:
            ours.add("taint" if each == "unschedulable" else each)
    return sorted(ours)


def _name(kind: str) -> str:
    starts = {
        "the pod must": "name",
        "node selector": "affinity",
        "required": "affinity",
        "taint": "taint",
        "cordoned": "taint",
        "host port": "port",
    }
    return next((name for start, name in starts.items() if kind.startswith(start)), "")
