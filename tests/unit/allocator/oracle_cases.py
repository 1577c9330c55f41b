"""A case of ``hack/oracle_allocator`` through our allocator."""

from __future__ import annotations

import msgspec

from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceId, SelectorFault
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.pools import gather_pools
from driver.allocator.problem import ClaimAsk, ProblemFault, build_problem
from driver.allocator.result import build_allocations
from driver.api.claim_spec_v1 import ClaimSpec, DeviceClassSpec
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Device, ResourceSlice
from tests.unit.allocator.legality import Object, is_true

NODE = "node-a"


class CaseEngine:
    """Selectors of the form that the cases have."""

    def view(self, _driver: str, device: Device) -> object:
        return msgspec.to_builtins(device)

    def forget(self, _view: object) -> None:
        """Nothing is prepared."""

    def matches(self, expression: str, view: object) -> bool:
        if not isinstance(view, dict):
            raise SelectorFault("no device")
        return is_true(expression, view)


def solve(case: Object) -> tuple[list[list[Object]] | None, bool]:
    """The results of each claim, None where there is none; and whether our answer is sure."""
    pools, left_out = gather_pools(msgspec.convert(case["slices"], list[ResourceSlice]))
    fleet = Fleet(CaseEngine())
    fleet.set_node(NODE, pools, is_whole=not left_out)
    fleet.hold(Holding(device=DeviceId(each["driver"], each["pool"], each["device"])) for each in case["allocated"])
    fleet.hold(
        Holding(
            device=DeviceId(each["driver"], each["pool"], each["device"]),
            share_id=each["shareID"],
            consumed=tuple((name, parse_quantity(text)) for name, text in each["consumed"].items()),
        )
        for each in case["shared"]
    )
    classes = {name: msgspec.convert(spec, DeviceClassSpec) for name, spec in case["classes"].items()}
    asks = [
        ClaimAsk(name=each["metadata"]["name"], uid=each["metadata"]["uid"], spec=msgspec.convert(each["spec"], ClaimSpec))
        for each in case["claims"]
    ]
    try:
        problem = build_problem(asks, classes, "gpu.nvidia.com")
    except ProblemFault:
        return None, True
    placement = place(fleet, problem) if NODE in fleet.nodes else None
    if placement is None:
        return None, not explain(fleet, problem).undecided
    allocations = build_allocations(fleet.nodes[NODE], placement, asks, problem, classes)
    rows: list[list[Object]] = msgspec.json.decode(msgspec.json.encode([each.devices.results for each in allocations]))
    return rows, placement.is_proved
