"""Opening and closing ``libnvidia-ml.so.1`` below pynvml, and what every real call goes through.

pynvml keeps the library in module variables, so a process has one at a time: the first ``init`` loads the file that was asked
for, the last ``shutdown`` takes it out again, so that an upgraded driver's library can be loaded without a restart. A handle
carries the number of the opening that it belongs to; one from before is refused instead of being followed into freed memory.

A call may hang. NVML is not shut down below it: the close is owed then, and paid by the call when it comes back, unless the
library was opened again meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pynvml

from driver import log
from driver.nvml.calls import NVML_CALLS
from driver.nvml.library import Code, build_error

_LOG = log.logger(__name__)

_SONAME = "libnvidia-ml.so.1"


class Refused(Exception):
    """This side refuses the call with ``code``, without asking NVML."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True, slots=True)
class Handle:
    """What the real backend gives out as an opaque handle."""

    opening: int
    pointer: Any


class _ProcessLibrary:
    """The library that this process has open, through whichever ``RealNvml``."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        """Held while the library is opened or closed, which may take long; calls do not wait for it."""
        self._lock = threading.Lock()
        self._path: str | None = None
        self._open_count = 0
        self._calls_in_flight = 0
        self._is_close_owed = False
        self._last_refusal = ""
        self.opening = 0

    def open(self, path: str) -> None:
        with self._turn:
            is_in_nvml = self._open_count > 0 or self._is_close_owed
            if is_in_nvml and path != self._path:
                raise Refused(Code.ALREADY_INITIALIZED)
            if not self._reopen():
                self._init(path)
                with self._lock:
                    self._open_count += 1

    def close(self) -> None:
        with self._turn:
            with self._lock:
                if self._open_count == 0:
                    raise Refused(Code.UNINITIALIZED)
                self._open_count -= 1
                is_last = self._open_count == 0
                self._is_close_owed = is_last and self._calls_in_flight > 0
            if self._is_close_owed:
                log.event(_LOG, log.WARNING, "a call to NVML is still under way: it stays open until the call comes back")
                return
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                with self._lock:
                    self._open_count += 1
                raise
            if is_last:
                self._unload()

    @contextmanager
    def call(self) -> Iterator[None]:
        with self._lock:
            if self._open_count == 0:
                raise Refused(Code.UNINITIALIZED)
            self._calls_in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls_in_flight -= 1
                is_due = self._is_close_owed and self._calls_in_flight == 0
            if is_due:
                self._pay_close()

    def _reopen(self) -> bool:
        """Take back a close that is owed: NVML has not been told of it."""
        with self._lock:
            if not self._is_close_owed:
                return False
            self._is_close_owed = False
            self._open_count = 1
            self.opening += 1
            return True

    def _pay_close(self) -> None:
        with self._turn:
            with self._lock:
                if not self._is_close_owed:
                    return
                self._is_close_owed = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as err:
                log.event(_LOG, log.WARNING, "NVML cannot be shut down", error=err)
            self._unload()

    def _init(self, path: str) -> None:
        if self._open_count == 0:
            self._load(path)
        try:
            pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
        except pynvml.NVMLError:
            if self._open_count == 0:
                self._unload()
            raise

    def _load(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
        except OSError as err:
            # A node without a driver is asked for ever: once is news.
            level = log.DEBUG if str(err) == self._last_refusal else log.WARNING
            self._last_refusal = str(err)
            log.event(_LOG, level, "NVML cannot be loaded", error=err)
            raise Refused(Code.LIBRARY_NOT_FOUND) from err
        self._last_refusal = ""
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
        self._path = path
        self.opening += 1

    def _unload(self) -> None:
        """No call is under way: those that were have paid for the close, or come before it."""
        library, pynvml.nvmlLib = pynvml.nvmlLib, None
        pynvml._nvmlGetFunctionPointer_cache.clear()
        ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))


_PROCESS = _ProcessLibrary()


class Session:
    """The part of the backend that calls share."""

    def __init__(self, library_path: Path | None = None) -> None:
        self._path = _SONAME if library_path is None else str(library_path)

    def init(self) -> None:
        """See ``NvmlLibrary``."""
        with _translated("nvmlInit"):
            _PROCESS.open(self._path)

    def shutdown(self) -> None:
        """See ``NvmlLibrary``."""
        with _translated("nvmlShutdown"):
            _PROCESS.close()


def wrap(pointer: object) -> Handle:
    """A handle of this opening."""
    return Handle(_PROCESS.opening, pointer)


def pointer_of(handle: object) -> Any:
    """What NVML knows the handle by; refused where it belongs to an opening that is over."""
    if not isinstance(handle, Handle) or handle.opening != _PROCESS.opening:
        raise Refused(Code.INVALID_ARGUMENT)
    return handle.pointer


@contextmanager
def _translated(call: str) -> Iterator[None]:
    try:
        yield
    except pynvml.NVMLError as err:
        raise build_error(call, err.value) from err
    except Refused as err:
        raise build_error(call, err.code) from err


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound=Session)


def nvml_call(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Makes ``method`` answer as an NVML call: only while the library is open, and with ``NvmlError`` alone."""
    call = NVML_CALLS[method.__name__]

    @functools.wraps(method)
    def answer(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _translated(call), _PROCESS.call():
            return method(self, *args, **kwargs)

    return answer


def read_text(function: Callable[..., Any], *args: object) -> str:
    """The answer of a pynvml function that gives text, whatever bytes it has: pynvml's own decoding fails on some (B35)."""
    raw = getattr(function, "__wrapped__", function)(*args)
    return raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else str(raw)


def decode_field(structure: ctypes.Structure, name: str) -> str:
    """A text field of a pynvml structure, likewise."""
    raw = ctypes.Structure.__getattribute__(structure, name)
    return raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else str(raw)
