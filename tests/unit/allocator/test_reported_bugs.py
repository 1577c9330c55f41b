"""What users reported of other allocators, with the right answer: group H of the public faults (B69, B71)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.result import build_allocations, list_holdings
from driver.api.resource_v1 import CounterSet, Device
from tests.unit.allocator.cases import (
    WordEngine,
    ask,
    chosen,
    device,
    devices_of,
    fleet_of,
    hold,
    placed,
    pool,
    positions,
    problem,
    request,
)
from tests.unit.allocator.mig import CLASSES, ONE, SEVEN, mig_fleet, part, position, whole

BRIDGED = "a100-pcie-bridged"
"""NVLink bridges 0-2, 1-3, 4-5 and 6-7; two NUMA nodes of four; all else across the socket's bus."""


@pytest.mark.parametrize(
    ("free", "expected"),
    [((0, 1, 2), (0, 2)), ((0, 3, 4, 5), (4, 5)), ((0, 4, 6), (4, 6))],
    ids=["a bridge that is no neighbour", "the bridge on the other NUMA node", "no bridge: one NUMA node"],
)
def test_a_pair_is_chosen_by_its_link_and_not_by_its_place(free: Sequence[int], expected: Sequence[int]) -> None:
    """B69: order says nothing of links."""
    fleet = fleet_of({"a": devices_of(BRIDGED)})
    hold(fleet, "a", [at for at in range(8) if at not in free])
    assert positions(placed(fleet, ask(request(count=2)))) == [list(expected)]


def test_a_pair_of_all_is_a_bridge_and_the_same_one_each_time() -> None:
    """B69: nothing but what is free decides."""
    found = {tuple(positions(placed(fleet_of({"a": devices_of(BRIDGED)}), ask(request(count=2))))[0]) for _ in range(20)}
    assert len(found) == 1
    assert found <= {(0, 2), (1, 3), (4, 5), (6, 7)}


ALL_PARTS = {"allocationMode": "All"}


@pytest.mark.parametrize("held", ["whole", "part"])
@pytest.mark.parametrize(
    "asked",
    [
        {"exactly": {"deviceClassName": "{}"}},
        {"exactly": {"deviceClassName": "{}", **ALL_PARTS}},
        {"firstAvailable": [{"name": "only", "deviceClassName": "{}"}]},
        {"firstAvailable": [{"name": "only", "deviceClassName": "{}", **ALL_PARTS}]},
    ],
    ids=["exact count", "all", "first available", "first available, all"],
)
def test_a_whole_gpu_and_its_parts_exclude_each_other_in_every_mode(held: str, asked: Mapping[str, Any]) -> None:
    """B71: one account of counters, whatever the form of the request."""
    fleet = mig_fleet({"a": 1})
    node = fleet.nodes["a"]
    hold(fleet, "a", [position(node, 0) if held == "whole" else position(node, 0, SEVEN, 0)])
    wanted = "mig" if held == "whole" else "gpu"
    assert place(fleet, problem(ask(_named(asked, wanted)), classes=CLASSES)) is None


def _named(asked: Mapping[str, Any], device_class: str) -> dict[str, Any]:
    """The request with its class."""
    filled = {
        key: [{**each, "deviceClassName": device_class} for each in value]
        if isinstance(value, list)
        else {**value, "deviceClassName": device_class}
        for key, value in asked.items()
    }
    return {"name": "devices", **filled}


def test_what_is_held_of_another_drivers_pool_of_the_same_name_takes_nothing() -> None:
    """B71: a device is known by driver, pool and name."""
    fleet = mig_fleet({"a": 1})
    name = fleet.nodes["a"].ids[0].device
    fleet.hold([Holding(device=DeviceId("other.example.com", "a", name))])
    assert place(fleet, problem(ask(whole()), classes=CLASSES)) is not None


