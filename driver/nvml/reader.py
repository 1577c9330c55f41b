"""One pass over a library: what the machine's GPUs are and how they hang together.

``read_machine`` asks each GPU by itself. Which answers a GPU must give and which it may leave out stands in the two tables of
``facts``: a required call that fails costs this GPU alone (B23, B32), an optional one costs its fact. The only NVML errors
that leave this module are those of the library as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from driver import log
from driver.errors import NvmlError
from driver.names import PciAddress
from driver.nvml.enums import NVIDIA_VENDOR_ID
from driver.nvml.facts import OPTIONAL, REMOTE_TYPES, REQUIRED, Unusable, clean_text, parse_pci
from driver.nvml.library import NVLINK_MAX_LINKS, Code, Device, NvmlLibrary, PciInfo
from driver.nvml.readings import GpuFailure, GpuReading, MachineReading, NvLinkReading, PcieLevel, RemoteType

_T = TypeVar("_T")

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


def read_machine(library: NvmlLibrary, pci_facts: PciFacts) -> MachineReading:
    """Everything that one pass over ``library`` and sysfs says.

    Raises:
        NvmlError: the library as a whole cannot answer; nothing is known about the machine then.
    """
    driver_version = clean_text(library.system_driver_version())
    readings: list[tuple[Device, GpuReading]] = []
    failures: list[GpuFailure] = []
    for index in range(min(library.device_count(), _MAX_GPUS)):
        answer = _read_gpu(library, pci_facts, index)
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
        pcie_levels=_read_pcie_levels(library, readings),
    )


def _read_cuda_driver_version(library: NvmlLibrary) -> tuple[int, int] | None:
    number = _ask("the machine", library.system_cuda_driver_version)
    return (number // 1000, number % 1000 // 10) if number is not None and number > 0 else None


def _read_gpu(library: NvmlLibrary, pci_facts: PciFacts, index: int) -> tuple[Device, GpuReading] | GpuFailure | None:
    """None where the device at ``index`` is not NVIDIA's."""
    pci: PciAddress | None = None
    facts: dict[str, Any] = {}
    try:
        device = library.device_handle_by_index(index)
        info = library.device_pci_info(device)
        if info.device_id & 0xFFFF != NVIDIA_VENDOR_ID:
            log.event(_LOG, log.INFO, "left out a device that is not NVIDIA's", index=index, pci_id=f"{info.device_id:#010x}")
            return None
        pci = parse_pci(info)
        for name, fact in REQUIRED.items():
            facts[name] = fact.convert(getattr(library, fact.method)(device))
        facts |= _read_optional_facts(library, device, pci)
        nvlinks = tuple(_read_nvlinks(library, device, pci))
    except NvmlError as err:
        _raise_if_library_is_down(err)
        is_lost = err.code == Code.GPU_IS_LOST
        return GpuFailure(index=index, pci=pci, uuid=facts.get("uuid"), reason=str(err), is_lost=is_lost)
    except Unusable as err:
        return GpuFailure(index=index, pci=pci, uuid=facts.get("uuid"), reason=str(err), is_lost=False)
    numa_node, pcie_root = pci_facts.numa_node(pci), pci_facts.pcie_root(pci)
    return device, GpuReading(index=index, pci=pci, nvlinks=nvlinks, numa_node=numa_node, pcie_root=pcie_root, **facts)


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


def _split_doubles(
    readings: list[tuple[Device, GpuReading]],
) -> tuple[list[tuple[Device, GpuReading]], list[GpuFailure]]:
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


def _read_pcie_levels(
    library: NvmlLibrary, readings: list[tuple[Device, GpuReading]]
) -> Mapping[tuple[PciAddress, PciAddress], PcieLevel]:
    """The pairs that NVML answers; a GPU lost on the way leaves its pairs unknown."""
    levels: dict[tuple[PciAddress, PciAddress], PcieLevel] = {}
    for (first, low), (second, high) in itertools.combinations(readings, 2):
        try:
            number = library.device_topology_common_ancestor(first, second)
        except NvmlError as err:
            _raise_if_library_is_down(err)
            log.event(_LOG, log.WARNING, "a PCIe level is unknown", gpus=[str(low.pci), str(high.pci)], error=err)
            continue
        if number in _LEVELS:
            levels[low.pci, high.pci] = PcieLevel(number)
    return levels
