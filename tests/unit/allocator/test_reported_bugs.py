"""What users reported of other allocators, with the right answer: group H of the public faults (B69, B71)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from driver.allocator.decide import explain, place
from driver.allocator.device_node import DeviceId
from driver.allocator.fleet import Holding
from tests.unit.allocator.cases import ask, device, devices_of, fleet_of, hold, placed, positions, problem, request
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
