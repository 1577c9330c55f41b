"""A look at a GPU: what NVML tells no events of. Each GPU is asked in a thread of its own, and given up alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from driver import log
from driver.errors import NvmlError
from driver.health.observations import Condition, Looked, LostSeen
from driver.names import DeviceName
from driver.nvml.library import NVLINK_MAX_LINKS, Code, Device, NvmlLibrary

_LOG = log.logger(__name__)
_T = TypeVar("_T")

_LIBRARY_IS_DOWN = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND, Code.LIB_RM_VERSION_MISMATCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class LookJob:
    """The look at one GPU; the answer is None where it says nothing, or hangs."""

    index: int
    device: DeviceName
    handle: Device
    has_events: bool
    now: Callable[[], datetime]

    @property
    def key(self) -> Hashable:
        """The GPU."""
        return f"health-{self.index}"

    def run(self, library: NvmlLibrary) -> Looked | LostSeen | None:
        """Ask everything. Raises ``NvmlError`` where the library as a whole is down."""
        try:
            condition = Condition(
                uuid=library.device_uuid(self.handle),
                has_events=self.has_events,
                recovery_action=_ask(lambda: library.device_gpu_recovery_action(self.handle)),
                uncorrected_ecc_errors=_ask(lambda: library.device_uncorrected_ecc_errors(self.handle)),
                remapped_rows=_ask(lambda: library.device_remapped_rows(self.handle)),
                clocks_reasons=_ask(lambda: library.device_clocks_event_reasons(self.handle)),
                links=self._read_links(library),
                fabric=_ask(lambda: library.device_gpu_fabric_info(self.handle)),
            )
        except NvmlError as err:
            if err.code in _LIBRARY_IS_DOWN:
                raise
            if err.code == Code.GPU_IS_LOST:
                return LostSeen(device=self.device, at=self.now())
            log.event(_LOG, log.WARNING, "the look at a GPU failed", device=self.device, error=err)
            return None
        return Looked(device=self.device, at=self.now(), condition=condition)

    def give_up(self, reason: str) -> None:
        """Nothing is known: the passes over the machine say that the GPU does not answer."""
        log.event(_LOG, log.WARNING, "the look at a GPU does not come back", device=self.device, reason=reason)

    def _read_links(self, library: NvmlLibrary) -> tuple[tuple[int, bool], ...]:
        """Numbers may have holes, so all are asked."""
        states = ((link, _ask_link(library, self.handle, link)) for link in range(NVLINK_MAX_LINKS))
        return tuple((link, is_up) for link, is_up in states if is_up is not None)


def _ask_link(library: NvmlLibrary, handle: Device, link: int) -> bool | None:
    return _ask(lambda: library.device_nvlink_state(handle, link))


def _ask(call: Callable[[], _T]) -> _T | None:
    """The answer, or None where the GPU has none: what is not supported is an absent fact."""
    try:
        return call()
    except NvmlError as err:
        if err.code in _LIBRARY_IS_DOWN or err.code == Code.GPU_IS_LOST:
            raise
        return None
