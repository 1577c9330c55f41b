"""B71: the reason names the counter that is short, and the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from driver.allocator.decide import explain
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.shortage import Shortage, describe_spans
from driver.api.quantity import parse_quantity
from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device
from tests.unit.allocator.cases import ask, fleet_of, gpus, hold, missed, pool, problem, request
from tests.unit.allocator.mig import (
    CLASSES,
    FOUR,
    ONE,
    SEVEN,
    THREE,
    TWO,
    AttributeEngine,
    mig_fleet,
    part,
    position,
    whole,
)

Held = Sequence[tuple[int, str | None, int | None]]
"""GPU, profile and start; no profile is the whole GPU."""


def fleet_with(held: Held, gpus_: int = 1) -> Fleet:
    """Node ``a`` with parts of its GPUs taken."""
    fleet = mig_fleet({"a": gpus_})
    hold(fleet, "a", [position(fleet.nodes["a"], gpu, profile, start) for gpu, profile, start in held])
    return fleet


def shortage(fleet: Fleet, *requests: dict[str, Any], **devices: Any) -> str:
    """What is said to be short."""
    found = missed(fleet, ask(*requests, **devices), classes=CLASSES).shortage
    return "" if found is None else found.text


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        ([(0, FOUR, 0), (0, TWO, 4)], part(THREE), "a: gpu-0 has 2 of 8 memory slices free, 3g.40gb needs 4"),
        ([(0, ONE, 6)], whole(), "a: gpu-0 has 7 of 8 memory slices free, the whole GPU needs 8"),
        ([(0, None, None)], part(SEVEN), "a: gpu-0 has 0 of 8 memory slices free, 7g.80gb needs 8"),
        (
            [(0, ONE, 0), (0, ONE, 6)],
            part(THREE),
            "a: gpu-0 has memory slices 1-5 7 of 8 free, 3g.40gb needs 0-3 or 4-7",
        ),
        (
            [(0, ONE, 1), (0, ONE, 3), (0, ONE, 5)],
            part(TWO),
            "a: gpu-0 has memory slices 0 2 4 6-7 of 8 free, 2g.20gb needs 0-1 or 2-3 or 4-5",
        ),
        ([(0, THREE, 0), (0, THREE, 4)], part(ONE), "a: gpu-0 has 0 of 8 memory slices free, 1g.10gb needs 1"),
    ],
    ids=["too few", "a whole GPU that is cut", "a GPU that is given whole", "wrong places", "three wrong places", "none"],
)
def test_memory_slices_are_told_by_number_or_place(held: Held, asked: dict[str, Any], expected: str) -> None:
    assert shortage(fleet_with(held), asked) == expected


def test_another_counter_is_told_where_memory_slices_are_not_short() -> None:
    """Of the 1g with all engines a GPU has one, wherever it lies."""
    fleet = mig_fleet({"a": 1})
    hold(fleet, "a", [next(at for at, id_ in enumerate(fleet.nodes["a"].ids) if id_.device == "gpu-0-mig-1g10gb-7-20-6")])
    assert shortage(fleet, part("1g.10gb+7")) == "a: gpu-0 has 0 of 1 OFA engines free, 1g.10gb+7 needs 1"


def test_the_gpu_that_lacks_least_is_told() -> None:
    """Of three GPUs the middle one lacks one slice."""
    fleet = fleet_with([(0, FOUR, 0), (1, ONE, 6), (2, TWO, 4)], 3)
    assert shortage(fleet, whole()) == "a: gpu-1 has 7 of 8 memory slices free, the whole GPU needs 8"


def test_it_is_sought_where_the_largest_set_is() -> None:
    """Node b has seven of eight GPUs, node a lacks less on a GPU but has fewer."""
    fleet = mig_fleet({"a": 8, "b": 8})
    hold(fleet, "a", [position(fleet.nodes["a"], gpu, ONE, 6) for gpu in range(2)])
    hold(fleet, "b", [position(fleet.nodes["b"], 5, FOUR, 0)])
    assert shortage(fleet, whole(count=8)) == "b: gpu-5 has 4 of 8 memory slices free, the whole GPU needs 8"


def test_what_the_request_itself_takes_counts() -> None:
    """Two of three 2g find a place; the third would need what they leave."""
    fleet = fleet_with([(0, THREE, 4)])
    assert shortage(fleet, part(TWO, count=3)) == (
        "a: gpu-0 has 0 of 8 memory slices free beside 2 that it could give, 2g.20gb needs 2"
    )


def test_what_other_requests_take_counts() -> None:
    """A 3g finds a place beside the 4g, a second one does not."""
    assert shortage(fleet_with([]), part(FOUR, "four"), part(THREE, "three", count=2)) == (
        "a: gpu-0 has 0 of 8 memory slices free beside 2 that it could give, 3g.40gb needs 4"
    )


def test_with_a_constraint_it_is_a_gpu_of_the_largest_set() -> None:
    """Five 1g on one GPU: the first has two, the second three, and a slice that is no place for any."""
    fleet = fleet_with([(0, FOUR, 0), (0, ONE, 4), (1, FOUR, 0)], 2)
    assert shortage(fleet, part(ONE, count=5), constraints=[{"matchAttribute": "gpu.nvidia.com/parentUUID"}]) == (
        "a: gpu-1 has memory slice 7 of 8 free beside 3 that it could give, 1g.10gb needs one of 0-3"
    )


@pytest.mark.parametrize(
    ("fleet", "asked"),
    [
        (fleet_of({"a": gpus(2)}), whole(count=3)),
        (fleet_with([(0, None, None)]), whole()),
        (fleet_with([]), whole(count=2)),
        (mig_fleet({}), whole()),
    ],
    ids=["no counters", "the GPU is somebody's", "there is no second GPU", "no node"],
)
def test_nothing_is_told_where_no_counter_is_short(fleet: Fleet, asked: dict[str, Any]) -> None:
    assert shortage(fleet, asked) == ""


def test_the_line_of_events_has_it() -> None:
    fleet = fleet_with([(0, FOUR, 0), (0, TWO, 4)])
    assert missed(fleet, ask(part(THREE)), classes=CLASSES).text == (
        "1 node, 0 free MIG placements; need 1 on one node; largest free set is 0; "
        "a: gpu-0 has 2 of 8 memory slices free, 3g.40gb needs 4"
    )


def drawing(name: str, counter_set: str, drawn: Mapping[str, str]) -> Device:
    """A device that draws on counters of any name."""
    counters = {key: Counter(value=value) for key, value in drawn.items()}
    return Device(name=name, consumes_counters=(CounterConsumption(counter_set=counter_set, counters=counters),))


def other_fleet(held: Sequence[str], amounts: Mapping[str, str], *devices: Device) -> Fleet:
    """A pool of somebody else's, who counts otherwise, with some devices taken."""
    fleet = Fleet(AttributeEngine())
    counters = CounterSet(name="card", counters={key: Counter(value=value) for key, value in amounts.items()})
    fleet.set_node("a", [pool("a", devices, [counters])])
    hold(fleet, "a", [at for at, id_ in enumerate(fleet.nodes["a"].ids) if id_.device in held])
    return fleet


