"""How large the parts of a device can be: the API's limits, by the path to a part."""

from __future__ import annotations

from dataclasses import dataclass

from driver.api.resource_v1 import (
    DEVICE_ATTRIBUTE_MAX_VALUE_BYTES,
    DEVICE_MAX_DOMAIN_BYTES,
    DEVICE_MAX_ID_BYTES,
    RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE,
)
from driver.cel.environment import Environment
from driver.cel.intervals import Interval

_LIST_ATTRIBUTE_VALUES = 64
_DRIVER_NAME_BYTES = 63


@dataclass(frozen=True, slots=True)
class _Part:
    most: int
    key: _Part | None = None
    element: _Part | None = None
    fields: dict[str, _Part] | None = None


class DeviceSizes:
    """Sizes of what ``device`` holds."""

    def __init__(self, environment: Environment) -> None:
        held = RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE
        name, domain = _Part(DEVICE_MAX_ID_BYTES), _Part(DEVICE_MAX_DOMAIN_BYTES)
        is_list = environment.features.list_attributes
        self._value = _Part(max(DEVICE_ATTRIBUTE_MAX_VALUE_BYTES, _LIST_ATTRIBUTE_VALUES if is_list else 0))
        attributes = _Part(held, domain, _Part(held, name, self._value))
        capacity = _Part(held, domain, _Part(held, name, _Part(0)))
        fields = {"driver": _Part(_DRIVER_NAME_BYTES), "attributes": attributes, "capacity": capacity}
        if environment.features.consumable_capacity:
            fields["allowMultipleAllocations"] = _Part(1)
        self._root = _Part(0, fields=fields)

    def size(self, path: tuple[str, ...]) -> Interval | None:
        """The size of the part at a path; None if nothing is known of it."""
        if not path or path[0] != "device":
            return None
        part: _Part | None = self._root
        for step in path[1:]:
            part = self._next(part, step)
            if part is None:
                return None
        return None if part is None else Interval(0, part.most)

    def _next(self, part: _Part | None, step: str) -> _Part | None:
        if part is None:
            return None
        if step in ("@items", "@values"):
            return part.element
        if step == "@keys":
            return part.key
        if part.fields is not None and step in part.fields:
            return part.fields[step]
        return part.element if part.element is self._value else None
