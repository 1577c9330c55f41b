"""What every call to the mock goes through: is the library open, is the handle of this opening, which faults are played."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from driver.nvml.calls import NVML_CALLS
from driver.nvml.library import Code, build_error
from driver.nvml.mock.clock import Clock
from driver.nvml.mock.compute_modes import ComputeModes
from driver.nvml.mock.faultbook import FaultBook
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.model import Machine, MockGpu
from driver.nvml.mock.state import MigStore


@dataclass(frozen=True, slots=True)
class Handle:
    """What the mock gives out as an opaque handle."""

    opening: int
    kind: str
    """``gpu``, ``mig``, ``gpu-instance`` or ``compute-instance``."""
    gpu: int
    gpu_instance: int = 0
    compute_instance: int = 0


class Session:
    """The part of the mock library that has state in memory."""

    def __init__(self, machine: Machine, store: MigStore, modes: ComputeModes, book: FaultBook, clock: Clock) -> None:
        self._machine = machine
        self._store = store
        self._modes = modes
        self._book = book
        self._clock = clock
        self._lock = threading.Lock()
        self._opening = 0
        self._open_count = 0

    def _enter(self, call: str, args: tuple[object, ...]) -> None:
        gpu = None
        if self._open_count == 0 and call != "nvmlInit":
            raise Refused(Code.UNINITIALIZED)
        for arg in args:
            if isinstance(arg, Handle):
                if arg.opening != self._opening:
                    raise Refused(Code.INVALID_ARGUMENT)
                gpu = arg.gpu if gpu is None else gpu
        if call == "nvmlDeviceGetHandleByIndex" and isinstance(args[0], int):
            gpu = args[0] if 0 <= args[0] < len(self._machine.gpus) else None
        self._book.enter(call, gpu)

    def _handle(self, kind: str, gpu: int, gpu_instance: int = 0, compute_instance: int = 0) -> Handle:
        return Handle(self._opening, kind, gpu, gpu_instance, compute_instance)

    def _require(self, handle: object, kind: str) -> Handle:
        if not isinstance(handle, Handle) or handle.kind != kind:
            raise Refused(Code.INVALID_ARGUMENT)
        return handle

    def _driver_major(self) -> int:
        return int(self._machine.driver_version.split(".")[0])

    def _gpu(self, handle: object) -> MockGpu:
        return self._machine.gpus[self._require(handle, "gpu").gpu]


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound=Session)


def nvml_call(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Makes ``method`` answer as an NVML call: through the checks and faults above, and with ``NvmlError`` alone."""
    call = NVML_CALLS[method.__name__]

    @functools.wraps(method)
    def answer(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            self._enter(call, args)
            return method(self, *args, **kwargs)
        except Refused as err:
            raise build_error(call, err.code) from err

    return answer
