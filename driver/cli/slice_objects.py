"""The node's slices as complete objects, in the form that ``kubectl`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from driver.api.resource_v1 import GROUP_VERSION
from driver.names import PoolName
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import PoolIdentity, plan_writes


def build_slice_objects(contents: Sequence[SliceContent], *, driver: str, node: str) -> list[dict[str, Any]]:
    """One object a slice, as a first publication makes them: generation 1, names left to the API server."""
    identity = PoolIdentity(driver=driver, node_name=node, pool=PoolName(node))
    slices = plan_writes((), contents, identity).creates
    plain: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(slices))
    return [{"apiVersion": GROUP_VERSION, "kind": "ResourceSlice", **each} for each in plain]
