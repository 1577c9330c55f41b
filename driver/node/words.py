"""What people are told about the machine, and what the kubelet is told about its devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driver.health.model import Health, Trouble
from driver.names import DeviceName, PciAddress, PoolName
from driver.nvml.readings import GpuFailure, MachineReading
from driver.plugin.health import DeviceHealth
from driver.plugin.health import Health as DeviceState
from driver.resourceslice.health_taints import list_troubles
from driver.resourceslice.inventory import MergedDevices
from driver.topology.mig import Partition
from driver.topology.mig_names import parse_gpu_of_device, parse_mig_name
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSeen:
    """What the state of each device follows from."""

    merged: MergedDevices
    failures: Sequence[GpuFailure]
    health: Health
    partitions: Mapping[str, Partition]
    """The MIG devices that are published, by name."""


def build_health(pool: PoolName, seen: HealthSeen, *, now_s: int) -> tuple[DeviceHealth, ...]:
    """The health of every published device, looked at ``now_s``.

    One that the node does not have now is unhealthy, and one that is given to no new claim for a trouble of its own. What only
    warns leaves a device healthy, and says so.
    """
    reasons = name_reasons(seen.failures)
    by_gpu: dict[str, list[Trouble]] = {}
    for trouble in seen.health.troubles:
        by_gpu.setdefault(trouble.device, []).append(trouble)

    def judge(name: DeviceName) -> DeviceHealth:
        troubles = list_troubles(name, by_gpu, seen.partitions)
        lost = describe_lost(name, reasons) if name in seen.merged.lost else ""
        is_ill = bool(lost) or any(not trouble.is_warning for trouble in troubles)
        texts = (lost, *(f"{trouble.message} (since {trouble.since:%Y-%m-%dT%H:%M:%SZ})" for trouble in troubles))
        return DeviceHealth(
            pool=pool,
            device=name,
            health=DeviceState.UNHEALTHY if is_ill else DeviceState.HEALTHY,
            last_updated_s=now_s,
            message="; ".join(text for text in texts if text),
        )

    return tuple(judge(DeviceName(device.name)) for device in seen.merged.devices)


def name_reasons(failures: Sequence[GpuFailure]) -> Mapping[PciAddress, str]:
    """Why GPUs do not answer, of those whose address is known."""
    return {each.pci: each.reason for each in failures if each.pci is not None}


def describe_lost(name: DeviceName, reasons: Mapping[PciAddress, str]) -> str:
    """Why a device is not there any more; ``reasons`` is what GPUs failed with."""
    pci = parse_gpu_of_device(name)
    gone = "the GPU is not there any more" if parse_mig_name(name) is None else "the MIG device is not there any more"
    return gone if pci is None else reasons.get(pci, gone)
