"""A device as selectors see it, prepared once: versions and quantities are parsed, names split into domain and id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.api.resource_v1 import Device
from driver.cel.errors import EvaluationError
from driver.cel.quantity import Quantity, parse_quantity
from driver.cel.semver import parse_semver
from driver.cel.values import DeviceMap, DomainMap, Map


class DeviceView:
    """What ``device`` is in a selector. ``known`` and ``amounts`` are the same by (domain, id), for the quick way."""

    __slots__ = ("amounts", "attributes", "capacity", "driver", "fault", "known", "multi")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Any],
        capacity: Mapping[str, Quantity],
        *,
        allows_multiple: bool = False,
        fault: str = "",
    ) -> None:
        self.driver = driver
        self.multi = allows_multiple
        self.fault = fault
        self.known, self.attributes = _by_domain(driver, attributes)
        self.amounts, self.capacity = _by_domain(driver, capacity)

    def as_map(self) -> Map:
        """The device itself as a value."""
        fields = {"driver": self.driver, "allowMultipleAllocations": self.multi}
        return Map([*fields.items(), ("attributes", self.attributes), ("capacity", self.capacity)])


def build_view(driver: str, device: Device) -> DeviceView:
    """A device of a slice. A value that no API server would have let in makes each evaluation fail, as in Kubernetes."""
    attributes = {
        name: {"int": value.int_, "bool": value.bool_, "string": value.string, "version": value.version}
        for name, value in device.attributes.items()
    }
    return build_view_of_values(
        driver,
        attributes,
        {name: value.value for name, value in device.capacity.items()},
        allows_multiple=bool(device.allow_multiple_allocations),
    )


def build_view_of_values(
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, str],
    *,
    allows_multiple: bool = False,
) -> DeviceView:
    """As ``build_view``, from the API's own words: ``{"model": {"string": "H100"}, "links": {"strings": ["a", "b"]}}``."""
    known: dict[str, Any] = {}
    amounts: dict[str, Quantity] = {}
    fault = ""
    for name, value in attributes.items():
        try:
            known[name] = _attribute(value)
        except EvaluationError as err:
            fault = fault or f"attribute {name}: {err}"
    for name, text in capacity.items():
        try:
            amounts[name] = parse_quantity(str(text).strip())
            amounts[name].is_shared = True
        except EvaluationError as err:
            fault = fault or f"capacity {name}: {err}"
    return DeviceView(driver, known, amounts, allows_multiple=allows_multiple, fault=fault)


_LISTS = (("ints", None), ("bools", None), ("strings", None), ("versions", parse_semver))


def _attribute(value: Mapping[str, Any]) -> Any:
    for kind, parse in _LISTS:
        items: Sequence[Any] | None = value.get(kind)
        if items is not None:
            return [parse(item) for item in items] if parse else list(items)
    for kind in ("int", "bool", "string"):
        if value.get(kind) is not None:
            return value[kind]
    if value.get("version") is not None:
        return parse_semver(value["version"])
    raise EvaluationError("it has no value")


def _by_domain(driver: str, values: Mapping[str, Any]) -> tuple[dict[tuple[str, str], Any], DomainMap]:
    flat: dict[tuple[str, str], Any] = {}
    domains: dict[str, DeviceMap] = {}
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        flat[domain, identifier] = value
        domains.setdefault(domain, DeviceMap()).put(identifier, value)
    return flat, DomainMap(domains.items())
