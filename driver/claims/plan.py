"""What preparing a claim will come to, decided before anything is touched. Pure.

claim as read ─ choose own results ─ look each up in the node ─ decode and choose configs ─ ClaimPlan
ClaimPlan + holders of devices ─ validate_exclusive ─ nothing, or DeviceInUse naming the holder
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from driver.api import gpu_config, resource_v1
from driver.api.quantity import parse_quantity
from driver.cdi import names as cdi_names
from driver.claims import precedence
from driver.claims.allocation import decode_configs, hash_allocation, read_allocation, read_pod_claim_name
from driver.claims.config_choice import choose_device_config
from driver.claims.model import ClaimRef
from driver.claims.sharing_plan import Candidate, DeviceSharing, plan_sharing
from driver.errors import (
    ClaimError,
    ConfigInvalid,
    DeviceInUse,
    DeviceNotReady,
    ForeignPool,
    UnknownDevice,
)
from driver.names import CDIDeviceID, DeviceName, PoolName
from driver.topology.mig import Footprint, NodeDevice, Partition, find_device, gpu_of
from driver.topology.model import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One result of ours, found on this node."""

    request: str
    """As in the allocation: ``a`` or ``a/b``."""
    pool: PoolName
    device: DeviceName
    uuid: str
    """Empty while the MIG device is still to be made."""
    cdi_device_id: CDIDeviceID
    is_admin: bool = False
    """Seen by a monitor: holds nothing, changes nothing."""
    share_id: str | None = None
    consumed_bytes: int | None = None
    """Memory of a share."""
    config: gpu_config.GpuConfig | gpu_config.MigDeviceConfig
    config_entry: int = 0
    """Where ``config`` stands in the allocation."""
    sharing: DeviceSharing | None = None
    partition: Partition | None = None
    """Of a MIG device."""
    is_divided: bool = False
    """Claims make MIG devices on this GPU, so its MIG mode may be on when it is given out whole."""

    @property
    def footprint(self) -> Footprint:
        """What no other claim may have at the same time."""
        return Footprint(gpu=self.device) if self.partition is None else self.partition.footprint


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
    devices: Mapping[DeviceName, NodeDevice]
    unread: str = ""
    """Why ``devices`` is not known yet, if so."""
    divided: Collection[DeviceName] = frozenset()
    """The GPUs on which claims make MIG devices."""

    def find(self, name: str) -> NodeDevice | None:
        """The device of this name, which for a MIG device may be one of an older driver's."""
        return find_device(self.devices, name)

    def gpu(self, name: DeviceName) -> Gpu:
        """The card of a device that is there."""
        device = self.find(name)
        if device is None:
            raise KeyError(name)
        return gpu_of(device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A claim that has a device, in whatever state the claim is. ``who`` is text for people."""

    who: str
    device: DeviceName | None = None
    """The device of ours that it has; None where that cannot be known."""
    share_id: str | None = None
    consumed_bytes: int | None = None
    sharing: DeviceSharing | None = None


def plan_claim(claim: resource_v1.ResourceClaim, ref: ClaimRef, node: PlanningNode) -> ClaimPlan:
    """The plan for ``ref`` on ``node``; no devices when the allocation has none for this driver (B15).

    Raises:
        ClaimReplaced, ClaimNotAllocated, ForeignPool, UnknownDevice, DeviceNotReady, ConfigInvalid, ClaimError
    """
    allocation = read_allocation(claim, ref)
    own = _choose_results(allocation, ref, node)
    configs = decode_configs(allocation, ref, node.driver)
    devices = tuple(_plan_device(result, ref, node, configs) for result in own)
    return ClaimPlan(
        ref=ref,
        allocation=hash_allocation(allocation, node.driver),
        devices=_plan_sharing(devices, ref, node),
        pod_claim_name=read_pod_claim_name(claim),
    )


def list_exclusive_gpus(plan: ClaimPlan) -> tuple[str, ...]:
    """The GPUs whose locks the claim needs, by name. A monitor's devices need none."""
    return tuple(sorted({device.footprint.gpu for device in plan.devices if not device.is_admin}))


def validate_exclusive(plan: ClaimPlan, holders: Mapping[DeviceName, Sequence[Holder]]) -> None:
    """Refuses the plan when another claim holds one of its devices or a part of it, in whatever state (B07).

    ``holders`` leaves out the claim itself. Two shares of one device may stand side by side; admin access is let through.

    Raises:
        DeviceInUse: names the device and the holder; retryable.
    """
    for device in plan.devices:
        if device.is_admin:
            continue
        for holder in holders.get(device.device, ()):
            if device.share_id is None or holder.share_id is None or holder.device != device.device:
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


def _plan_device(
    result: resource_v1.AllocationResult,
    ref: ClaimRef,
    node: PlanningNode,
    configs: Iterable[precedence.SourcedConfig[gpu_config.DeviceConfig]],
) -> PlannedDevice:
    device = node.find(result.device)
    if device is None and node.unread:
        raise DeviceNotReady(f"{ref}: the GPUs of this node have not been read yet ({node.unread}); ask again")
    if device is None:
        raise UnknownDevice(
            f"{ref}: this node has no device {result.device[:80]!r} now (it has {len(node.devices)} devices); "
            "see `gpu-dra inspect` on the node, and whether the GPU fell off the bus"
        )
    partition = device if isinstance(device, Partition) else None
    if partition is not None and partition.made is None and result.admin_access:
        raise ClaimError(
            f"{ref}: request {result.request!r} has adminAccess, which makes no MIG device, and {result.device} is there only "
            "while a claim has it; ask for the whole GPU"
        )
    chosen = choose_device_config(result, ref, configs, is_mig=partition is not None)
    name = DeviceName(result.device)
    return PlannedDevice(
        request=result.request,
        pool=node.pool,
        device=name,
        uuid=_read_uuid(device),
        partition=partition,
        is_divided=gpu_of(device).name in node.divided,
        cdi_device_id=cdi_names.build_claim_device_id(ref.uid, name, result.share_id),
        is_admin=bool(result.admin_access),
        share_id=result.share_id,
        consumed_bytes=_read_consumed(result, ref),
        config=gpu_config.GpuConfig() if chosen is None else chosen.config,
        config_entry=chosen.position if chosen is not None and chosen.config.sharing is not None else 0,
    )


def _read_uuid(device: NodeDevice) -> str:
    """Of a MIG device that is still to be made, nothing."""
    if isinstance(device, Partition):
        return device.made.uuid if device.made is not None else ""
    return device.reading.uuid


def _read_consumed(result: resource_v1.AllocationResult, ref: ClaimRef) -> int | None:
    """The memory of a share; a device that is not shared is had whole, whatever it says."""
    amount = result.consumed_capacity.get("memory") if result.share_id is not None else None
    if amount is None:
        return None
    try:
        return int(parse_quantity(amount))
    except ValueError as err:
        raise ClaimError(f"{ref}: consumedCapacity of device {result.device[:80]!r}: {err}") from err


def _plan_sharing(devices: tuple[PlannedDevice, ...], ref: ClaimRef, node: PlanningNode) -> tuple[PlannedDevice, ...]:
    if all(device.config.sharing is None for device in devices):
        return devices
    candidates = [
        Candidate(
            device=device.device,
            uuid=device.uuid or device.device,
            is_mig=device.partition is not None,
            compute_capability=node.gpu(device.device).reading.cuda_compute_capability,
            share_bytes=None if device.share_id is None else device.consumed_bytes or 0,
            sharing=device.config.sharing,
            entry=device.config_entry,
        )
        for device in devices
    ]
    planned = plan_sharing(candidates)
    if planned.faults:
        raise ConfigInvalid(f"{ref}: the devices cannot be shared so", planned.faults)
    return tuple(replace(device, sharing=sharing) for device, sharing in zip(devices, planned.devices, strict=True))