def test_other_counters_are_told_by_their_own_names_and_amounts() -> None:
    """Units are as the slices say, whatever the tables count in."""
    parts = [drawing(f"part-{number}", "card", {"memory": "30Gi", "copy-engines": "1"}) for number in range(3)]
    fleet = other_fleet(["part-0"], {"memory": "60Gi", "copy-engines": "1500m"}, *parts)
    assert explain(fleet, problem(ask(request()))).shortage == Shortage(
        node="a", gpu="card", free="500m of 1500m copy engines", wanted="part-1", need="1"
    )
    fleet = other_fleet(["part-0", "part-1"], {"memory": "60Gi", "copy-engines": "3"}, *parts)
    assert explain(fleet, problem(ask(request()))).shortage == Shortage(
        node="a", gpu="card", free="0 of 60Gi memory", wanted="part-2", need="30Gi"
    )


def test_a_counter_of_which_there_is_none_is_told() -> None:
    fleet = other_fleet([], {"memory": "0"}, drawing("part", "card", {"memory": "5Gi"}))
    found = explain(fleet, problem(ask(request()))).shortage
    assert found is not None
    assert found.text == "a: card has 0 of 0 memory free, part needs 5Gi"


def sharing_fleet(**held: str) -> Fleet:
    """GPUs of 80Gi that claims divide by memory."""
    kind = {"type": Attribute(string="gpu")}
    devices = [
        Device(name=f"gpu-{at}", attributes=kind, allow_multiple_allocations=True, capacity={"memory": Capacity(value="80Gi")})
        for at in range(2)
    ]
    fleet = Fleet(AttributeEngine())
    fleet.set_node("a", [pool("a", devices)])
    for name, amount in held.items():
        id_ = next(each for each in fleet.nodes["a"].ids if each.device.replace("-", "_") == name)
        fleet.hold([Holding(device=id_, share_id=name, consumed=(("memory", parse_quantity(amount)),))])
    return fleet


