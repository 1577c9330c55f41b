"""One pass over a library: what the machine's GPUs are and how they hang together.

``read_machine`` asks each GPU by itself, in a thread of its own. Which answers a GPU must give and which it may leave out
stands in the two tables of ``facts``: a required call that fails costs this GPU alone (B23, B32), an optional one costs its
fact, and one that hangs costs this GPU alone, whichever it is. The only NVML errors that leave this module are those of the
library as a whole. Calls that concern no GPU are made in the caller's thread, and may hang there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from driver import log
from driver.errors import NvmlError
from driver.names import PciAddress
from driver.nvml.enums import NVIDIA_VENDOR_ID
from driver.nvml.facts import OPTIONAL, REMOTE_TYPES, REQUIRED, Unusable, clean_text, parse_pci
from driver.nvml.library import NVLINK_MAX_LINKS, Code, Device, NvmlLibrary, PciInfo
from driver.nvml.mig_reader import read_mig
from driver.nvml.reading_threads import ReadingThreads
from driver.nvml.readings import GpuFailure, GpuReading, MachineReading, MigReading, NvLinkReading, PcieLevel, RemoteType

_T = TypeVar("_T")
_Answered = tuple[Device, GpuReading]
_Levels = Mapping[tuple[PciAddress, PciAddress], PcieLevel]

_LOG = log.logger(__name__)

_ABSENT = frozenset({Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND})
"""The codes by which NVML says "there is no such fact here"; any other failure of an optional call is worth a log line."""

_LIBRARY_IS_DOWN = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND, Code.LIB_RM_VERSION_MISMATCH})
"""The codes that concern the library, not a GPU: half a reading must not pass for a machine without GPUs (B31)."""

_NO_SUCH_LINK = frozenset({Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT, Code.FUNCTION_NOT_FOUND})
"""What NVML says of a link number that the GPU does not have."""

_LEVELS = frozenset(level.value for level in PcieLevel)

_MAX_GPUS = 256
"""More is not a machine but a broken answer."""


class PciFacts(Protocol):
    """What the kernel says about a PCI function."""

    def numa_node(self, pci: PciAddress) -> int | None:
        """None where sysfs says -1 or nothing."""

    def pcie_root(self, pci: PciAddress) -> str | None:
        """``pci0000:17``; None where sysfs hides it."""


def read_machine(library: NvmlLibrary, pci_facts: PciFacts, threads: ReadingThreads | None = None) -> MachineReading:
    """Everything that one pass over ``library`` and sysfs says. ``threads`` are the same in every pass of a process.

    Raises:
        NvmlError: the library as a whole cannot answer; nothing is known about the machine then.
    """
    threads = threads or ReadingThreads()
    driver_version = clean_text(library.system_driver_version())
    count = min(library.device_count(), _MAX_GPUS)
    readings: list[_Answered] = []
    failures: list[GpuFailure] = []
    for answer in threads.ask(library, [_GpuJob(index=index, pci_facts=pci_facts) for index in range(count)]):
        if isinstance(answer, GpuFailure):
            failures.append(answer)
        elif answer is not None:
            readings.append(answer)
    readings, doubles = _split_doubles(readings)
    readings.sort(key=lambda pair: pair[1].pci)
    return MachineReading(
        driver_version=driver_version,
        cuda_driver_version=_read_cuda_driver_version(library),
        gpus=tuple(gpu for _, gpu in readings),
        failures=(*failures, *doubles),
        pcie_levels=_read_pcie_levels(library, readings, threads),
    )


def _read_cuda_driver_version(library: NvmlLibrary) -> tuple[int, int] | None:
    number = _ask("the machine", library.system_cuda_driver_version)
    return (number // 1000, number % 1000 // 10) if number is not None and number > 0 else None


@dataclass(slots=True, kw_only=True)
class _GpuJob:
    """The calls to the GPU at ``index``. The answer is None where the device there is not NVIDIA's."""

    index: int
    pci_facts: PciFacts
    pci: PciAddress | None = None
    """This and the facts are there as soon as they are known, for the failure's sake."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        return f"gpu-{self.index}"

    def run(self, library: NvmlLibrary) -> _Answered | GpuFailure | None:
        try:
            return self._read(library)
        except NvmlError as err:
            _raise_if_library_is_down(err)
            return self._fail(str(err), is_lost=err.code == Code.GPU_IS_LOST)
        except Unusable as err:
            return self._fail(str(err))

    def give_up(self, reason: str) -> GpuFailure:
        return self._fail(reason)

    def _fail(self, reason: str, *, is_lost: bool = False) -> GpuFailure:
        return GpuFailure(index=self.index, pci=self.pci, uuid=self.facts.get("uuid"), reason=reason, is_lost=is_lost)

    def _read(self, library: NvmlLibrary) -> _Answered | None:
        device = library.device_handle_by_index(self.index)
        info = library.device_pci_info(device)
        if info.device_id & 0xFFFF != NVIDIA_VENDOR_ID:
            pci_id = f"{info.device_id:#010x}"
            log.event(_LOG, log.INFO, "left out a device that is not NVIDIA's", index=self.index, pci_id=pci_id)
            return None
        self.pci = pci = parse_pci(info)
        for name, fact in REQUIRED.items():
            self.facts[name] = fact.convert(getattr(library, fact.method)(device))
        facts = self.facts | _read_optional_facts(library, device, pci)
        nvlinks = tuple(_read_nvlinks(library, device, pci))
        facts["mig"] = _read_mig(library, device)
        numa_node, pcie_root = self.pci_facts.numa_node(pci), self.pci_facts.pcie_root(pci)
        gpu = GpuReading(index=self.index, pci=pci, nvlinks=nvlinks, numa_node=numa_node, pcie_root=pcie_root, **facts)
        return device, gpu


def _raise_if_library_is_down(err: NvmlError) -> None:
    if err.code in _LIBRARY_IS_DOWN:
        raise err


def _raise_unless_optional(err: NvmlError) -> None:
    """A lost GPU is no absent fact, nor is a library that is down."""
    if err.code in _LIBRARY_IS_DOWN or err.code == Code.GPU_IS_LOST:
        raise err


def _ask(subject: object, call: Callable[[], _T]) -> _T | None:
    """The answer, or None where ``subject`` has none."""
    try:
        return call()
    except NvmlError as err:
        _raise_unless_optional(err)
        if err.code not in _ABSENT:
            log.event(_LOG, log.WARNING, "an optional fact is taken as absent", of=str(subject), error=err)
        return None


def _read_optional_facts(library: NvmlLibrary, device: Device, pci: PciAddress) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name, fact in OPTIONAL.items():
        answer = _ask(pci, partial(getattr(library, fact.method), device))
        if answer is not None:
            facts[name] = fact.convert(answer)
    return facts


def _read_mig(library: NvmlLibrary, device: Device) -> MigReading | None:
    """None where the GPU cannot do MIG. A mode that is not told is a fault, not a GPU without MIG."""
    try:
        mode = library.device_mig_mode(device)
    except NvmlError as err:
        _raise_unless_optional(err)
        if err.code in _ABSENT:
            return None
        return MigReading(is_enabled=False, is_enabled_after_reset=False, is_mode_known=False, fault=str(err))
    return read_mig(library, device, mode)


def _read_nvlinks(library: NvmlLibrary, device: Device, pci: PciAddress) -> Iterator[NvLinkReading]:
    """The ports that the GPU has: those whose state NVML tells. Numbers may have holes, so all are asked."""
    silent: dict[int, str] = {}
    for link in range(NVLINK_MAX_LINKS):
        try:
            is_active = library.device_nvlink_state(device, link)
        except NvmlError as err:
            _raise_unless_optional(err)
            if err.code not in _NO_SUCH_LINK:
                silent[link] = str(err)
            continue
        kind = _ask(pci, partial(library.device_nvlink_remote_device_type, device, link)) if is_active else None
        remote = _ask(pci, partial(library.device_nvlink_remote_pci_info, device, link)) if is_active else None
        yield NvLinkReading(
            link=link,
            is_active=is_active,
            remote_type=RemoteType.UNKNOWN if kind is None else REMOTE_TYPES.get(kind, RemoteType.UNKNOWN),
            remote_pci=None if remote is None else _parse_remote_pci(remote),
        )
    if silent:
        log.event(_LOG, log.WARNING, "NVLink ports are taken as absent", gpu=str(pci), ports=silent)


def _parse_remote_pci(info: PciInfo) -> PciAddress | None:
    try:
        return PciAddress.parse(info.bus_id)
    except ValueError:
        return None


def _split_doubles(readings: list[_Answered]) -> tuple[list[_Answered], list[GpuFailure]]:
    """GPUs that share a UUID, PCI address or minor number cannot be told apart: each of them is a failure."""
    kept, doubles = [], []
    for device, gpu in readings:
        rest = [other for _, other in readings if other is not gpu]
        same = [name for name in ("uuid", "pci", "minor") if getattr(gpu, name) in {getattr(o, name) for o in rest}]
        if same:
            reason = f"another GPU has the same {' and '.join(same)}"
            doubles.append(GpuFailure(index=gpu.index, pci=gpu.pci, uuid=gpu.uuid, reason=reason, is_lost=False))
        else:
            kept.append((device, gpu))
    return kept, doubles


@dataclass(slots=True, kw_only=True)
class _LevelsJob:
    """How far ``near`` is from each of ``others``: the pairs that NVML answers. A GPU lost on the way leaves its unknown."""

    near: _Answered
    others: Sequence[_Answered]
    levels: dict[tuple[PciAddress, PciAddress], PcieLevel] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        return f"levels-{self.near[1].index}"

    def run(self, library: NvmlLibrary) -> _Levels:
        first, low = self.near
        for second, high in self.others:
            try:
                number = library.device_topology_common_ancestor(first, second)
            except NvmlError as err:
                _raise_if_library_is_down(err)
                log.event(_LOG, log.WARNING, "a PCIe level is unknown", gpus=[str(low.pci), str(high.pci)], error=err)
                continue
            if number in _LEVELS:
                self.levels[low.pci, high.pci] = PcieLevel(number)
        return self.levels

    def give_up(self, reason: str) -> _Levels:
        log.event(_LOG, log.WARNING, "PCIe levels are unknown", gpu=str(self.near[1].pci), reason=reason)
        return dict(self.levels)


def _read_pcie_levels(library: NvmlLibrary, readings: list[_Answered], threads: ReadingThreads) -> _Levels:
    jobs = [_LevelsJob(near=near, others=readings[place + 1 :]) for place, near in enumerate(readings[:-1])]
    here = {gpu.pci for _, gpu in readings}
    rows = threads.ask(library, jobs)
    # A row that hangs from an earlier pass may know GPUs that have failed since.
    return {pair: level for row in rows for pair, level in row.items() if here.issuperset(pair)}
