"""The kinds that the fake API server knows, and what it refuses or drops in each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from driver.api.quantity import format_bytes, parse_quantity
from driver.api.resource_v1 import CounterSet, Device
from driver.resourceslice.content import SliceContent
from tests.fakes.claim_rules import admit_claim
from tests.fakes.slice_rules import pool_faults

Json = dict[str, Any]

GATED_DEVICE_FIELDS = {
    "DRADeviceTaints": ("taints",),
    "DRAPartitionableDevices": ("consumesCounters",),
    "DRAConsumableCapacity": ("allowMultipleAllocations",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind: where it is served, and what can be selected by."""

    group_version: str
    plural: str
    name: str
    is_namespaced: bool = True
    has_status: bool = False
    fields: tuple[str, ...] = ()

    def admit(self, new: Json, old: Json | None, gates_off: frozenset[str]) -> list[str]:
        """Default, drop and check; what is returned becomes a 422."""
        if self.plural == "resourceslices":
            _drop_gated(new, gates_off)
            _default_taints(new)
            faults = _slice_faults(new, old) or _content_faults(new["spec"])
            if not faults:
                _canonise_quantities(new["spec"])
            return faults
        if self.plural == "resourceclaims":
            return admit_claim(new, old)
        if self.plural == "leases":
            return _lease_faults(new)
        if self.plural == "events" and self.group_version.startswith("events"):
            return _event_faults(new, old)
        return []


KINDS = (
    Kind(group_version="v1", plural="nodes", name="Node", is_namespaced=False, has_status=True),
    Kind(group_version="v1", plural="pods", name="Pod", has_status=True, fields=("spec.nodeName", "status.phase")),
    Kind(group_version="events.k8s.io/v1", plural="events", name="Event", fields=("regarding.uid",)),
    Kind(
        group_version="resource.k8s.io/v1",
        plural="resourceslices",
        name="ResourceSlice",
        is_namespaced=False,
        fields=("spec.nodeName", "spec.driver"),
    ),
    Kind(group_version="resource.k8s.io/v1", plural="resourceclaims", name="ResourceClaim", has_status=True),
    Kind(group_version="resource.k8s.io/v1", plural="resourceclaimtemplates", name="ResourceClaimTemplate"),
    Kind(group_version="resource.k8s.io/v1", plural="deviceclasses", name="DeviceClass", is_namespaced=False),
    Kind(group_version="resource.k8s.io/v1", plural="devicetaintrules", name="DeviceTaintRule", is_namespaced=False),
    Kind(group_version="coordination.k8s.io/v1", plural="leases", name="Lease"),
    Kind(group_version="v1", plural="persistentvolumes", name="PersistentVolume", is_namespaced=False, has_status=True),
    Kind(group_version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim", has_status=True),
)


def kind_of(plural: str) -> Kind:
    return next(kind for kind in KINDS if kind.plural == plural)


def _drop_gated(new: Json, gates_off: frozenset[str]) -> None:
    spec = new.get("spec", {})
    for gate in gates_off:
        for device in spec.get("devices") or []:
            for name in GATED_DEVICE_FIELDS.get(gate, ()):
                device.pop(name, None)
        if gate == "DRAPartitionableDevices":
            spec.pop("sharedCounters", None)


def _default_taints(new: Json) -> None:
    for device in new.get("spec", {}).get("devices") or []:
        for taint in device.get("taints") or []:
            taint.setdefault("timeAdded", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _slice_faults(new: Json, old: Json | None) -> list[str]:
    spec = new.get("spec", {})
    pool = spec.get("pool", {})
    faults = []
    if not spec.get("driver"):
        faults.append("spec.driver: Required value")
    if not pool.get("name"):
        faults.append("spec.pool.name: Required value")
    if pool.get("resourceSliceCount", 0) <= 0:
        faults.append("spec.pool.resourceSliceCount: Invalid value: must be greater than zero")
    if pool.get("generation", -1) < 0:
        faults.append("spec.pool.generation: Invalid value: must be greater than or equal to zero")
    if sum(1 for key in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(key)) != 1:
        faults.append("spec: exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required")
    if spec.get("devices") and spec.get("sharedCounters"):
        faults.append("spec: at most one of devices, sharedCounters may be set")
    if old is not None:
        faults += _immutable_faults(spec, old["spec"])
    return faults


def _content_faults(spec: Json) -> list[str]:
    """What one slice may hold. Whether a counter set exists in the pool is the scheduler's business, not the server's."""
    try:
        content = SliceContent(
            devices=msgspec.convert(spec.get("devices") or [], tuple[Device, ...]),
            shared_counters=msgspec.convert(spec.get("sharedCounters") or [], tuple[CounterSet, ...]),
        )
    except msgspec.ValidationError as err:
        return [f"spec: {err}"]
    return [fault for fault in pool_faults([content]) if "unknown counter set" not in fault]


def _canonise_quantities(spec: Json) -> None:
    for holder in _holders(spec):
        text = holder["value"]
        if text.endswith("i"):
            holder["value"] = format_bytes(int(parse_quantity(text)))


def _holders(spec: Json) -> Iterator[Json]:
    for device in spec.get("devices") or []:
        yield from device.get("capacity", {}).values()
        for entry in device.get("consumesCounters") or []:
            yield from entry["counters"].values()
    for counters in spec.get("sharedCounters") or []:
        yield from counters["counters"].values()


def _immutable_faults(spec: Json, before: Json) -> list[str]:
    pairs = {
        "spec.driver": (spec.get("driver"), before["driver"]),
        "spec.nodeName": (spec.get("nodeName"), before.get("nodeName")),
        "spec.pool.name": (spec.get("pool", {}).get("name"), before["pool"]["name"]),
    }
    return [f"{path}: Invalid value: field is immutable" for path, (now, then) in pairs.items() if now != then]


def _lease_faults(new: Json) -> list[str]:
    spec = new.get("spec") or {}
    faults = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        faults.append("spec.leaseDurationSeconds: Invalid value: must be greater than 0")
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        faults.append("spec.leaseTransitions: Invalid value: must be greater than or equal to 0")
    return faults


def _event_faults(new: Json, old: Json | None) -> list[str]:
    faults = [
        f"{key}: Required value"
        for key in ("eventTime", "reportingController", "reportingInstance", "action", "reason", "type")
        if not new.get(key)
    ]
    if len(new.get("note", "").encode()) > 1024:
        faults.append("note: can have at most 1024 characters")
    if new.get("type") not in {"Normal", "Warning"}:
        faults.append("type: Invalid value")
    if "regarding" in new and not new["regarding"].get("namespace") and new["metadata"].get("namespace") != "default":
        faults.append("regarding.namespace: Invalid value: does not match event.namespace")
    if "series" in new and new["series"].get("count", 0) < 2:
        faults.append("series.count: Invalid value: should be at least 2")
    if old is not None:
        fixed = ("note", "reason", "action", "regarding", "eventTime", "reportingController", "reportingInstance", "type")
        faults += [f"{key}: Invalid value: field is immutable" for key in fixed if new.get(key) != old.get(key)]
    return faults
