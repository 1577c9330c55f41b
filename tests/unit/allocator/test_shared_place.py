"""Where shares of GPUs go: as partitions, to GPUs that are in use, the fullest first."""

from __future__ import annotations

from driver.allocator.fleet import Fleet, Holding
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Attribute, Capacity, Device
from tests.unit.allocator.cases import ask, chosen, fleet_of, gpus, hold, placed, request


def shared(name: str) -> Device:
    """A GPU that several claims divide by memory."""
    kind = {"type": Attribute(string="gpu")}
    return Device(name=name, attributes=kind, allow_multiple_allocations=True, capacity={"memory": Capacity(value="80Gi")})


def share(fleet: Fleet, node: str, position: int, amount: str, key: str) -> None:
    """Somebody has so much of a GPU."""
    consumed = (("memory", parse_quantity(amount)),)
    fleet.hold([Holding(device=fleet.nodes[node].ids[position], share_id=key, consumed=consumed)])


def test_a_share_goes_to_the_fullest_gpu_that_has_room() -> None:
    """Not to one that is whole, nor to the emptier one; where it does not fit there, to the next."""
    fleet = fleet_of({"a": [shared(f"gpu-{number}") for number in range(4)]})
    share(fleet, "a", 2, "20Gi", "one")
    share(fleet, "a", 3, "50Gi", "two")
    for amount, gpu in (("10Gi", "gpu-3"), ("40Gi", "gpu-2"), ("70Gi", "gpu-0")):
        asked = request(capacity={"requests": {"memory": amount}})
        assert chosen(fleet, placed(fleet, ask(asked))) == [[gpu]]


def test_a_share_goes_to_the_node_where_a_gpu_is_in_use() -> None:
    """However full the other node is."""
    fleet = fleet_of({"a": [shared("gpu-9"), *gpus(3)], "b": [shared("gpu-9"), *gpus(3)]})
    hold(fleet, "a", [position for position, id_ in enumerate(fleet.nodes["a"].ids) if id_.device in ("gpu-1", "gpu-2")])
    position = next(at for at in range(4) if fleet.nodes["b"].devices[at].allow_multiple_allocations)
    share(fleet, "b", position, "20Gi", "one")
    asked = request(capacity={"requests": {"memory": "10Gi"}})
    assert placed(fleet, ask(asked)).node == "b"
