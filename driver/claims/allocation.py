"""What a claim's allocation says to this driver, decoded and checked. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from driver.api import gpu_config, resource_v1
from driver.claims import precedence
from driver.claims.model import ClaimRef
from driver.errors import ClaimError, ClaimNotAllocated, ClaimReplaced, ConfigInvalid
from driver.names import is_dns_label

POD_CLAIM_NAME_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
_CONFIGS_MAX = 64


def read_allocation(claim: resource_v1.ResourceClaim, ref: ClaimRef) -> resource_v1.DeviceAllocation:
    """The claim's allocation, once it is sure that this is the claim that the kubelet means."""
    if claim.metadata.uid != ref.uid:
        raise ClaimReplaced(
            f"{ref}: the claim of this name has uid {claim.metadata.uid[:64]!r} now; "
            "the pod that used the old one must be made again"
        )
    allocation = claim.status.allocation
    if allocation is None:
        raise ClaimNotAllocated(f"{ref}: has no allocation; the scheduler or the controller has to allocate it first")
    devices = allocation.devices
    if len(devices.results) > resource_v1.ALLOCATION_RESULTS_MAX or len(devices.config) > _CONFIGS_MAX:
        raise ClaimError(
            f"{ref}: {len(devices.results)} results and {len(devices.config)} configs are more than the API allows "
            f"({resource_v1.ALLOCATION_RESULTS_MAX} and {_CONFIGS_MAX})"
        )
    return devices


def hash_allocation(allocation: resource_v1.DeviceAllocation, driver: str) -> str:
    """SHA-256 over what the allocation says to ``driver``: another driver's part may change without us."""
    results = [result for result in allocation.results if result.driver == driver]
    configs = [
        (config.source, config.requests, _canonical(config.opaque.parameters))
        for config in allocation.config
        if config.opaque is not None and config.opaque.driver == driver
    ]
    return hashlib.sha256(msgspec.json.encode((results, configs), order="sorted")).hexdigest()


def read_pod_claim_name(claim: resource_v1.ResourceClaim) -> str | None:
    """A user may write anything into the annotation of a claim of their own; only a name counts as one."""
    name = claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)
    return name if name is not None and is_dns_label(name) else None


def decode_configs(
    allocation: resource_v1.DeviceAllocation, ref: ClaimRef, driver: str
) -> tuple[precedence.SourcedConfig[gpu_config.DeviceConfig], ...]:
    """Own configs, decoded; every fault of all of them in one error."""
    configs = []
    faults: list[str] = []
    for position, config in enumerate(allocation.config):
        if config.opaque is None or config.opaque.driver != driver:
            continue
        where = f"status.allocation.devices.config[{position}]"
        if config.source not in precedence.SOURCES:
            faults.append(f"{where}.source: {config.source[:64]!r} is not one of {', '.join(precedence.SOURCES)}")
            continue
        try:
            decoded = gpu_config.decode_config(bytes(config.opaque.parameters), where)
        except ConfigInvalid as err:
            faults += [f"{where}.opaque.parameters ({config.source}): {fault}" for fault in err.faults]
            continue
        configs.append(
            precedence.SourcedConfig(position=position, source=config.source, requests=config.requests, config=decoded)
        )
    if faults:
        raise ConfigInvalid(f"{ref}: the config cannot be used", faults)
    return tuple(configs)


def _canonical(parameters: msgspec.Raw) -> str:
    """The same for the same content, whatever the order of keys; the text itself where it is no JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(parameters), order="sorted").decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return bytes(parameters).hex()