def test_a_share_that_fits_nowhere_is_told_with_what_is_left_of_the_emptiest_gpu() -> None:
    """A GPU that has not enough left is not free to the request."""
    fleet = sharing_fleet(gpu_0="60Gi", gpu_1="55Gi")
    miss = missed(fleet, ask(request(capacity={"requests": {"memory": "30Gi"}})))
    assert (miss.free, miss.taken, miss.largest, miss.is_together) == (0, 2, 0, False)
    assert miss.text == (
        "1 node, 0 free GPUs; need 1 on one node; largest free set is 0; "
        "a: gpu-1 has 25Gi of 80Gi memory free, a share needs 30Gi"
    )


def test_a_share_that_fits_is_free() -> None:
    """Two GPUs are wanted, and one has room."""
    fleet = sharing_fleet(gpu_0="60Gi", gpu_1="10Gi")
    miss = missed(fleet, ask(request(count=2, capacity={"requests": {"memory": "30Gi"}})))
    assert (miss.free, miss.largest) == (1, 1)
    assert miss.shortage is not None
    assert miss.shortage.detail == "gpu-0 has 20Gi of 80Gi memory free, a share needs 30Gi"


@pytest.mark.parametrize("mode", [{}, {"allocationMode": "All"}], ids=["exact count", "all"])
@pytest.mark.parametrize("form", ["exactly", "firstAvailable"])
def test_every_form_of_request_names_the_counter(mode: dict[str, Any], form: str) -> None:
    """B71's input: a whole GPU and its parts, in every mode."""
    fleet = fleet_with([(0, ONE, 6)])
    wanted = {"deviceClassName": "gpu", **mode}
    asked = {"exactly": wanted} if form == "exactly" else {"firstAvailable": [{"name": "only", **wanted}]}
    assert shortage(fleet, {"name": "gpus", **asked}) == "a: gpu-0 has 7 of 8 memory slices free, the whole GPU needs 8"


def test_the_unit_of_a_counter_is_that_of_the_slices() -> None:
    node = other_fleet([], {"memory": "60Gi"}, drawing("part", "card", {"memory": "20Gi"})).nodes["a"]
    assert [(each.counter_set, each.name, each.unit) for each in node.name_counters(node.shape.groups[0])] == [
        ("card", "memory", Fraction(20 << 30))
    ]


def test_numbers_side_by_side_are_told_as_a_span() -> None:
    assert [describe_spans(numbers) for numbers in ((), (3,), (0, 1, 2, 3), (0, 2, 3, 7))] == ["", "3", "0-3", "0 2-3 7"]
