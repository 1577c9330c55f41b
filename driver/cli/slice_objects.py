"""The node's slices as complete objects, in the form that ``kubectl`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import GROUP_VERSION, ResourcePool, ResourceSlice, ResourceSliceSpec
from driver.resourceslice.content import SliceContent


def build_slice_objects(contents: Sequence[SliceContent], *, driver: str, node: str) -> list[dict[str, Any]]:
    """One object a slice, as a first publication would make them: generation 1, names left to the API server."""
    slices = [_slice(content, index, len(contents), driver, node) for index, content in enumerate(contents)]
    plain: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(slices))
    return [{"apiVersion": GROUP_VERSION, "kind": "ResourceSlice", **each} for each in plain]


def _slice(content: SliceContent, index: int, count: int, driver: str, node: str) -> ResourceSlice:
    return ResourceSlice(
        metadata=ObjectMeta(generate_name=f"{index:05x}-{driver}-{node}-"),
        spec=ResourceSliceSpec(
            driver=driver,
            node_name=node,
            pool=ResourcePool(name=node, generation=1, resource_slice_count=count),
            devices=content.devices,
            shared_counters=content.shared_counters,
        ),
    )
