"""The GPUs of one opening of NVML that are listened to: registered for events, found again by what an event says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from driver import log
from driver.errors import NvmlError
from driver.health.model import Instance
from driver.health.observations import EccSeen, Observation, XidSeen
from driver.names import DeviceName, PciAddress
from driver.node.health.looks import LookJob
from driver.nvml.enums import EventType
from driver.nvml.library import Code, Device, Event, EventSet, NvmlLibrary
from driver.topology.names import gpu_device_name

_LOG = log.logger(__name__)

WANTED = (
    EventType.DOUBLE_BIT_ECC
    | EventType.XID_CRITICAL
    | EventType.SINGLE_BIT_ECC_STORM
    | EventType.DRAM_RETIREMENT
    | EventType.DRAM_RETIREMENT_FAILURE
    | EventType.NON_FATAL_POISON
    | EventType.FATAL_POISON
    | EventType.GPU_UNAVAILABLE
    | EventType.GPU_RECOVERY_ACTION
)
"""Each GPU is asked for those of them that it has. Single bits are left out: they are corrected, and come by thousands."""

_OLDEST = int(EventType.DOUBLE_BIT_ECC | EventType.XID_CRITICAL)
_ABSENT = frozenset({Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listened:
    """A GPU."""

    index: int
    device: DeviceName
    handle: Device
    has_events: bool


@dataclass(slots=True, kw_only=True)
class Watched:
    """All of them, with the set that their events come by. One that nobody wants to listen to counts as one that has events."""

    library: NvmlLibrary
    event_set: EventSet | None
    """None where no GPU has events."""
    by_uuid: Mapping[str, Listened]
    missing: int
    """GPUs that did not answer, and are asked again."""
    now: Callable[[], datetime]
    is_deaf: bool = False
    """Events were asked for in vain so often that the GPUs count as unmonitored, until they can be waited for again."""
    _places: dict[tuple[str, int], Instance] = field(default_factory=dict)
    _has_said_stranger: bool = False
    """Once an opening: a storm of such events must not fill the log."""

    def build_jobs(self, uuids: frozenset[str] | None = None) -> list[LookJob]:
        """Looks at all, or at these."""
        return [
            LookJob(
                index=each.index,
                device=each.device,
                handle=each.handle,
                has_events=each.has_events and not self.is_deaf,
                now=self.now,
            )
            for uuid, each in self.by_uuid.items()
            if uuids is None or uuid in uuids
        ]

    @property
    def has_to_be_retried(self) -> bool:
        """A GPU, or the whole library, did not do what the next opening may see it do."""
        return bool(self.missing) or (self.is_deaf and self.event_set is None)

    def decode(self, event: Event) -> Observation | None:
        """What an event says by itself; None for one that only says that there is something to look at."""
        found = self.by_uuid.get(event.uuid)
        if found is None:
            if not self._has_said_stranger:
                log.event(_LOG, log.WARNING, "an event of a GPU that nobody listens to", uuid=event.uuid, type=event.type)
            self._has_said_stranger = True
            return None
        if event.type == EventType.XID_CRITICAL:
            return XidSeen(device=found.device, at=self.now(), number=event.data, instance=self._find_instance(found, event))
        if event.type == EventType.DOUBLE_BIT_ECC:
            return EccSeen(device=found.device, at=self.now(), instance=self._find_instance(found, event))
        return None

    def forget_places(self) -> None:
        """Instances may be others by the next event."""
        self._places.clear()

    def _find_instance(self, found: Listened, event: Event) -> Instance | None:
        number = event.gpu_instance_id
        if number is None:
            return None
        key = (event.uuid, number)
        if key not in self._places:
            self._places[key] = self._read_place(found, number)
        place = self._places[key]
        return Instance(
            gpu_instance_id=number, compute_instance_id=event.compute_instance_id, start=place.start, size=place.size
        )

    def _read_place(self, found: Listened, number: int) -> Instance:
        try:
            placement = self.library.gpu_instance_info(self.library.device_gpu_instance_by_id(found.handle, number)).placement
        except NvmlError as err:
            log.event(_LOG, log.INFO, "an event of a GPU instance that is not there", device=found.device, error=err)
            return Instance(gpu_instance_id=number)
        return Instance(gpu_instance_id=number, start=placement.start, size=placement.size)


def register(
    library: NvmlLibrary,
    event_set: EventSet | None,
    now: Callable[[], datetime],
    *,
    listens: bool,
    is_deaf: bool = False,
) -> Watched:
    """Listen to every GPU that answers; or only find them, where nobody is to be listened to.

    Raises:
        NvmlError: the library as a whole does not answer.
    """
    by_uuid: dict[str, Listened] = {}
    missing = 0
    for index in range(library.device_count()):
        try:
            handle = library.device_handle_by_index(index)
            device = gpu_device_name(PciAddress.parse(library.device_pci_info(handle).bus_id))
            uuid = library.device_uuid(handle)
            has_events = not listens or (event_set is not None and _register_one(library, handle, event_set))
        except (NvmlError, ValueError) as err:
            missing += 1
            log.event(_LOG, log.WARNING, "a GPU's health cannot be watched now", index=index, error=err)
            continue
        by_uuid[uuid] = Listened(index=index, device=device, handle=handle, has_events=has_events)
    if not any(each.has_events for each in by_uuid.values()):
        event_set = None
    return Watched(library=library, event_set=event_set, by_uuid=by_uuid, missing=missing, now=now, is_deaf=is_deaf)


def create_event_set(library: NvmlLibrary) -> EventSet | None:
    """None where the library has no events: its GPUs are looked at all the same.

    Raises:
        NvmlError: it may have them another time.
    """
    try:
        return library.event_set_create()
    except NvmlError as err:
        if err.code not in _ABSENT:
            raise
        log.event(_LOG, log.WARNING, "NVML has no events here; GPUs are only looked at", error=err)
        return None


def _register_one(library: NvmlLibrary, handle: Device, event_set: EventSet) -> bool:
    """False where the GPU has no events that matter."""
    try:
        types = library.device_supported_event_types(handle) & int(WANTED)
        if types & EventType.XID_CRITICAL:
            _register_most(library, handle, types, event_set)
            return True
    except NvmlError as err:
        if err.code == Code.GPU_IS_LOST:
            raise
        log.event(_LOG, log.INFO, "a GPU tells no events", error=err)
    return False


def _register_most(library: NvmlLibrary, handle: Device, types: int, event_set: EventSet) -> None:
    """A kind that a GPU says it has, and then refuses, must not cost it those that every driver has."""
    try:
        library.device_register_events(handle, types, event_set)
    except NvmlError as err:
        if err.code == Code.GPU_IS_LOST or not types & ~_OLDEST:
            raise
        log.event(_LOG, log.INFO, "a GPU refuses the newer events; the oldest are asked for alone", error=err)
        library.device_register_events(handle, types & _OLDEST, event_set)
