"""Small fleets of GPUs that claims divide, and claims for their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.allocator.device_node import DeviceNode
from driver.allocator.fleet import Fleet
from driver.api.resource_v1 import Device
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import device_class, request, selector

ONE, ONE_DOUBLE, TWO, THREE, FOUR, SEVEN = "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"
H100 = "h100-80gb"
CLASSES = {"gpu": device_class(selectors=[selector("type == gpu")]), "mig": device_class(selectors=[selector("type == mig")])}


class AttributeEngine:
    """Selectors ``name == text``; a device without the attribute does not match."""

    def view(self, _driver: str, device: Device) -> object:
        return device

    def forget(self, _view: object) -> None:
        """Nothing is prepared."""

    def matches(self, expression: str, view: object) -> bool:
        assert isinstance(view, Device)
        name, _, text = expression.partition(" == ")
        return name in view.attributes and view.attributes[name].string == text


def mig_fleet(nodes: Mapping[str, int], table: str = H100, **options: Any) -> Fleet:
    """Nodes with so many GPUs each."""
    fleet = Fleet(AttributeEngine())
    for name, gpus in nodes.items():
        fleet.set_node(name, [build_mig_pool(name, table, gpus, **options)])
    return fleet


def part(profile: str, name: str = "mig", **fields: Any) -> dict[str, Any]:
    """A request for partitions of a profile."""
    return {"name": name, "exactly": {"deviceClassName": "mig", "selectors": [selector(f"profile == {profile}")], **fields}}


def whole(name: str = "gpus", **fields: Any) -> dict[str, Any]:
    """A request for whole GPUs."""
    return request(name, **fields)


def position(node: DeviceNode, gpu: int, profile: str | None = None, start: int | None = None) -> int:
    """Where a partition stands, or the whole GPU."""
    if profile is None:
        return next(at for at, id_ in enumerate(node.ids) if id_.device == f"gpu-{gpu}")
    return next(
        at
        for at, id_ in enumerate(node.ids)
        if id_.device.startswith(f"gpu-{gpu}-mig-{profile.replace('.', '')}-") and id_.device.endswith(f"-{start}")
    )
