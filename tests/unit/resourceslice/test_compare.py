"""When two contents mean the same, and what a server with gates off took away."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterSet, Device, Taint
from driver.resourceslice.compare import is_same_content, keep_taint_times, name_dropped_fields
from driver.resourceslice.content import SliceContent
from tests.fakes.slices import content, counters, device

NOW, THEN = "2026-12-01T10:00:00Z", "2026-12-01T09:00:00Z"


def of(*devices: Device) -> SliceContent:
    return SliceContent(devices=devices)


def tainted(time_added: str | None = None, **fields: str) -> SliceContent:
    return of(device("gpu-a", taints=(Taint(key="x/ecc", effect="NoSchedule", time_added=time_added, **fields),)))


def with_(base: Device, **changes: object) -> SliceContent:
    return of(msgspec.structs.replace(base, **changes))


BASE = device("gpu-a", draws="gpu-a")
SAME = {
    "the very same": (of(BASE), of(BASE)),
    "another way to write a quantity": (of(device("gpu-a", memory="80Gi")), of(device("gpu-a", memory="81920Mi"))),
    "a fraction of a quantity": (of(device("gpu-a", memory="0.5Gi")), of(device("gpu-a", memory="512Mi"))),
    "text that is no quantity": (of(device("gpu-a", memory="lots")), of(device("gpu-a", memory="lots"))),
    "a taint whose time the server filled in": (tainted(), tainted(NOW)),
    "and the other way round": (tainted(NOW), tainted()),
    "counters in another form": (
        counters("a"),
        SliceContent(shared_counters=(CounterSet(name="a", counters={"memory": Counter(value="81920Mi")}),)),
    ),
    "nothing and nothing": (SliceContent(), SliceContent()),
}
DIFFERENT = {
    "another name": (content("gpu-a"), content("gpu-b")),
    "another order": (content("gpu-a", "gpu-b"), content("gpu-b", "gpu-a")),
    "one device more": (content("gpu-a"), content("gpu-a", "gpu-b")),
    "another attribute": (of(BASE), with_(BASE, attributes={"allocator": Attribute(string="controller")})),
    "an attribute less": (of(BASE), with_(BASE, attributes={})),
    "another type of attribute": (
        with_(BASE, attributes={"n": Attribute(int_=1)}),
        with_(BASE, attributes={"n": Attribute(string="1")}),
    ),
    "another amount": (of(device("gpu-a", memory="80Gi")), of(device("gpu-a", memory="80G"))),
    "another capacity": (of(BASE), with_(BASE, capacity={"cores": Capacity(value="80Gi")})),
    "a policy of requests": (
        of(BASE),
        with_(BASE, capacity={"memory": Capacity(value="80Gi", request_policy={"default": "1"})}),
    ),
    "a time of its own": (tainted(THEN), tainted(NOW)),
    "another effect": (tainted(), of(device("gpu-a", taints=(Taint(key="x/ecc", effect="NoExecute"),)))),
    "another value": (tainted(), tainted(value="5")),
    "no taint": (tainted(), content("gpu-a")),
    "another counter set drawn on": (of(BASE), of(device("gpu-a", draws="gpu-b"))),
    "no counter set drawn on": (of(BASE), content("gpu-a")),
    "shared by many": (of(BASE), with_(BASE, allow_multiple_allocations=True)),
    "another counter set": (counters("a"), counters("b")),
    "a counter set more": (counters("a"), counters("a", "b")),
    "counters and devices": (counters("a"), content("a")),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_means_the_same(one: SliceContent, other: SliceContent) -> None:
    assert is_same_content(one, other)
    assert is_same_content(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_means_something_else(one: SliceContent, other: SliceContent) -> None:
    assert not is_same_content(one, other)
    assert not is_same_content(other, one)


FULL = msgspec.structs.replace(
    device("gpu-a", taints=(Taint(key="x/ecc", effect="NoSchedule"),), draws="gpu-a"),
    allow_multiple_allocations=True,
    capacity={"memory": Capacity(value="80Gi", request_policy={"default": "1Gi"})},
)
DROPPED = {
    "nothing": ({}, ()),
    "taints": ({"taints": ()}, ("devices[].taints",)),
    "counters": ({"consumes_counters": ()}, ("devices[].consumesCounters",)),
    "multiple allocations": ({"allow_multiple_allocations": None}, ("devices[].allowMultipleAllocations",)),
    "the policy of a capacity": (
        {"capacity": {"memory": Capacity(value="80Gi")}},
        ("devices[].capacity[].requestPolicy",),
    ),
    "two at once": (
        {"taints": (), "consumes_counters": ()},
        ("devices[].consumesCounters", "devices[].taints"),
    ),
}


@pytest.mark.parametrize(("changes", "names"), DROPPED.values(), ids=DROPPED.keys())
def test_what_the_server_took_away_is_named(changes: dict[str, object], names: tuple[str, ...]) -> None:
    stored = with_(FULL, **changes)
    assert name_dropped_fields(of(FULL), stored) == names
    assert is_same_content(of(FULL), stored) == (names == ())


def test_lost_devices_and_counter_sets_are_named_too() -> None:
    assert name_dropped_fields(content("a", "b"), content("a")) == ("devices",)
    assert name_dropped_fields(counters("a"), SliceContent()) == ("sharedCounters",)


def test_a_taint_keeps_its_time_only_while_key_value_and_effect_stay() -> None:
    before = device("gpu-a", taints=(Taint(key="x/ecc", value="1", effect="NoSchedule", time_added=THEN),))

    def kept(**fields: str) -> str | None:
        after = device("gpu-a", taints=(Taint(**({"key": "x/ecc", "value": "1", "effect": "NoSchedule"} | fields)),))
        return keep_taint_times(after, before).taints[0].time_added

    assert kept() == THEN
    assert [kept(value="2"), kept(effect="NoExecute"), kept(key="x/xid")] == [None, None, None]
    assert kept(time_added=NOW) == NOW


def test_a_device_without_a_past_is_left_alone() -> None:
    new = device("gpu-a", taints=(Taint(key="x/ecc", effect="NoSchedule"),))
    assert keep_taint_times(new, None) is new