def test_a_claim_for_all_waits_until_all_are_free() -> None:
    """B71: *All* with a device that is taken is no smaller *All*."""
    fleet = fleet_of({"a": devices_of(BRIDGED)})
    asked = problem(ask(request(allocationMode="All")))
    assert place(fleet, asked) is not None
    hold(fleet, "a", [3])
    assert place(fleet, asked) is None
    assert explain(fleet, asked).text


def test_one_small_part_takes_the_whole_from_who_asks_for_it() -> None:
    """B71, the other way round: a seventh is enough."""
    fleet = mig_fleet({"a": 1})
    hold(fleet, "a", [position(fleet.nodes["a"], 0, ONE, 6)])
    assert place(fleet, problem(ask(whole()), classes=CLASSES)) is None
    assert place(fleet, problem(ask(part(ONE)), classes=CLASSES)) is not None


@pytest.mark.parametrize("asked", [None, "All"], ids=["one", "all"])
def test_admin_access_draws_on_no_counters(asked: str | None) -> None:
    """A monitor sees parts whose GPU is given out whole, or in parts, and the next claim is none the worse for it.

    https://github.com/kubernetes/kubernetes/issues/140729
    """
    fleet = mig_fleet({"a": 1})
    hold(fleet, "a", [position(fleet.nodes["a"], 0, ONE, 6)])
    fields: dict[str, Any] = {"adminAccess": True} | ({} if asked is None else {"allocationMode": asked})
    seen = place(fleet, problem(ask(part(SEVEN, **fields), name="monitor"), classes=CLASSES))
    assert seen is not None
    both = place(fleet, problem(ask(part(SEVEN, **fields), name="monitor"), ask(part(ONE)), classes=CLASSES))
    assert both is not None


def test_all_is_all_of_the_class_and_no_more() -> None:
    """https://github.com/kubernetes/kubernetes/issues/127554: with the devices of every other class."""
    devices = (*devices_of(BRIDGED), device("part-0", type="mig"), device("nic-0", type="nic"))
    placement = placed(fleet_of({"a": devices}), ask(request(allocationMode="All")), classes={"gpu": CLASSES["gpu"]})
    assert positions(placement) == [list(range(8))]


def test_alternatives_of_two_requests_are_tried_together() -> None:
    """The first alternative of one leaves nothing for the other: the next is taken, and both are served."""
    fleet = mig_fleet({"a": 1})
    either = {
        "name": "either",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu"},
            {"name": "small", "deviceClassName": "mig", "selectors": [{"cel": {"expression": f"profile == {ONE}"}}]},
        ],
    }
    placement = place(fleet, problem(ask(either, part(ONE)), classes=CLASSES))
    assert placement is not None
    assert [pick.alternative.name for pick in placement.picks] == ["either/small", "mig"]


def _decode(name: str, **fields: Any) -> Device:
    """A GPU in the API's words."""
    attributes = {"type": {"string": "gpu"}, **fields.pop("attributes", {})}
    return msgspec.convert({"name": name, "attributes": attributes, **fields}, Device)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize(
    "capacity",
    [
        {"value": "1e70"},
        {"value": "1e-70"},
        {"value": "9" * 60},
        {"value": "1e60"},
        {"value": "100E"},
        {"value": "80Gi", "requestPolicy": {"default": "1e70"}},
        {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "1e70"]}},
        {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1e-70", "step": "1e-70"}}},
    ],
    ids=["exponent", "negative exponent", "digits", "huge", "over 64 bits", "default", "valid values", "range"],
)
def test_a_capacity_of_any_size_harms_no_other_device(capacity: Mapping[str, Any], is_shared: bool) -> None:
    """Whatever becomes of the device itself, a decision comes, and what it gives can be written and read again.

    The API server takes what no 64 bits hold: https://github.com/kubernetes/kubernetes/pull/131063, .../pull/119855
    """
    odd = _decode("odd", capacity={"memory": capacity}, allowMultipleAllocations=is_shared)
    fleet = fleet_of({"a": [odd], "b": [_decode("plain", capacity={"memory": {"value": "80Gi"}})]})
    for asked in (ask(request()), ask(request(capacity={"requests": {"memory": "1Gi"}}))):
        placement = placed(fleet, asked)
        given = build_allocations(fleet.nodes[placement.node], placement, [asked], problem(asked), {"gpu": CLASSES["gpu"]})
        assert list_holdings(given[0])
    both = ask(request(capacity={"requests": {"memory": "1Gi"}}))
    fleet.hold([Holding(device=DeviceId("gpu.nvidia.com", "a", "odd"))])
    assert placed(fleet, both).node == "b"


