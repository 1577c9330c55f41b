"""Which writes lead from the slices that exist to those that are wanted. Pure; the order of the writes is part of the answer.

Consumers use only the slices of a pool's highest generation, and only when there are as many as each of them says. So the
writes go *delete, update, create*, and whatever needs more than one write raises the generation: between any two of them the
pool is incomplete, and nobody ever sees old and new together. One changed slice is one atomic write, and keeps the generation.

A generation is above all that any consumer may still hold, also of slices that went while it did not watch: the controller of
device taints in kube-controller-manager (to 1.37) keeps a slice whose deletion it only learns from a new list, and then sees
none of a lower generation, so that it evicts nobody. So a pool that is not there begins at the time of day.

A slice's name starts with its index as five hex digits: allocation goes through slices in the order of their names (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import ResourcePool, ResourceSlice, ResourceSliceSpec
from driver.names import PoolName
from driver.resourceslice.compare import is_same_content, keep_taint_times
from driver.resourceslice.content import SliceContent

MAX_GENERATION = 1 << 53
"""Beyond it a generation is somebody's prank or accident: such a slice goes, or the next number would not fit the API."""

_INDEX_DIGITS = 5
_NAME_INDEX = re.compile(r"([0-9a-f]+)-")
_MAX_GENERATE_NAME = 58
"""The server cuts a longer base before it adds five characters of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolIdentity:
    """Whose pool it is. These three never change in a slice."""

    driver: str
    node_name: str
    pool: PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The writes, in this order. ``updates`` carry the resourceVersion that they build on; ``creates`` have no owner yet."""

    generation: int
    deletes: tuple[ResourceSlice, ...] = ()
    updates: tuple[ResourceSlice, ...] = ()
    creates: tuple[ResourceSlice, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it should be."""
        return not (self.deletes or self.updates or self.creates)


def plan_writes(
    existing: Sequence[ResourceSlice],
    desired: Sequence[SliceContent],
    identity: PoolIdentity,
    *,
    generation_floor: int = 0,
    first_generation: int = 1,
) -> WritePlan:
    """The plan. No content at all means one empty slice: "this node has no device" is not "nobody has said yet".

    ``existing`` are all slices of the driver on the node. ``generation_floor`` is the highest generation that was ever seen,
    so that a pool whose slices were wiped does not start again below it. ``first_generation`` is that of a pool of which
    nothing is there: seconds since 1970, see above.
    """
    wanted = tuple(desired) or (SliceContent(),)
    existing = sorted(existing, key=lambda each: each.metadata.name)
    ours = [
        each for each in existing if each.spec.pool.name == identity.pool and 0 <= each.spec.pool.generation < MAX_GENERATION
    ]
    highest = max((each.spec.pool.generation for each in ours), default=0)
    newest = [each for each in ours if each.spec.pool.generation == highest]
    matched = _match_by_index(newest, count=len(wanted))
    kept = {each.metadata.uid for each in matched.values()}
    deletes = tuple(each for each in existing if each.metadata.uid not in kept)
    missing = [index for index in range(len(wanted)) if index not in matched]
    changed = [index for index, each in sorted(matched.items()) if _is_changed(each, wanted[index], len(wanted))]
    is_behind = highest < generation_floor
    if not (deletes or missing or changed or is_behind):
        return WritePlan(generation=highest)
    is_fewer = len(newest) > len(matched)
    keeps_generation = not (missing or is_fewer or is_behind) and len(changed) <= 1
    generation = highest if keeps_generation else max(highest + 1, generation_floor + 1, 0 if ours else first_generation)
    pool = ResourcePool(name=identity.pool, generation=generation, resource_slice_count=len(wanted))
    devices_before = {device.name: device for each in existing for device in each.spec.devices}
    rewritten = changed if keeps_generation else sorted(matched)

    def spec(index: int) -> ResourceSliceSpec:
        devices = tuple(keep_taint_times(device, devices_before.get(device.name)) for device in wanted[index].devices)
        return ResourceSliceSpec(
            driver=identity.driver,
            pool=pool,
            node_name=identity.node_name,
            devices=devices,
            shared_counters=wanted[index].shared_counters,
        )

    return WritePlan(
        generation=generation,
        deletes=deletes,
        updates=tuple(ResourceSlice(metadata=matched[index].metadata, spec=spec(index)) for index in rewritten),
        creates=tuple(
            ResourceSlice(metadata=ObjectMeta(generate_name=build_generate_name(identity, index)), spec=spec(index))
            for index in missing
        ),
    )


def build_generate_name(identity: PoolIdentity, index: int) -> str:
    """``00000-<driver>-<node>-``, cut to what the server keeps of it; it never ends in a character that no name may end in."""
    whole = f"{index:0{_INDEX_DIGITS}x}-{identity.driver}-{identity.node_name}"
    return whole[: _MAX_GENERATE_NAME - 1].rstrip("-.") + "-"


def parse_name_index(name: str, *, count: int) -> int | None:
    """The index in a slice's name, None where the name has none that a pool of ``count`` slices would have given."""
    match = _NAME_INDEX.match(name)
    digits = max(_INDEX_DIGITS, len(f"{count - 1:x}"))
    if match is None or len(match[1]) != digits:
        return None
    index = int(match[1], 16)
    return index if index < count else None


def content_of(existing: ResourceSlice) -> SliceContent:
    """What a slice holds."""
    return SliceContent(devices=existing.spec.devices, shared_counters=existing.spec.shared_counters)


def _match_by_index(current: Sequence[ResourceSlice], *, count: int) -> dict[int, ResourceSlice]:
    """The slice of each index. Of two with the same index the first stays."""
    matched: dict[int, ResourceSlice] = {}
    for each in current:
        index = parse_name_index(each.metadata.name, count=count)
        if index is not None:
            matched.setdefault(index, each)
    return matched


def _is_changed(existing: ResourceSlice, wanted: SliceContent, count: int) -> bool:
    return existing.spec.pool.resource_slice_count != count or not is_same_content(content_of(existing), wanted)
