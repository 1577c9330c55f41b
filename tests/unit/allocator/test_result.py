"""The allocation as the API stores it: what kube-scheduler would have written for the same devices."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from driver.allocator.decide import place
from driver.allocator.fleet import Fleet
from driver.allocator.problem import ClaimAsk
from driver.allocator.result import build_allocations, list_holdings
from driver.api.claim_spec_v1 import ClaimAllocation, DeviceClassSpec
from driver.api.resource_v1 import Device
from tests.unit.allocator.cases import DRIVER, ask, device, device_class, fleet_of, gpus, missed, placed, problem, request


def allocated(fleet: Fleet, *asks: ClaimAsk, classes: dict[str, DeviceClassSpec] | None = None) -> list[ClaimAllocation]:
    known = classes or {"gpu": DeviceClassSpec()}
    asked = problem(*asks, classes=known)
    placement = place(fleet, asked)
    assert placement is not None
    return list(build_allocations(fleet.nodes[placement.node], placement, asks, asked, known))


def written(allocation: ClaimAllocation) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(allocation))
    return decoded


def opaque(name: str) -> dict[str, Any]:
    return {"driver": DRIVER, "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": name}}


def test_the_whole_allocation_of_a_plain_claim() -> None:
    """Results in order of requests, and exactly the node; nothing that was not asked for is on the wire."""
    toleration = {"key": "a/b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    fleet = fleet_of({"node-a": gpus(3)})
    claim = ask(request("two", count=2, tolerations=[toleration]), request("one"))
    first = {"driver": DRIVER, "pool": "node-a"}
    assert written(allocated(fleet, claim)[0]) == {
        "devices": {
            "results": [
                {"request": "two", **first, "device": "gpu-0", "tolerations": [toleration]},
                {"request": "two", **first, "device": "gpu-1", "tolerations": [toleration]},
                {"request": "one", **first, "device": "gpu-2"},
            ]
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]
        },
    }


def test_configs_of_classes_come_first_each_class_once() -> None:
    """Contracts 5.2: a class's configs name its requests; then the claim's that are for a request that was served."""
    classes = {
        "gpu": device_class(config=[{"opaque": opaque("GpuConfig")}]),
        "other": device_class(config=[{"opaque": opaque("Other")}]),
    }
    claim = ask(
        request("a"),
        {"name": "b", "exactly": {"deviceClassName": "other"}},
        request("c"),
        config=[
            {"requests": ["b"], "opaque": opaque("ForB")},
            {"opaque": opaque("ForAll")},
            {"requests": ["a", "b", "c"], "opaque": opaque("ForEach")},
        ],
    )
    configs = written(allocated(fleet_of({"n": gpus(3)}), claim, classes=classes)[0])["devices"]["config"]
    assert [(each["source"], each.get("requests"), each["opaque"]["parameters"]["kind"]) for each in configs] == [
        ("FromClass", ["a", "c"], "GpuConfig"),
        ("FromClass", ["b"], "Other"),
        ("FromClaim", ["b"], "ForB"),
        ("FromClaim", None, "ForAll"),
        ("FromClaim", None, "ForEach"),
    ]


def test_configs_of_an_alternative_that_was_not_taken_are_left_out() -> None:
    alternatives = [{"name": n, "deviceClassName": "gpu", "count": c} for n, c in (("tight", 4), ("loose", 1))]
    config = [
        {"requests": ["gpus/tight"], "opaque": opaque("Tight")},
        {"requests": ["gpus/loose"], "opaque": opaque("Loose")},
        {"requests": ["gpus"], "opaque": opaque("Both")},
    ]
    claim = ask({"name": "gpus", "firstAvailable": alternatives}, config=config)
    devices = written(allocated(fleet_of({"n": gpus(1)}), claim)[0])["devices"]
    assert [each["request"] for each in devices["results"]] == ["gpus/loose"]
    assert [each["opaque"]["parameters"]["kind"] for each in devices["config"]] == ["Loose", "Both"]
    assert all("requests" not in each for each in devices["config"])


def test_admin_access_is_marked_and_takes_nothing() -> None:
    allocation = allocated(fleet_of({"n": gpus(1)}), ask(request(adminAccess=True)))[0]
    assert written(allocation)["devices"]["results"][0]["adminAccess"] is True
    assert list_holdings(allocation) == ()


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        (None, "10Gi", "10Gi"),
        (None, None, "80Gi"),
        ({"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}, None, "5Gi"),
        ({"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}, "11Gi", "15Gi"),
        ({"validValues": ["10Gi", "20Gi"]}, "12Gi", "20Gi"),
        ({"default": "1", "validRange": {"min": "500m"}}, "700m", "700m"),
    ],
    ids=["as asked", "all of it", "the default", "rounded up in steps", "rounded up to a value", "a fraction"],
)
def test_shared_devices_say_what_is_drawn(policy: dict[str, Any] | None, asked: str | None, consumed: str) -> None:
    capacity = device("x", capacity={"memory": "80Gi"}).capacity["memory"]
    shared = Device(
        name="gpu-0",
        allow_multiple_allocations=True,
        capacity={"memory": msgspec.structs.replace(capacity, request_policy=policy)},
    )
    fields: dict[str, Any] = {} if asked is None else {"capacity": {"requests": {"memory": asked}}}
    want = request(**fields)
    allocation = allocated(fleet_of({"n": [shared]}), ask(want))[0]
    result = written(allocation)["devices"]["results"][0]
    assert result["consumedCapacity"] == {"memory": consumed}
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", result["shareID"])
    assert list_holdings(allocation)[0].share_id == result["shareID"]


def test_shares_of_a_device_are_told_apart_and_drawn_together() -> None:
    shared = Device(name="gpu-0", allow_multiple_allocations=True, capacity=device("x", capacity={"memory": "80Gi"}).capacity)
    fleet = fleet_of({"n": [shared]})
    part = request(capacity={"requests": {"memory": "30Gi"}})
    first, second = allocated(fleet, ask(part, name="one"), ask(part, name="two"))
    assert first.devices.results[0].share_id != second.devices.results[0].share_id
    for allocation in (first, second):
        fleet.hold(list_holdings(allocation))
    assert missed(fleet, ask(part, name="three")).undecided == 0
    fleet.release(list_holdings(first))
    assert placed(fleet, ask(part, name="three")).node == "n"
