"""What a claim and a DeviceClass ask for, decoded whole, and the allocation that answers it.

A field that is not known here makes the object unreadable, never half read: a constraint that nobody looked at would make an
allocation illegal (R14). Source: k8s.io/api v0.37.2, resource/v1/types.go.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from driver.api.nesting import CUT
from driver.api.resource_v1 import AllocatedConfig, AllocationResult, OpaqueConfig

EXACT_COUNT = "ExactCount"
ALL = "All"

T = TypeVar("T")


class SpecFault(ValueError):
    """The object has a field that is not known here, or one that the API would not have let in; the text has the path."""


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Base of what is decoded whole; mypy wants ``frozen`` and ``kw_only`` said again on each class."""


class CelSelector(Spec, frozen=True, kw_only=True):
    """A CEL expression over ``device``."""

    expression: str


class DeviceSelector(Spec, frozen=True, kw_only=True):
    """One selector; CEL is the only kind there is."""

    cel: CelSelector


class Toleration(Spec, frozen=True, kw_only=True):
    """Which taints a request puts up with. An empty key with ``Exists`` is all of them, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Spec, frozen=True, kw_only=True):
    """Quantities by capacity name: the least that a device must have, or what is drawn from one that is shared."""

    requests: dict[str, str] = {}


class ExactRequest(Spec, frozen=True, kw_only=True):
    """Devices of one class: ``count`` of them, or all that match."""

    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class SubRequest(Spec, frozen=True, kw_only=True):
    """One alternative of a request; the first that can be had is taken."""

    name: str
    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Spec, frozen=True, kw_only=True):
    """``exactly`` or ``firstAvailable``."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class DeviceConstraint(Spec, frozen=True, kw_only=True):
    """All devices of these requests (empty: of all) have the same value of an attribute, or all have different ones."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimConfig(Spec, frozen=True, kw_only=True):
    """A driver's parameters for these requests (empty: for all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfig | None = None


class DeviceClaim(Spec, frozen=True, kw_only=True):
    """``spec.devices`` of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[ClaimConfig, ...] = ()


class ClaimSpec(Spec, frozen=True, kw_only=True):
    """``spec`` of a claim."""

    devices: DeviceClaim = DeviceClaim()


class ClassConfig(Spec, frozen=True, kw_only=True):
    """A driver's parameters for every request of the class."""

    opaque: OpaqueConfig | None = None


class DeviceClassSpec(Spec, frozen=True, kw_only=True):
    """``spec`` of a DeviceClass."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[ClassConfig, ...] = ()
    extended_resource_name: str | None = None


class ClaimResult(AllocationResult, frozen=True, kw_only=True):
    """One device of an allocation as the API stores it: with the request's tolerations, by which taints evict."""

    tolerations: tuple[Toleration, ...] = ()


class ClaimDevices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``status.allocation.devices`` to be written."""

    results: tuple[ClaimResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()


class ClaimAllocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """``status.allocation`` to be written. The writer sets the time stamp: without it no pod binds from 1.36 on."""

    devices: ClaimDevices
    node_selector: dict[str, Any] | None = None
    allocation_timestamp: str | None = None


def decode_claim_spec(data: bytes) -> ClaimSpec:
    """A claim's ``spec``.

    Raises:
        SpecFault: it has a field that is not known, or a shape that the API does not allow.
    """
    return _decode(data, ClaimSpec)


def decode_class_spec(data: bytes) -> DeviceClassSpec:
    """A DeviceClass's ``spec``.

    Raises:
        SpecFault: it has a field that is not known, or a shape that the API does not allow.
    """
    return _decode(data, DeviceClassSpec)


def _decode(data: bytes, kind: type[T]) -> T:
    if CUT in data:
        raise SpecFault("spec: opaque parameters are nested too deeply")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as err:
        raise SpecFault(f"spec: {err}") from err
