"""Slices as the mirror keeps them: what many devices have alike is there once.

80,000 devices have a handful of products, drivers, capacities and PCI addresses.
"""

from __future__ import annotations

from sys import intern
from typing import Any, TypeVar

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Attribute, Device, ResourceSlice
from driver.controller.objects.sharing import NOTHING, Shared

_MOST_NAMES = 256
"""Of attributes whose values are shared; a device has 32 at most."""
Part = TypeVar("Part")


class SliceReduction:
    """Slices, of which the devices' attributes are what takes room."""

    def __init__(self) -> None:
        self._attributes: dict[str, Shared[Attribute]] = {}
        self._parts: Shared[Any] = Shared()

    def __call__(self, item: ResourceSlice) -> ResourceSlice:
        """The same devices and counters; of the metadata only who it is."""
        of_slice: dict[Attribute, Attribute] = {}
        meta = item.metadata
        pool = msgspec.structs.replace(item.spec.pool, name=intern(item.spec.pool.name))
        return ResourceSlice(
            metadata=ObjectMeta(
                name=meta.name, uid=meta.uid, resource_version=meta.resource_version, labels=NOTHING, annotations=NOTHING
            ),
            spec=msgspec.structs.replace(
                item.spec,
                driver=intern(item.spec.driver),
                pool=pool,
                node_name=None if item.spec.node_name is None else intern(item.spec.node_name),
                devices=tuple([self._reduce_device(device, of_slice) for device in item.spec.devices]),
                shared_counters=self._share("shared_counters", item.spec.shared_counters),
            ),
        )

    def _reduce_device(self, device: Device, of_slice: dict[Attribute, Attribute]) -> Device:
        attributes = {intern(name): self._share_attribute(name, value, of_slice) for name, value in device.attributes.items()}
        return Device(
            name=intern(device.name),
            attributes=attributes,
            capacity=self._share("capacity", device.capacity) or NOTHING,
            consumes_counters=self._share("consumes_counters", device.consumes_counters),
            taints=self._share("taints", device.taints),
            allow_multiple_allocations=device.allow_multiple_allocations,
        )

    def _share_attribute(self, name: str, value: Attribute, of_slice: dict[Attribute, Attribute]) -> Attribute:
        """A node's islands are its own: shared by its devices at least."""
        known = of_slice.get(value)
        if known is None:
            shared = self._attributes.get(name)
            if shared is None:
                shared = Shared()
                if len(self._attributes) < _MOST_NAMES:
                    self._attributes[name] = shared
            known = of_slice[value] = shared.of(value, value)
        return known

    def _share(self, kind: str, part: Part) -> Part:
        shared: Part = self._parts.of((kind, msgspec.json.encode(part)), part) if part else part
        return shared
