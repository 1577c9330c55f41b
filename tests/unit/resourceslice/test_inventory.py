"""A device that was published stays until nobody holds it, and what is on disk is trusted for nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Attribute, Capacity, Device, Taint
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.build import build_devices, build_slice_contents
from driver.resourceslice.inventory import (
    INVENTORY_MAX_BYTES,
    DecodedInventory,
    GpuReplaced,
    Inventory,
    MergedDevices,
    decode_inventory,
    encode_inventory,
    merge_inventory,
)
from driver.resourceslice.shares import ShareSetting
from driver.topology.build import build_topology
from tests.fakes.slice_rules import pool_faults
from tests.unit.topology.machines import dgx_1v, gpu, machine

FENCE = Taint(key="gpu.nvidia.com/allocator", value="controller", effect="NoSchedule")
LOST = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule")


def devices_of(*positions: int, allocator: Allocator = Allocator.SCHEDULER, uuid: str | None = None) -> tuple[Device, ...]:
    gpus = [gpu(position, uuid=uuid) if uuid else gpu(position) for position in positions]
    return build_devices(build_topology(machine(gpus)), node_uid="node", allocator=allocator).devices


A, B = devices_of(0, 1)


def merged(before: tuple[Device, ...], now: tuple[Device, ...], held: set[str] | None) -> MergedDevices:
    return merge_inventory(Inventory(devices=before), now, held=held, allocator=Allocator.SCHEDULER)


def test_the_first_publication_is_what_the_node_has() -> None:
    assert merged((), (A, B), set()) == MergedDevices(
        devices=(A, B), inventory=Inventory(devices=(A, B)), lost=(), withdrawn=(), replaced=()
    )


def test_a_held_device_that_is_gone_stays_with_its_last_facts_and_a_taint() -> None:
    """Its claim's pod runs on, and only a device in the slices can be tainted and evicted (R23)."""
    found = merged((A, B), (B,), {A.name})
    assert found.devices == (B, msgspec.structs.replace(A, taints=(LOST,)))
    assert (found.lost, found.withdrawn) == ((A.name,), ())
    assert found.inventory == Inventory(devices=(B, A))


def test_a_device_that_nobody_holds_goes() -> None:
    found = merged((A, B), (B,), set())
    assert (found.devices, found.lost, found.withdrawn) == ((B,), (), (A.name,))
    assert found.inventory == Inventory(devices=(B,))


def test_all_stay_while_nobody_can_say_who_holds_what() -> None:
    assert merged((A, B), (), None).lost == (A.name, B.name)


def test_a_device_that_comes_back_is_an_ordinary_device() -> None:
    lost = merged((A, B), (B,), None)
    assert merge_inventory(lost.inventory, (A, B), held=None, allocator=Allocator.SCHEDULER).devices == (A, B)


def test_a_lost_device_stays_lost_over_a_restart() -> None:
    first = merged((A, B), (B,), {A.name})
    again = merge_inventory(
        decode_inventory(encode_inventory(first.inventory)).inventory, (B,), held={A.name}, allocator=Allocator.SCHEDULER
    )
    assert again == first


def test_a_lost_gpu_that_claims_have_shares_of_stays_so_over_a_restart() -> None:
    """What says how it is divided is not remembered, but follows from its memory: the slice changes by the taint alone."""
    topology = build_topology(machine([gpu(0, memory_bytes=80 << 30), gpu(1, memory_bytes=80 << 30)]))
    shares = ShareSetting(is_on=True)
    one, two = build_devices(topology, node_uid="node", allocator=Allocator.SCHEDULER, shares=shares).devices
    assert one.allow_multiple_allocations
    decoded = decode_inventory(encode_inventory(merged((), (one, two), set()).inventory))
    assert decoded.fault is None
    found = merge_inventory(decoded.inventory, (two,), held={one.name}, allocator=Allocator.SCHEDULER)
    assert found.devices == (two, msgspec.structs.replace(one, taints=(LOST,)))


def test_a_lost_device_is_fenced_as_the_node_is_now_with_the_fence_first() -> None:
    """It was published for the scheduler; the node has been given to the controller since."""
    now = devices_of(1, allocator=Allocator.CONTROLLER)
    found = merge_inventory(Inventory(devices=(A, B)), now, held={A.name}, allocator=Allocator.CONTROLLER)
    lost = found.devices[-1]
    assert lost.taints == (FENCE, LOST)
    assert lost.attributes["allocator"] == Attribute(string="controller")


def test_taints_are_not_remembered() -> None:
    """Health is found out anew; a remembered taint would have nobody to take it away."""
    found = merged((), devices_of(0, allocator=Allocator.CONTROLLER), set())
    assert found.inventory.devices[0].taints == ()


def test_another_card_in_the_same_slot_is_noticed() -> None:
    """The name is the slot's, so only the UUID tells (R24)."""
    other = devices_of(0, uuid="GPU-ffffffff-0000-0000-0000-000000000000")
    found = merged((A,), other, {A.name})
    assert found.replaced == (
        GpuReplaced(
            name=found.inventory.devices[0].name,  # type: ignore[arg-type]  # the device's own name
            old_uuid="GPU-00000000-0000-0000-0000-000000000000",
            new_uuid="GPU-ffffffff-0000-0000-0000-000000000000",
        ),
    )
    assert found.devices == other
    assert found.lost == ()


