"""What a GPU is busy with at this moment: read when somebody asks, never kept.

Each figure is asked for by itself: one that NVML does not tell (utilization in MIG mode, memory of a GPU that shares the
host's) is absent. A GPU that hangs or is lost has none at all, and costs the others nothing (``reading_threads``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from driver.errors import NvmlError
from driver.names import GpuUUID
from driver.nvml.library import Device, NvmlLibrary
from driver.nvml.reading_threads import ReadingThreads


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    """Of one GPU. None: NVML does not tell."""

    uuid: GpuUUID
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_celsius: int | None = None
    power_mw: int | None = None


@dataclass(slots=True, kw_only=True)
class _FiguresJob:
    """The calls to one GPU; the answer is None where it cannot be asked."""

    uuid: GpuUUID

    @property
    def key(self) -> Hashable:
        return self.uuid

    def run(self, library: NvmlLibrary) -> GpuFigures | None:
        try:
            device = library.device_handle_by_uuid(self.uuid)
        except NvmlError:
            return None
        return GpuFigures(
            uuid=self.uuid,
            utilization_percent=_ask(library.device_utilization_percent, device),
            memory_used_bytes=_ask(library.device_memory_used_bytes, device),
            memory_total_bytes=_ask(library.device_memory_total_bytes, device),
            temperature_celsius=_ask(library.device_temperature_celsius, device),
            power_mw=_ask(library.device_power_mw, device),
        )

    def give_up(self, reason: str) -> None:  # noqa: ARG002  the protocol's
        return None


def read_figures(library: NvmlLibrary, gpus: Sequence[GpuUUID], threads: ReadingThreads) -> tuple[GpuFigures, ...]:
    """The figures of those ``gpus`` that answer within the deadline of ``threads``, which are the same at each call."""
    jobs = [_FiguresJob(uuid=uuid) for uuid in gpus]
    return tuple(figures for figures in threads.ask(library, jobs) if figures is not None)


def _ask(call: Callable[[Device], int], device: Device) -> int | None:
    try:
        return call(device)
    except NvmlError:
        return None
