"""Small fleets and claims for the allocator's tests, and a selector engine that needs no CEL."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from driver.allocator.decide import Placement, explain, place
from driver.allocator.device_node import DeviceId, SelectorFault
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.miss import Miss
from driver.allocator.pools import Pool
from driver.allocator.problem import ClaimAsk, Problem, build_problem
from driver.allocator.tables import positions_of
from driver.allocator.taints import Fence
from driver.api.claim_spec_v1 import DeviceClassSpec, decode_claim_spec, decode_class_spec
from driver.api.resource_v1 import Attribute, Capacity, CounterSet, Device, Taint
from driver.host.pci import SysfsPci
from driver.nvml.mock import open_mock
from driver.nvml.reader import read_machine
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices
from driver.topology.build import build_topology
from driver.topology.model import Topology

DRIVER = "gpu.nvidia.com"
CLASSES: Mapping[str, DeviceClassSpec] = {"gpu": DeviceClassSpec()}


class WordEngine:
    """Selectors of one form: ``name == text`` and ``name != text``; ``broken`` does not compile; a missing name fails."""

    def __init__(self) -> None:
        self.asked = 0

    def view(self, _driver: str, device: Device) -> object:
        return device

    def forget(self, _view: object) -> None:
        """Nothing is prepared."""

    def matches(self, expression: str, view: object) -> bool:
        assert isinstance(view, Device)
        self.asked += 1
        name, sign, text = expression.partition(" == ") if " == " in expression else expression.partition(" != ")
        if not sign:
            raise SelectorFault(f"does not compile: {expression}")
        if name not in view.attributes:
            raise SelectorFault(f"no such key: {name}")
        value = view.attributes[name]
        return (str(value.string or value.int_) == text) is (sign == " == ")


@cache
def topology_of(machine: str) -> Topology:
    """A mock machine as the node plugin sees it."""
    with tempfile.TemporaryDirectory() as folder:
        mock = open_mock(machine, Path(folder))
        mock.library.init()
        return build_topology(read_machine(mock.library, SysfsPci(mock.roots.sys)))


@cache
def devices_of(machine: str) -> tuple[Device, ...]:
    """What a mock machine publishes, unfenced."""
    return build_devices(topology_of(machine), node_uid=machine, allocator=Allocator.SCHEDULER).devices


def device(
    name: str, *, taints: Sequence[Taint] = (), capacity: Mapping[str, str] | None = None, **attributes: object
) -> Device:
    """A device with these attributes."""
    return Device(
        name=name,
        attributes={
            key: Attribute(int_=value) if isinstance(value, int) else Attribute(string=str(value))
            for key, value in attributes.items()
        },
        taints=tuple(taints),
        capacity={key: Capacity(value=value) for key, value in (capacity or {}).items()},
    )


def gpus(count: int, **attributes: Any) -> tuple[Device, ...]:
    """``gpu-0`` and so on, all alike."""
    return tuple(device(f"gpu-{number}", **attributes) for number in range(count))


def pool(name: str, devices: Sequence[Device], counters: Sequence[CounterSet] = ()) -> Pool:
    return Pool(driver=DRIVER, name=name, node=name, devices=tuple(devices), counter_sets=tuple(counters))


def fleet_of(nodes: Mapping[str, Sequence[Device]], fence: Fence | None = None) -> Fleet:
    """A fleet with one pool a node."""
    fleet = Fleet(WordEngine(), fence)
    for name, devices in nodes.items():
        fleet.set_node(name, [pool(name, devices)])
    return fleet


def hold(fleet: Fleet, node: str, positions: Sequence[int]) -> None:
    """Somebody has the devices at these positions."""
    fleet.hold(Holding(device=fleet.nodes[node].ids[at]) for at in positions)


def request(name: str = "gpus", **fields: Any) -> dict[str, Any]:
    """A request in the API's words: ``exactly`` with the class ``gpu``."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def policy(**fields: str) -> dict[str, Any]:
    """A claim config with a TopologyPolicy."""
    parameters = {"apiVersion": "gpu-dra.io/v1alpha1", "kind": "TopologyPolicy", **fields}
    return {"opaque": {"driver": DRIVER, "parameters": parameters}}


def ask(*requests: dict[str, Any], name: str = "claim", **devices: Any) -> ClaimAsk:
    """A claim with these requests; ``constraints`` and ``config`` as in the API."""
    spec = {"devices": {"requests": list(requests), **devices}}
    return ClaimAsk(name=name, uid=f"uid-{name}", spec=decode_claim_spec(msgspec.json.encode(spec)))


def device_class(**spec: Any) -> DeviceClassSpec:
    return decode_class_spec(msgspec.json.encode(spec))


def problem(*asks: ClaimAsk, classes: Mapping[str, DeviceClassSpec] = CLASSES) -> Problem:
    return build_problem(asks, classes, DRIVER)


def placed(fleet: Fleet, *asks: ClaimAsk, classes: Mapping[str, DeviceClassSpec] = CLASSES) -> Placement:
    """The placement, which there must be."""
    placement = place(fleet, problem(*asks, classes=classes))
    assert placement is not None, explain(fleet, problem(*asks, classes=classes)).text
    return placement


def missed(fleet: Fleet, *asks: ClaimAsk, classes: Mapping[str, DeviceClassSpec] = CLASSES) -> Miss:
    """The miss, which there must be."""
    asked = problem(*asks, classes=classes)
    assert place(fleet, asked) is None
    return explain(fleet, asked)


def chosen(fleet: Fleet, placement: Placement) -> list[list[str]]:
    """The names of the devices, request by request."""
    ids: tuple[DeviceId, ...] = fleet.nodes[placement.node].ids
    return [[ids[at].device for at in positions_of(pick.mask)] for pick in placement.picks]


def positions(placement: Placement) -> list[list[int]]:
    """The positions, request by request."""
    return [list(positions_of(pick.mask)) for pick in placement.picks]


def mask(*at: int) -> int:
    return sum(1 << each for each in at)