def test_a_swap_is_noticed_once() -> None:
    other = devices_of(0, uuid="GPU-ffffffff-0000-0000-0000-000000000000")
    first = merged((A,), other, set())
    assert merge_inventory(first.inventory, other, held=set(), allocator=Allocator.SCHEDULER).replaced == ()


def test_an_inventory_reads_back_whole() -> None:
    devices = build_devices(build_topology(dgx_1v()), node_uid="node", allocator=Allocator.SCHEDULER).devices
    inventory = Inventory(devices=devices)
    assert decode_inventory(encode_inventory(inventory)) == DecodedInventory(inventory=inventory)


def test_the_same_devices_are_the_same_bytes() -> None:
    assert encode_inventory(Inventory(devices=(A, B))) == encode_inventory(Inventory(devices=(A, B)))


def test_unknown_keys_of_a_newer_instance_do_no_harm() -> None:
    text = encode_inventory(Inventory(devices=(A,))).replace(b'"version"', b'"later": {"x": [1]}, "version"', 1)
    assert decode_inventory(text).inventory == Inventory(devices=(A,))


def with_device(**parts: object) -> bytes:
    """The text of an inventory of one device with these parts put over it."""
    known = msgspec.to_builtins(A)
    return json.dumps({"version": 1, "devices": [{**known, **parts}]}).encode()


def with_attribute(key: str, value: object) -> bytes:
    return with_device(attributes={**msgspec.to_builtins(A.attributes), key: value})


UNUSABLE = {
    "empty": b"",
    "cut in the middle": encode_inventory(Inventory(devices=(A,)))[:-20],
    "zeros": b"\0" * 100,
    "no UTF-8": b'{"version": 1, "devices": "\xff"}',
    "another type": b"[]",
    "a later version": b'{"version": 2, "devices": []}',
    "no number for a version": b'{"version": "1"}',
    "too large": b" " * (INVENTORY_MAX_BYTES + 1),
    "too many devices": json.dumps({"devices": [{"name": f"g{i}"} for i in range(1025)]}).encode(),
    "one device twice": json.dumps({"devices": [msgspec.to_builtins(A)] * 2}).encode(),
    "a path for a name": with_device(name="../../etc/passwd"),
    "an empty name": with_device(name=""),
    "taints": with_device(taints=[{"key": "a/b", "effect": "NoSchedule"}]),
    "counters": with_device(consumesCounters=[{"counterSet": "a", "counters": {}}]),
    "a request policy": with_device(capacity={"memory": {"value": "1", "requestPolicy": {"default": "1"}}}),
    "no quantity": with_device(capacity={"memory": {"value": "lots"}}),
    "33 facts": with_device(attributes={"allocator": {"string": "x"}, **{f"a{i}": {"int": i} for i in range(32)}}),
    "no allocator": with_device(attributes={}),
    "a bad key": with_attribute("a-b", {"int": 1}),
    "a bad domain": with_attribute("a..b/c", {"int": 1}),
    "a domain that is too long": with_attribute(f"{'a' * 64}/c", {"int": 1}),
    "no value": with_attribute("a", {}),
    "two values": with_attribute("a", {"int": 1, "string": "1"}),
    "a long text": with_attribute("a", {"string": "x" * 65}),
    "a version that is none": with_attribute("a", {"version": "580.159.04"}),
    "a number beyond 64 bits": with_attribute("a", {"int": 2**63}),
    "deep nesting": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep nesting where anything may stand": with_device(capacity={}).replace(
        b'"capacity": {}', b'"capacity": {"m": {"value": "1", "requestPolicy": {"a": ' + b"[" * 9000 + b"]" * 9000 + b"}}}"
    ),
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_was_not_written_here_is_set_aside_with_a_reason(text: bytes) -> None:
    found = decode_inventory(text)
    assert found.inventory == Inventory()
    assert found.fault


@given(st.binary(max_size=200), st.integers(0, 2000), st.integers(0, 255))
@settings(max_examples=100, deadline=None)
def test_a_damaged_text_never_raises_and_never_makes_an_illegal_slice(junk: bytes, place: int, byte: int) -> None:
    text = bytearray(encode_inventory(Inventory(devices=(A, B))))
    text[place % len(text)] = byte
    for damaged in (bytes(text), bytes(text[: place % len(text)]) + junk, junk):
        found = decode_inventory(damaged)
        result = merge_inventory(found.inventory, (), held=None, allocator=Allocator.CONTROLLER)
        assert pool_faults(build_slice_contents(result.devices)) == []


def test_capacity_is_kept_with_a_lost_device() -> None:
    with_memory = msgspec.structs.replace(A, capacity={"memory": Capacity(value="80Gi")})
    assert merged((with_memory,), (), None).devices[0].capacity == {"memory": Capacity(value="80Gi")}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resource.kubernetes.io/pciBusID", Attribute(string=" 000:11:00.0")),
        ("resource.kubernetes.io/pcieRoot", Attribute(string="vmbus")),
        ("resource.kubernetes.io/numaNode", Attribute(int_=-1)),
        ("productName", Attribute(string="")),
    ],
)
def test_a_value_that_no_reading_gives_makes_the_text_unusable(key: str, value: Attribute) -> None:
    damaged = msgspec.structs.replace(A, attributes=A.attributes | {key: value})
    found = decode_inventory(encode_inventory(Inventory(devices=(damaged,))))
    assert found.inventory == Inventory()
    assert key in str(found.fault)
