"""The rules that the other tests rely on refuse what the API server refuses."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device, Taint
from driver.resourceslice.content import SliceContent
from tests.fakes.slice_rules import pool_faults


def one(**parts: object) -> SliceContent:
    return SliceContent(devices=(Device(**{"name": "gpu-0", **parts}),))  # type: ignore[arg-type]  # a builder


COUNTERS = CounterSet(name="a", counters={"x": Counter(value="1")})
REFUSED: dict[str, tuple[list[SliceContent], str]] = {
    "no slice": ([], "at least one slice"),
    "a dot in a name": ([one(name="gpu.0")], "no DNS label"),
    "one name twice": ([one(), one()], "occurs twice"),
    "33 facts": ([one(attributes={f"a{i}": Attribute(int_=i) for i in range(33)})], "33 attributes"),
    "65 tainted devices": (
        [
            SliceContent(
                devices=tuple(Device(name=f"g{i}", taints=(Taint(key="a.b/c", effect="NoSchedule"),)) for i in range(65))
            )
        ],
        "65 devices",
    ),
    "129 devices": ([SliceContent(devices=tuple(Device(name=f"g{i}") for i in range(129)))], "129 devices"),
    "devices beside counters": ([SliceContent(devices=one().devices, shared_counters=(COUNTERS,))], "devices and counters"),
    "nine counter sets": (
        [SliceContent(shared_counters=tuple(CounterSet(name=f"s{i}", counters={}) for i in range(9)))],
        "9 counter sets",
    ),
    "an unknown counter set": ([one(consumes_counters=(CounterConsumption(counter_set="b", counters={}),))], "unknown counter"),
    "a dash in an identifier": ([one(attributes={"a-b": Attribute(int_=1)})], "no C identifier"),
    "a long identifier": ([one(attributes={"a" * 33: Attribute(int_=1)})], "no C identifier"),
    "a bad domain": ([one(attributes={"A_B/c": Attribute(int_=1)})], "no DNS subdomain"),
    "two values": ([one(attributes={"a": Attribute(int_=1, string="1")})], "2 values"),
    "no value": ([one(attributes={"a": Attribute()})], "0 values"),
    "65 bytes": ([one(attributes={"a": Attribute(string="x" * 65)})], "65 bytes"),
    "a leading zero": ([one(attributes={"a": Attribute(version="580.159.04")})], "no semantic version"),
    "two parts": ([one(attributes={"a": Attribute(version="13.0")})], "no semantic version"),
    "65 bits": ([one(attributes={"a": Attribute(int_=2**63)})], "64 bits"),
    "a NUMA node of -1": ([one(attributes={"resource.kubernetes.io/numaNode": Attribute(int_=-1)})], "never negative"),
    "a long PCI domain": (
        [one(attributes={"resource.kubernetes.io/pciBusID": Attribute(string="10001:01:00.0")})],
        "no standard PCI bus id",
    ),
    "an empty PCIe root": (
        [one(attributes={"resource.kubernetes.io/pcieRoot": Attribute(string="VMBUS")})],
        "no standard PCIe",
    ),
    "no quantity": ([one(capacity={"memory": Capacity(value="80 GB")})], "no quantity"),
    "five taints": ([one(taints=tuple(Taint(key=f"a.b/c{i}", effect="NoSchedule") for i in range(5)))], "5 taints"),
    "a made-up effect": ([one(taints=(Taint(key="a.b/c", effect="Nope"),))], "no effect"),
}


@pytest.mark.parametrize(("contents", "fault"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses_is_refused(contents: list[SliceContent], fault: str) -> None:
    assert any(fault in found for found in pool_faults(contents)), pool_faults(contents)


def test_a_legal_pool_has_no_fault() -> None:
    contents = [SliceContent(shared_counters=(COUNTERS,)), one(attributes={"a.b/c_d": Attribute(version="1.0.0-rc.1")})]
    assert pool_faults(contents) == []