def test_lists_of_values_are_never_taken_for_equal() -> None:
    """[1,2], [1], [2], [2]: only 0, 2 and 3 have a value in common. Lists are not modelled: better none than wrong ones.

    https://github.com/kubernetes/kubernetes/issues/140300
    """
    lists = [[1, 2], [1], [2], [2]]
    devices = [_decode(f"gpu-{at}", attributes={"numa": {"ints": values}}) for at, values in enumerate(lists)]
    for kind in ("matchAttribute", "distinctAttribute"):
        asked = ask(request(count=2), constraints=[{kind: "gpu.nvidia.com/numa"}])
        assert place(fleet_of({"a": devices}), problem(asked)) is None


def test_distinct_values_are_distinct_over_all_devices_of_a_request() -> None:
    """https://github.com/kubernetes/kubernetes/issues/140438: each was compared with the last one only."""
    devices = [_decode(f"gpu-{at}", attributes={"numa": {"int": value}}) for at, value in enumerate((1, 2, 1, 3))]
    placement = placed(
        fleet_of({"a": devices}), ask(request(count=3), constraints=[{"distinctAttribute": "gpu.nvidia.com/numa"}])
    )
    assert positions(placement) == [[0, 1, 3]]


@pytest.mark.parametrize(("mode", "expected"), [({}, [[1]]), ({"allocationMode": "All"}, None)], ids=["one", "all"])
def test_all_is_also_what_others_have_used_up(mode: Mapping[str, Any], expected: list[list[int]] | None) -> None:
    """https://github.com/kubernetes/kubernetes/pull/140769: a shared device without room was left out of *All*."""
    devices = [_decode(f"gpu-{at}", capacity={"memory": {"value": "1"}}, allowMultipleAllocations=True) for at in range(2)]
    fleet = fleet_of({"a": devices})
    fleet.hold([Holding(device=DeviceId("gpu.nvidia.com", "a", "gpu-0"), share_id="x", consumed=(("memory", Fraction(1)),))])
    placement = place(fleet, problem(ask(request(capacity={"requests": {"memory": "1"}}, **mode))))
    assert (None if placement is None else positions(placement)) == expected


def test_a_shared_device_draws_on_its_counters_once() -> None:
    """https://github.com/kubernetes/kubernetes/issues/134100, .../140436: each share drew anew, or backtracking leaked."""
    counters = (msgspec.convert({"name": "slices", "counters": {"m": {"value": "4"}}}, CounterSet),)
    devices = [
        _decode(
            f"gpu-{at}",
            allowMultipleAllocations=True,
            consumesCounters=[{"counterSet": "slices", "counters": {"m": {"value": str(drawn)}}}],
            capacity={"c": {"value": "2"}},
        )
        for at, drawn in enumerate((2, 4, 2))
    ]
    fleet = Fleet(WordEngine())
    fleet.set_node("a", [pool("a", devices, counters)])

    def some(name: str, amount: int) -> dict[str, Any]:
        return request(name, capacity={"requests": {"c": str(amount)}})

    four = ask(some("one", 1), some("two", 2), some("last", 1))
    assert chosen(fleet, placed(fleet, four)) == [["gpu-0"], ["gpu-2"], ["gpu-0"]]
    five = ask(some("one", 1), some("two", 2), some("three", 1), some("last", 1))
    assert place(fleet, problem(five)) is None
