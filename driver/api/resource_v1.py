"""The part of ``resource.k8s.io/v1`` that is read or written here, as frozen values, with the API's limits.

Field names are the API's in snake case; the codec (``msgspec``) writes camelCase. Absent is ``None``, an absent list is the
empty tuple, and both stay off the wire. Source: k8s.io/api v0.37.2, resource/v1/types.go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from driver.api.meta_v1 import ObjectMeta

GROUP_VERSION = "resource.k8s.io/v1"

RESOURCE_SLICE_MAX_DEVICES_WITH_TAINTS_OR_COUNTERS = 64
RESOURCE_SLICE_MAX_COUNTER_SETS = 8
RESOURCE_SLICE_MAX_ATTRIBUTES_AND_CAPACITIES_PER_DEVICE = 32
DEVICE_ATTRIBUTE_MAX_VALUE_BYTES = 64
DEVICE_MAX_ID_BYTES = 32
DEVICE_MAX_DOMAIN_BYTES = 63
ALLOCATION_RESULTS_MAX = 32
OPAQUE_PARAMETERS_MAX_BYTES = 10 * 1024


class Wire(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):  # values of trees: no cycles to collect
    """Base of all values that cross the API: frozen, defaults stay off the wire, unknown fields are ignored when read.

    (mypy wants ``frozen`` and ``kw_only`` said again on each class.)
    """


class Attribute(Wire, frozen=True, kw_only=True):
    """A device attribute: exactly one of the four is set."""

    int_: int | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class Capacity(Wire, frozen=True, kw_only=True):
    """A device capacity; ``value`` is a Kubernetes quantity. ``request_policy`` is passed through as it is."""

    value: str
    request_policy: dict[str, Any] | None = None


class Counter(Wire, frozen=True, kw_only=True):
    """A shared counter's value, a Kubernetes quantity."""

    value: str


class CounterSet(Wire, frozen=True, kw_only=True):
    """Counters that the devices of a pool draw on together."""

    name: str
    counters: dict[str, Counter]


class CounterConsumption(Wire, frozen=True, kw_only=True):
    """What one device draws from one counter set."""

    counter_set: str
    counters: dict[str, Counter]


class Taint(Wire, frozen=True, kw_only=True):
    """A device taint. ``time_added`` is RFC 3339; the server fills it in where it is absent."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Device(Wire, frozen=True, kw_only=True):
    """One entry of a slice."""

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(Wire, frozen=True, kw_only=True):
    """Which pool a slice belongs to."""

    name: str
    generation: int
    resource_slice_count: int


class ResourceSliceSpec(Wire, frozen=True, kw_only=True):
    """A slice holds devices or shared counters, never both (1.35 and later)."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Wire, frozen=True, kw_only=True):
    """A ResourceSlice. ``apiVersion`` and ``kind`` stay off the wire: the server takes them from the request's path."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec


class OpaqueConfig(Wire, frozen=True, kw_only=True):
    """A driver's own parameters, undecoded."""

    driver: str
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class AllocatedConfig(Wire, frozen=True, kw_only=True):
    """A config that the allocation carries; ``source`` is ``FromClass`` or ``FromClaim``."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfig | None = None


class AllocationResult(Wire, frozen=True, kw_only=True):
    """One device of an allocation. ``request`` may be ``<request>/<subrequest>``."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, str] = {}


class DeviceAllocation(Wire, frozen=True, kw_only=True):
    """The devices of an allocation and the configs that apply to them."""

    results: tuple[AllocationResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()


class Allocation(Wire, frozen=True, kw_only=True):
    """``status.allocation``."""

    devices: DeviceAllocation = DeviceAllocation()


class Consumer(Wire, frozen=True, kw_only=True):
    """Who uses a claim: a pod, where ``api_group`` is empty and ``resource`` is ``pods``."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a claim, as far as a node needs it."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Wire, frozen=True, kw_only=True):
    """A ResourceClaim as the node reads it: who it is, and what it was given."""

    metadata: ObjectMeta
    status: ClaimStatus = ClaimStatus()
