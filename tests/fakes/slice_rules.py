"""The API server's rules for ResourceSlices, written down a second time and apart from the code under test.

Source: kubernetes-dra-contracts.md section 4.2 and 4.3 (Kubernetes 1.37.2, pkg/apis/resource/validation). The strictest of
1.34 to 1.37 is taken where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from driver.resourceslice.content import SliceContent

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)
QUANTITY = re.compile(r"\d+(\.\d+)?([EPTGMK]i|[numkMGTPE])?", re.ASCII)
BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
PCIE_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
MOST_SLICE_BYTES = 1_500_000


def pool_faults(contents: Sequence[SliceContent]) -> list[str]:
    """Everything for which the API server or the scheduler would refuse these slices as one pool; empty when legal."""
    return list(_pool_faults(contents))


def _pool_faults(contents: Sequence[SliceContent]) -> Iterator[str]:
    if not contents:
        yield "a pool needs at least one slice"
    slices = [(msgspec.to_builtins(content.devices), msgspec.to_builtins(content.shared_counters)) for content in contents]
    names = [device["name"] for devices, _ in slices for device in devices]
    sets = {counters["name"]: counters for _, counter_sets in slices for counters in counter_sets}
    yield from (f"{name} occurs twice" for name in set(names) if names.count(name) > 1)
    for devices, counter_sets in slices:
        if devices and counter_sets:
            yield "a slice holds devices and counters"
        if len(devices) > (64 if any(d.get("taints") or d.get("consumesCounters") for d in devices) else 128):
            yield f"a slice holds {len(devices)} devices"
        if len(counter_sets) > 8:
            yield f"a slice holds {len(counter_sets)} counter sets"
        if len(msgspec.json.encode([devices, counter_sets])) > MOST_SLICE_BYTES - 10_000:
            yield "a slice is too large for the store"
        for device in devices:
            yield from _device_faults(device, sets)


def _device_faults(device: Mapping[str, Any], sets: Mapping[str, Any]) -> Iterator[str]:
    name = device["name"]
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    if DNS_LABEL.fullmatch(name) is None:
        yield f"{name!r} is no DNS label"
    if len(attributes) + len(capacity) > 32:
        yield f"{name}: {len(attributes)} attributes and {len(capacity)} capacities"
    for key in (*attributes, *capacity):
        yield from (f"{name}: {fault}" for fault in _key_faults(key))
    for key, value in attributes.items():
        yield from (f"{name}: {key}: {fault}" for fault in _attribute_faults(key, value))
    no_quantities = (key for key, value in capacity.items() if QUANTITY.fullmatch(value["value"]) is None)
    yield from (f"{name}: {key} is no quantity" for key in no_quantities)
    yield from _taint_faults(name, device.get("taints", []))
    consumed = device.get("consumesCounters", [])
    if len(consumed) > 2:
        yield f"{name} draws on {len(consumed)} counter sets"
    yield from (f"{name} draws on an unknown counter set" for entry in consumed if entry["counterSet"] not in sets)


def _key_faults(key: str) -> Iterator[str]:
    domain, slash, identifier = key.rpartition("/")
    if slash and (len(domain) > 63 or not all(DNS_LABEL.fullmatch(label) for label in domain.split("."))):
        yield f"{key!r} has no DNS subdomain of at most 63 bytes"
    if C_IDENTIFIER.fullmatch(identifier) is None:
        yield f"{key!r} is no C identifier of at most 32 bytes"


def _attribute_faults(key: str, value: Mapping[str, Any]) -> Iterator[str]:
    if len(value) != 1:
        yield f"{len(value)} values"
        return
    ((kind, content),) = value.items()
    if kind in ("string", "version") and not 0 < len(content.encode()) <= 64:
        yield f"{len(content.encode())} bytes"
    if kind == "version" and SEMVER.fullmatch(content) is None:
        yield f"{content!r} is no semantic version"
    if kind == "int" and not -(2**63) <= content < 2**63:
        yield f"{content} does not fit into 64 bits"
    if key == "resource.kubernetes.io/pciBusID" and BUS_ID.fullmatch(content) is None:
        yield f"{content!r} is no standard PCI bus id"
    if key == "resource.kubernetes.io/pcieRoot" and PCIE_ROOT.fullmatch(content) is None:
        yield f"{content!r} is no standard PCIe root"
    if key == "resource.kubernetes.io/numaNode" and content < 0:
        yield "a NUMA node is never negative"


def _taint_faults(name: str, taints: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(taints) > 4:
        yield f"{name} has {len(taints)} taints"
    for taint in taints:
        domain, _, word = taint["key"].rpartition("/")
        if not all(DNS_LABEL.fullmatch(label) for label in domain.split(".")) or DNS_LABEL.fullmatch(word) is None:
            yield f"{name}: {taint['key']!r} is no label key"
        if taint["effect"] not in ("None", "NoSchedule", "NoExecute"):
            yield f"{name}: {taint['effect']!r} is no effect"
