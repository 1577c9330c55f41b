"""What preparing a claim will come to, decided before anything is touched. Pure.

claim as read ─ choose own results ─ look each up in the node ─ decode and choose configs ─ ClaimPlan
ClaimPlan + holders of devices ─ validate_exclusive ─ nothing, or DeviceInUse naming the holder
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from driver.api import gpu_config, resource_v1
from driver.cdi import names as cdi_names
from driver.claims import precedence
from driver.claims.model import ClaimRef
from driver.errors import (
    ClaimError,
    ClaimNotAllocated,
    ClaimReplaced,
    ConfigInvalid,
    DeviceInUse,
    DeviceNotReady,
    ForeignPool,
    UnknownDevice,
)
from driver.names import CDIDeviceID, DeviceName, GpuUUID, PoolName, is_dns_label
from driver.topology.model import Gpu

POD_CLAIM_NAME_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
_CONFIGS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One result of ours, found on this node."""

    request: str
    """As in the allocation: ``a`` or ``a/b``."""
    pool: PoolName
    device: DeviceName
    uuid: GpuUUID
    cdi_device_id: CDIDeviceID
    is_admin: bool = False
    """Seen by a monitor: holds nothing, changes nothing."""
    share_id: str | None = None
    config: gpu_config.GpuConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A claim's devices on this node, in the order of its allocation."""

    ref: ClaimRef
    allocation: str
    """Hash of what the allocation says to this driver; another hash is another allocation (R9)."""
    devices: tuple[PlannedDevice, ...]
    pod_claim_name: str | None = None
    """The name in the pod's spec, for a claim made from a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningNode:
    """The node that a claim is planned for."""

    driver: str
    pool: PoolName
    devices: Mapping[DeviceName, Gpu]
    unread: str = ""
    """Why ``devices`` is not known yet, if so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A claim that has a device, in whatever state the claim is. ``who`` is text for people."""

    who: str
    share_id: str | None = None


def plan_claim(claim: resource_v1.ResourceClaim, ref: ClaimRef, node: PlanningNode) -> ClaimPlan:
    """The plan for ``ref`` on ``node``; no devices when the allocation has none for this driver (B15).

    Raises:
        ClaimReplaced, ClaimNotAllocated, ForeignPool, UnknownDevice, DeviceNotReady, ConfigInvalid, ClaimError
    """
    allocation = read_allocation(claim, ref)
    own = _choose_results(allocation, ref, node)
    configs = _decode_configs(allocation, ref, node.driver)
    return ClaimPlan(
        ref=ref,
        allocation=hash_allocation(allocation, node.driver),
        devices=tuple(_plan_device(result, ref, node, configs) for result in own),
        pod_claim_name=_read_pod_claim_name(claim),
    )


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


def _read_pod_claim_name(claim: resource_v1.ResourceClaim) -> str | None:
    """A user may write anything into the annotation of a claim of their own; only a name counts as one."""
    name = claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)
    return name if name is not None and is_dns_label(name) else None


def list_exclusive_gpus(plan: ClaimPlan) -> tuple[str, ...]:
    """The GPUs whose locks the claim needs, by name. A monitor's devices need none."""
    return tuple(sorted({device.device for device in plan.devices if not device.is_admin}))


def validate_exclusive(plan: ClaimPlan, holders: Mapping[DeviceName, Sequence[Holder]]) -> None:
    """Refuses the plan when another claim holds one of its devices, in whatever state (B07).

    ``holders`` leaves out the claim itself. Two shares of one device may stand side by side; admin access is let through.

    Raises:
        DeviceInUse: names the device and the holder; retryable.
    """
    for device in plan.devices:
        if device.is_admin:
            continue
        for holder in holders.get(device.device, ()):
            if device.share_id is None or holder.share_id is None:
                raise DeviceInUse(
                    f"{plan.ref}: device {device.device} is held by {holder.who}; it is tried again until that ends"
                )


def _choose_results(
    allocation: resource_v1.DeviceAllocation, ref: ClaimRef, node: PlanningNode
) -> tuple[resource_v1.AllocationResult, ...]:
    own = tuple(result for result in allocation.results if result.driver == node.driver)
    for result in own:
        if result.pool != node.pool:
            raise ForeignPool(
                f"{ref}: device {result.device[:80]!r} lies in pool {result.pool[:80]!r}, and this node serves {node.pool!r}; "
                "the claim was allocated for another node, the pod must be made again"
            )
    held = [(result.device, result.share_id) for result in own if not result.admin_access]
    for key in held:
        if held.count(key) > 1:
            raise ClaimError(f"{ref}: device {key[0][:80]!r} is in the allocation twice; the claim must be allocated again")
    return own


def _decode_configs(
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


def _plan_device(
    result: resource_v1.AllocationResult,
    ref: ClaimRef,
    node: PlanningNode,
    configs: Iterable[precedence.SourcedConfig[gpu_config.DeviceConfig]],
) -> PlannedDevice:
    gpu = node.devices.get(DeviceName(result.device))
    if gpu is None and node.unread:
        raise DeviceNotReady(f"{ref}: the GPUs of this node have not been read yet ({node.unread}); ask again")
    if gpu is None:
        raise UnknownDevice(
            f"{ref}: this node has no device {result.device[:80]!r} now (it has {len(node.devices)} devices); "
            "see `gpu-dra inspect` on the node, and whether the GPU fell off the bus"
        )
    config = _choose_gpu_config(result, ref, configs)
    return PlannedDevice(
        request=result.request,
        pool=node.pool,
        device=gpu.name,
        uuid=gpu.reading.uuid,
        cdi_device_id=cdi_names.build_claim_device_id(ref.uid, gpu.name, result.share_id),
        is_admin=bool(result.admin_access),
        share_id=result.share_id,
        config=config,
    )


def _choose_gpu_config(
    result: resource_v1.AllocationResult,
    ref: ClaimRef,
    configs: Iterable[precedence.SourcedConfig[gpu_config.DeviceConfig]],
) -> gpu_config.GpuConfig:
    """The config of a whole GPU. A config of another kind is passed over, unless it names the request."""
    fitting: list[precedence.SourcedConfig[gpu_config.GpuConfig]] = []
    faults = []
    for each in configs:
        where = f"status.allocation.devices.config[{each.position}]"
        if isinstance(each.config, gpu_config.TopologyPolicy) or not each.applies_to(result.request):
            continue
        if result.admin_access:
            if each.source == "FromClaim":
                faults.append(f"{where}: request {result.request!r} has adminAccess, which takes no config; leave it out")
        elif isinstance(each.config, gpu_config.GpuConfig):
            fitting.append(
                precedence.SourcedConfig(position=each.position, source=each.source, requests=each.requests, config=each.config)
            )
        elif each.names(result.request):
            faults.append(
                f"{where}.opaque.parameters.kind: {type(each.config).__name__} is for another kind of device, and request "
                f"{result.request!r} was given the whole GPU {result.device}; use GpuConfig"
            )
    if faults:
        raise ConfigInvalid(f"{ref}: the config does not fit the device", faults)
    winner = precedence.choose_config(fitting, result.request)
    return winner.config if winner is not None else gpu_config.GpuConfig()


def _canonical(parameters: msgspec.Raw) -> str:
    """The same for the same content, whatever the order of keys; the text itself where it is no JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(parameters), order="sorted").decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return bytes(parameters).hex()
