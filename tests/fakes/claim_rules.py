"""What the API server does with ResourceClaims, beside what it does with every object (contracts 5.3).

Not here: who may write what (granular rules), admin access and its namespaces, and the text of CEL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

RESULTS_MAX = 32
CONFIGS_MAX = 64
RESERVED_FOR_MAX = 256
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def admit_claim(new: Json, old: Json | None) -> list[str]:
    """Default and drop as the server does, and what it refuses."""
    if old is None:
        new["status"] = {}  # nobody creates an allocated claim
        return []
    status, before = new.get("status") or {}, old.get("status") or {}
    status = {key: value for key, value in status.items() if value not in (None, [])}
    new["status"] = status
    _drop_device_status(status, before)
    faults = [] if new.get("spec") == old.get("spec") else ["spec: Invalid value: field is immutable"]
    faults += _reserved_faults(status, before, is_deleted="deletionTimestamp" in new["metadata"])
    if before.get("allocation") and status.get("allocation"):
        if before["allocation"] != status["allocation"]:
            faults.append("status.allocation: Invalid value: field cannot be modified once set")
    elif status.get("allocation"):
        faults += _allocation_faults(status["allocation"], new.get("spec") or {})
    faults += _device_status_faults(status)
    return faults


def _reserved_faults(status: Json, before: Json, *, is_deleted: bool) -> Iterator[str]:
    path = "status.reservedFor"
    entries = status.get("reservedFor") or []
    if len(entries) > RESERVED_FOR_MAX:
        yield f"{path}: Too many: must have at most {RESERVED_FOR_MAX} items"
    uids = [each.get("uid") for each in entries]
    if len(set(uids)) < len(uids):
        yield f"{path}: Duplicate value"
    for each in entries:
        for key in ("resource", "name", "uid"):
            if not each.get(key):
                yield f"{path}.{key}: Required value"
    if entries and not status.get("allocation"):
        yield f"{path}: Forbidden: may not be specified when `allocated` is not set"
    elif is_deleted and any(each not in (before.get("reservedFor") or []) for each in entries):
        yield f"{path}: Forbidden: new entries may not be added while `deletionTimestamp` is set"


def _allocation_faults(allocation: Json, spec: Json) -> Iterator[str]:
    path = "status.allocation.devices"
    results = (allocation.get("devices") or {}).get("results") or []
    configs = (allocation.get("devices") or {}).get("config") or []
    if len(results) > RESULTS_MAX or len(configs) > CONFIGS_MAX:
        yield f"{path}: Too many"
    names = _request_names(spec)
    for each in results:
        if each.get("request") not in names:
            yield f"{path}.results.request: Invalid value: {each.get('request')!r}: must be the name of a request in the claim"
        if not each.get("driver") or not each.get("pool"):
            yield f"{path}.results: Required value: driver and pool"
        if not _LABEL.fullmatch(each.get("device") or ""):
            yield f"{path}.results.device: Invalid value: {each.get('device')!r}"
        if "shareID" in each and not _UUID.fullmatch(each["shareID"]):
            yield f"{path}.results.shareID: Invalid value: {each['shareID']!r}: must be a lower-case uuid"
    for each in configs:
        if each.get("source") not in {"FromClass", "FromClaim"}:
            yield f"{path}.config.source: Unsupported value"
        if any(name not in names for name in each.get("requests") or []):
            yield f"{path}.config.requests: Invalid value: must be the name of a request in the claim"


def _request_names(spec: Json) -> set[str]:
    """What results may name; one of alternatives alone is not named by results, but may be by configs."""
    names = set()
    for request in (spec.get("devices") or {}).get("requests") or []:
        names.add(request["name"])
        names |= {f"{request['name']}/{each['name']}" for each in request.get("firstAvailable") or []}
    return names


def _drop_device_status(status: Json, before: Json) -> None:
    """The status of devices that this write takes away goes by itself."""
    gone = _devices(before) - _devices(status)
    if status.get("devices"):
        status["devices"] = [each for each in status["devices"] if _device(each) not in gone]


def _device_status_faults(status: Json) -> Iterator[str]:
    for each in status.get("devices") or []:
        if _device(each) not in _devices(status):
            yield "status.devices: Invalid value: must be an allocated device in the claim"


def _devices(status: Json) -> set[tuple[object, ...]]:
    allocation = status.get("allocation") or {}
    return {_device(each) for each in (allocation.get("devices") or {}).get("results") or []}


def _device(each: Json) -> tuple[object, ...]:
    return each.get("driver"), each.get("pool"), each.get("device"), each.get("shareID")
