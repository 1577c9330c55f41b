"""Which pools can be allocated from, and why the others cannot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.allocator.decide import place
from driver.allocator.pools import gather_pools
from driver.api.resource_v1 import ResourceSlice
from tests.unit.allocator.cases import ask, fleet_of, gpus, placed, problem, request
from tests.unit.allocator.cases import pool as pool_of

DRIVER = "gpu.nvidia.com"


def slice_(name: str, *, generation: int = 1, count: int = 1, pool: str = "a", **spec: Any) -> ResourceSlice:
    value = {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "nodeName": "a",
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **spec,
        },
    }
    return msgspec.convert(value, ResourceSlice)


def devices(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def test_slices_of_the_newest_generation_in_order_of_name() -> None:
    """Older ones do not count, and the order of names is the order of devices."""
    found, left_out = gather_pools(
        [
            slice_("s2", generation=2, count=2, devices=devices("gpu-2")),
            slice_("old", generation=1, devices=devices("gpu-9")),
            slice_("s1", generation=2, count=2, devices=devices("gpu-1", "gpu-0")),
        ]
    )
    assert [device.name for pool in found for device in pool.devices] == ["gpu-1", "gpu-0", "gpu-2"]
    assert [(pool.driver, pool.name, pool.node) for pool in found] == [(DRIVER, "a", "a")]
    assert left_out == ()


COUNTERS: dict[str, Any] = {"sharedCounters": [{"name": "c", "counters": {"memory": {"value": "1"}}}]}


def draws(counter_set: str, counter: str, value: str = "1") -> list[dict[str, Any]]:
    return [{"name": "gpu-0", "consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": value}}}]}]


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([slice_("s", count=2)], "incomplete: 1 of 2 slices"),
        ([slice_("s", generation=2, count=2), slice_("old", count=1, devices=devices("x"))], "incomplete: 1 of 2"),
        ([slice_("s", nodeName=None)], "not tied to one node"),
        ([slice_("s", count=2), slice_("t", count=2, nodeName="b")], "not tied to one node"),
        ([slice_("s", devices=devices("gpu-0", "gpu-0"))], "two devices are named gpu-0"),
        ([slice_("s", count=2, **COUNTERS), slice_("t", count=2, **COUNTERS)], "two counter sets are named c"),
        ([slice_("s", devices=draws("c", "memory"))], "draws on counter memory of counter set c, which is not there"),
        ([slice_("s", count=2, **COUNTERS), slice_("t", count=2, devices=draws("c", "x"))], "counter x of counter set c"),
        ([slice_("s", count=2, **COUNTERS), slice_("t", count=2, devices=draws("c", "memory", "much"))], "'much' is no"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_allocated_from_is_named(slices: list[ResourceSlice], reason: str) -> None:
    found, left_out = gather_pools([*slices, slice_("good", pool="b", nodeName="b", devices=devices("gpu-0"))])
    assert [pool.name for pool in found] == ["b"]
    assert [each.name for each in left_out] == ["a"]
    assert set(left_out[0].nodes) <= {"a", "b"}
    assert reason in left_out[0].reason


def test_counters_and_devices_of_a_pool_come_together() -> None:
    found, left_out = gather_pools([slice_("s", count=2, **COUNTERS), slice_("t", count=2, devices=draws("c", "memory"))])
    assert left_out == ()
    assert [each.name for each in found[0].counter_sets] == ["c"]


def test_all_devices_of_a_node_with_a_pool_left_out_are_not_known() -> None:
    """Other requests there are served from what is whole."""
    fleet = fleet_of({})
    fleet.set_node("a", [pool_of("a", gpus(2))], is_whole=False)
    assert placed(fleet, ask(request(count=2))).node == "a"
    assert place(fleet, problem(ask(request(allocationMode="All")))) is None
