"""What is looked up when a scraper asks, as one frozen value, and the figures that follow from it. Pure.

Series follow what is there: a claim that is gone, a GPU that went, a trouble that is over have none. Their number is bounded
by the machine, and that of the holders by ``MOST_HOLDERS``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from driver.claims.record import ClaimRecord, RecordedDevice, State
from driver.health.model import HEALTHY, Health
from driver.metrics.definition import Definition, Sample
from driver.names import DeviceName
from driver.nvml.figures import GpuFigures
from driver.plugin.health import DeviceHealth
from driver.plugin.health import Health as KubeletHealth
from driver.plugin.registration import Phase, RegistrationStatus
from driver.resourceslice.publish_reports import PublishState, PublishStatus
from driver.topology.mig import NodeDevice, Partition
from driver.topology.model import Gpu

MOST_HOLDERS = 1024

REGISTERED = Definition("gpu_dra_node_registered", "gauge", "1 while the kubelet has this plugin registered")
REGISTRATIONS = Definition("gpu_dra_node_registrations", "counter", "How often the kubelet registered this plugin")
PUBLISH_STATE = Definition(
    "gpu_dra_node_publish_state",
    "gauge",
    "1 at where publishing stands: waiting, published, failing, yielded (a newer instance publishes), refused",
    ("state",),
)
SLICES = Definition("gpu_dra_node_slices", "gauge", "Slices of this node, as last published")
MACHINE_READ = Definition("gpu_dra_node_machine_read", "gauge", "1 once NVML has answered for the whole machine")
DEVICE_PLUGIN = Definition(
    "gpu_dra_node_device_plugin",
    "gauge",
    "1 while a device plugin offers nvidia.com/gpu on this node: two give out its GPUs",
)
ALLOCATABLE = Definition("gpu_dra_node_allocatable_devices", "gauge", "Devices that may be prepared: gpu, mig", ("type",))
UNHEALTHY = Definition("gpu_dra_node_unhealthy_devices", "gauge", "Devices that the kubelet is told are not healthy")
CLAIMS = Definition(
    "gpu_dra_node_claims", "gauge", "Claims with a record: prepared, or half way there (starting) or back (ending)", ("state",)
)
PREPARED = Definition(
    "gpu_dra_node_prepared_devices", "gauge", "Devices that claims hold: gpu, mig, share (of a GPU's memory), admin", ("type",)
)
ISLAND = Definition(
    "gpu_dra_node_island_gpus", "gauge", "GPUs of an NVLink island, by its first GPU; 1 is a GPU alone", ("island",)
)
GPU_INFO = Definition(
    "gpu_dra_gpu_info",
    "gauge",
    "1 for each GPU that answers, and for one in trouble that answered before",
    ("gpu", "uuid", "product"),
)
NVLINKS = Definition("gpu_dra_gpu_active_nvlinks", "gauge", "NVLinks of the GPU that are up", ("gpu",))
UTILIZATION = Definition(
    "gpu_dra_gpu_utilization_ratio", "gauge", "Part of the last moment in which a kernel ran, 0 to 1; not in MIG mode", ("gpu",)
)
MEMORY_USED = Definition("gpu_dra_gpu_memory_used_bytes", "gauge", "Memory in use, without the driver's own", ("gpu",))
MEMORY_TOTAL = Definition("gpu_dra_gpu_memory_total_bytes", "gauge", "Memory that there is", ("gpu",))
TEMPERATURE = Definition("gpu_dra_gpu_temperature_celsius", "gauge", "Temperature of the chip", ("gpu",))
POWER = Definition("gpu_dra_gpu_power_watts", "gauge", "What the board draws", ("gpu",))
XIDS = Definition(
    "gpu_dra_gpu_xids", "counter", "XIDs that the driver reported since the node was booted, by number", ("gpu", "xid")
)
TROUBLE = Definition(
    "gpu_dra_gpu_trouble",
    "gauge",
    "1 for what is wrong with the GPU now; severity warning: it is given out all the same",
    ("gpu", "kind", "value", "severity"),
)
TROUBLE_SINCE = Definition(
    "gpu_dra_gpu_trouble_since_timestamp_seconds",
    "gauge",
    "When what is wrong with the GPU now began, with the labels of gpu_dra_gpu_trouble",
    TROUBLE.labels,
)
HOLDER = Definition(
    "gpu_dra_gpu_holder",
    "gauge",
    "1 for each claim that holds the GPU or a part of it, and each pod that uses the claim",
    ("gpu", "device", "type", "namespace", "claim", "pod"),
)
HOLDERS_LEFT_OUT = Definition("gpu_dra_gpu_holders_left_out", "gauge", "Holders beyond the number that is served")

DEFINITIONS = (
    REGISTERED,
    REGISTRATIONS,
    PUBLISH_STATE,
    SLICES,
    MACHINE_READ,
    DEVICE_PLUGIN,
    ALLOCATABLE,
    UNHEALTHY,
    CLAIMS,
    PREPARED,
    ISLAND,
    GPU_INFO,
    NVLINKS,
    UTILIZATION,
    MEMORY_USED,
    MEMORY_TOTAL,
    TEMPERATURE,
    POWER,
    XIDS,
    TROUBLE,
    TROUBLE_SINCE,
    HOLDER,
    HOLDERS_LEFT_OUT,
)

_STATES: Mapping[State, str] = {
    State.PREPARE_STARTED: "starting",
    State.PREPARE_COMPLETED: "prepared",
    State.UNPREPARE_STARTED: "ending",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """All that the figures follow from."""

    registration: RegistrationStatus = field(default_factory=RegistrationStatus)
    publish: PublishStatus = field(default_factory=PublishStatus)
    is_read: bool = False
    has_device_plugin: bool = False
    cards: Mapping[DeviceName, Gpu] = field(default_factory=dict)
    lost: Mapping[DeviceName, Gpu] = field(default_factory=dict)
    """GPUs in trouble that are not among ``cards``, as they answered last."""
    devices: Mapping[DeviceName, NodeDevice] = field(default_factory=dict)
    kubelet: tuple[DeviceHealth, ...] = ()
    health: Health = HEALTHY
    records: tuple[ClaimRecord, ...] = ()
    pods_of: Callable[[str], tuple[str, ...]] = lambda _uid: ()
    figures: tuple[GpuFigures, ...] = ()


def build_samples(view: NodeView) -> Iterator[Sample]:
    """Every sample, those of one definition beside each other or not."""
    yield from _build_process(view)
    yield from _build_devices(view)
    yield from _build_gpus(view)
    yield from _build_health(view.health)
    yield from _build_holders(view)


def _build_process(view: NodeView) -> Iterator[Sample]:
    yield REGISTERED.sample(view.registration.phase is Phase.REGISTERED)
    yield REGISTRATIONS.sample(view.registration.count)
    for state in PublishState:
        yield PUBLISH_STATE.sample(view.publish.state is state, state.value)
    yield SLICES.sample(view.publish.slices)
    yield MACHINE_READ.sample(view.is_read)
    yield DEVICE_PLUGIN.sample(view.has_device_plugin)
    states = Counter(record.state for record in view.records)
    for each, word in _STATES.items():
        yield CLAIMS.sample(states[each], word)


def _build_devices(view: NodeView) -> Iterator[Sample]:
    kinds = Counter("mig" if isinstance(device, Partition) else "gpu" for device in view.devices.values())
    for kind in ("gpu", "mig"):
        yield ALLOCATABLE.sample(kinds[kind], kind)
    held = Counter(type_of(device) for record in view.records for device in record.devices)
    for kind in ("gpu", "mig", "share", "admin"):
        yield PREPARED.sample(held[kind], kind)
    yield UNHEALTHY.sample(sum(each.health is KubeletHealth.UNHEALTHY for each in view.kubelet))
    names = list(view.cards)
    for island, count in sorted(Counter(gpu.island for gpu in view.cards.values()).items()):
        yield ISLAND.sample(count, names[island])


def _build_gpus(view: NodeView) -> Iterator[Sample]:
    for name, gpu in view.lost.items():
        yield GPU_INFO.sample(1, name, gpu.reading.uuid, gpu.reading.product_name)
    figures = {each.uuid: each for each in view.figures}
    for name, gpu in view.cards.items():
        yield GPU_INFO.sample(1, name, gpu.reading.uuid, gpu.reading.product_name)
        yield NVLINKS.sample(gpu.nvlink_count, name)
        seen = figures.get(gpu.reading.uuid)
        if seen is not None:
            yield from _build_figures(name, seen)


def _build_figures(name: DeviceName, seen: GpuFigures) -> Iterator[Sample]:
    told: tuple[tuple[Definition, int | None, float], ...] = (
        (UTILIZATION, seen.utilization_percent, 0.01),
        (MEMORY_USED, seen.memory_used_bytes, 1),
        (MEMORY_TOTAL, seen.memory_total_bytes, 1),
        (TEMPERATURE, seen.temperature_celsius, 1),
        (POWER, seen.power_mw, 0.001),
    )
    for definition, value, unit in told:
        if value is not None:
            yield definition.sample(round(value * unit, 3), name)


def _build_health(health: Health) -> Iterator[Sample]:
    for (device, xid), count in sorted(health.counts.items()):
        yield XIDS.sample(count, device, str(xid))
    youngest_first = sorted(health.troubles, key=lambda each: each.since, reverse=True)
    troubles = {(each.device, each.kind.value, each.value): each for each in youngest_first}
    for (device, kind, value), trouble in sorted(troubles.items()):
        labels = device, kind, value, "warning" if trouble.is_warning else "fault"
        yield TROUBLE.sample(1, *labels)
        yield TROUBLE_SINCE.sample(trouble.since.timestamp(), *labels)


def _build_holders(view: NodeView) -> Iterator[Sample]:
    rows = sorted(
        {
            (device.gpu, DeviceName(device.device), type_of(device), record.namespace, record.name, pod)
            for record in view.records
            for device in record.devices
            for pod in view.pods_of(record.uid) or ("",)
        }
    )
    for row in rows[:MOST_HOLDERS]:
        yield HOLDER.sample(1, *row)
    yield HOLDERS_LEFT_OUT.sample(max(0, len(rows) - MOST_HOLDERS))


def type_of(device: RecordedDevice) -> str:
    """What a claim holds: ``gpu``, ``mig``, ``share``, or ``admin`` where it only looks on."""
    if device.is_admin:
        return "admin"
    if device.mig is not None:
        return "mig"
    return "gpu" if device.share_id is None else "share"
