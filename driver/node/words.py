"""What people are told about the machine, and what the kubelet is told about its devices. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.names import DeviceName, PoolName
from driver.nvml.readings import GpuFailure, MachineReading
from driver.plugin.health import DeviceHealth, Health
from driver.resourceslice.inventory import MergedDevices
from driver.topology.model import Topology
from driver.topology.names import gpu_device_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An event on the node: ``reason`` as Kubernetes has it, ``message`` for people."""

    reason: str
    message: str
    is_warning: bool = True


def words_of_reading(reading: MachineReading, topology: Topology) -> tuple[Word, ...]:
    """The GPUs that are left out, and links that the two ends see differently."""
    words = [
        Word(
            reason="GpuLost" if failure.is_lost else "GpuFailed",
            message=f"{name_of_failure(failure)} is left out: {failure.reason}",
        )
        for failure in reading.failures
    ]
    if not reading.gpus and not reading.failures:
        words.append(Word(reason="NoGpus", message="NVML answers, and says that this machine has no GPU", is_warning=False))
    for first, second in topology.links.asymmetric:
        names = f"{topology.gpus[first].name} and {topology.gpus[second].name}"
        words.append(
            Word(reason="NvLinkAsymmetric", message=f"{names} disagree about the NVLinks between them; the lower count holds")
        )
    return tuple(words)


def words_of_merge(merged: MergedDevices) -> tuple[Word, ...]:
    """The devices that went, stayed behind, or are another card now."""
    return (
        *(
            Word(reason="DeviceLost", message=f"{name} is not there any more; it stays published with a taint")
            for name in merged.lost
        ),
        *(
            Word(
                reason="DeviceWithdrawn",
                message=f"{name} is not there any more and nobody holds it; no longer published",
                is_warning=False,
            )
            for name in merged.withdrawn
        ),
        *(
            Word(
                reason="GpuReplaced",
                message=f"another card is in the slot of {each.name}: {each.new_uuid}, before {each.old_uuid}",
            )
            for each in merged.replaced
        ),
    )


def name_of_failure(failure: GpuFailure) -> str:
    """What to call a GPU that did not answer."""
    return f"GPU {failure.index}" if failure.pci is None else f"GPU {failure.index} ({gpu_device_name(failure.pci)})"


def build_health(
    pool: PoolName, merged: MergedDevices, failures: Sequence[GpuFailure], *, now_s: int
) -> tuple[DeviceHealth, ...]:
    """The health of every published device, looked at ``now_s``: one that the node does not have now is unhealthy."""
    reasons = {gpu_device_name(each.pci): each.reason for each in failures if each.pci is not None}
    lost = frozenset(merged.lost)

    def judge(name: DeviceName) -> DeviceHealth:
        is_lost = name in lost
        message = reasons.get(name, "the GPU is not there any more") if is_lost else ""
        health = Health.UNHEALTHY if is_lost else Health.HEALTHY
        return DeviceHealth(pool=pool, device=name, health=health, last_updated_s=now_s, message=message)

    return tuple(judge(DeviceName(device.name)) for device in merged.devices)
