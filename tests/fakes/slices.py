"""Small devices, contents and slices for tests about publishing, not about what is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import (
    Attribute,
    Capacity,
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
    Taint,
)
from driver.names import DeviceName, PoolName
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import PoolIdentity

IDENTITY = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))


def device(name: str, *, memory: str = "80Gi", taints: tuple[Taint, ...] = (), draws: str = "") -> Device:
    """A device as ours are: with the attribute that tells ours from others'."""
    consumes = (CounterConsumption(counter_set=draws, counters={"memory": Counter(value="10Gi")}),) if draws else ()
    return Device(
        name=DeviceName(name),
        attributes={"allocator": Attribute(string="scheduler"), "uuid": Attribute(string=f"GPU-{name}"[:64])},
        capacity={"memory": Capacity(value=memory)},
        taints=taints,
        consumes_counters=consumes,
    )


def content(*names: str) -> SliceContent:
    """A slice of devices with these names."""
    return SliceContent(devices=tuple(device(name) for name in names))


def counters(*names: str) -> SliceContent:
    """A slice of counter sets with these names."""
    return SliceContent(
        shared_counters=tuple(CounterSet(name=name, counters={"memory": Counter(value="80Gi")}) for name in names)
    )


def existing(  # one knob for each way in which a slice can be odd
    index: int,
    held: SliceContent,
    *,
    count: int = 1,
    generation: int = 1,
    name: str = "",
    pool: str = "node-a",
) -> ResourceSlice:
    """A slice as the server has it; its uid and version follow from its name."""
    shown = name or f"{index:05x}-gpu.nvidia.com-node-a-abcde"
    return ResourceSlice(
        metadata=ObjectMeta(name=shown, uid=f"uid of {shown}", resource_version=str(100 + index), generation=1),
        spec=ResourceSliceSpec(
            driver="gpu.nvidia.com",
            node_name="node-a",
            pool=ResourcePool(name=pool, generation=generation, resource_slice_count=count),
            devices=held.devices,
            shared_counters=held.shared_counters,
        ),
    )


def pool_of(contents: Sequence[SliceContent], *, generation: int = 1) -> tuple[ResourceSlice, ...]:
    """A complete pool."""
    return tuple(existing(i, held, count=len(contents), generation=generation) for i, held in enumerate(contents))


def as_json(item: ResourceSlice) -> dict[str, Any]:
    """A slice as somebody else would create it."""
    body: dict[str, Any] = msgspec.to_builtins(item)
    for key in ("uid", "resourceVersion", "generation"):
        body["metadata"].pop(key, None)
    return body
