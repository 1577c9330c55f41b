"""The faults in force: the machine's own, and those of a file that is looked at whenever a call is made.

There is no thread: a call looks at the file's name, inode, size and time, and reads it only when one of them changed. A file
that is wrong is said once in the log, and the faults before it stay: a typing error must not heal a GPU.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from driver import log
from driver.errors import MachineInvalid
from driver.nvml.library import Code
from driver.nvml.mock.clock import Clock
from driver.nvml.mock.condition import GpuCondition, build_condition
from driver.nvml.mock.faults import (
    CallFails,
    CallHangs,
    Event,
    Fault,
    FaultsDocument,
    GpuLost,
    LinkDown,
    Load,
    NotReady,
    find_bad_gpu,
)
from driver.nvml.mock.mig import Refused
from driver.nvml.mock.model import Machine
from driver.nvml.mock.yaml_text import MAX_BYTES, decode_yaml

_LOG = log.logger(__name__)

_LOOK_EVERY_S = 0.02
"""How long a hung call goes on after its fault was taken away."""

_ANSWERED_WHEN_LOST = frozenset({"nvmlDeviceGetPciInfo", "nvmlDeviceGetMinorNumber"})
"""What NVML knows of a lost GPU without asking it, by a handle from before."""


class FaultBook:
    """Says what goes wrong now. ``times`` is counted in each process by itself, and anew when a fault was taken away."""

    def __init__(self, machine: Machine, path: Path, clock: Clock) -> None:
        self._machine = machine
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._signature: tuple[int, int, int] | None = None
        self._faults = machine.faults
        self._events = _count_events(machine.faults)
        self._lasting = _list_lasting(machine.faults)
        self._used: Counter[Fault] = Counter()

    def faults(self) -> tuple[Fault, ...]:
        """All that are in force."""
        with self._lock:
            self._look()
            return self._faults

    def events(self) -> Counter[Event]:
        """The events that the file lists now; the same object while it says the same, and not to be changed."""
        with self._lock:
            self._look()
            return self._events

    def condition(self, gpu: int) -> GpuCondition:
        """What the faults make of this GPU."""
        return build_condition(self.faults(), gpu)

    def enter(self, call: str, gpu: int | None) -> None:
        """Plays the faults of ``call`` to the GPU of index ``gpu``; None is a call to the library.

        Raises:
            Refused: with the code that the call must say.
        """
        faults = self._list_lasting()
        for fault in faults:
            if isinstance(fault, CallHangs) and self._concerns(fault, call, gpu):
                self._hang(fault)
        for fault in faults:
            if isinstance(fault, NotReady) and (fault.until is None or self._clock.now_s() < fault.until):
                raise Refused(Code.DRIVER_NOT_LOADED)
            if isinstance(fault, CallFails) and self._concerns(fault, call, gpu):
                raise Refused(Code[fault.code])
        if gpu is not None and call not in _ANSWERED_WHEN_LOST:
            self.check_not_lost(gpu)

    def check_not_lost(self, gpu: int) -> None:
        """Refuses with GPU_IS_LOST where the GPU is."""
        if self._is_lost(gpu):
            raise Refused(Code.GPU_IS_LOST)

    def is_link_up(self, gpu: int, link: int, peer: int | None) -> bool:
        """Whether ``gpu`` sees its link as active; ``peer`` is the GPU at the other end, if it is one."""
        if peer is not None and self._is_lost(peer):
            return False
        return not any(
            fault.gpu == gpu and (fault.peer is None or fault.peer == peer) and (fault.links is None or link in fault.links)
            for fault in self.faults()
            if isinstance(fault, LinkDown)
        )

    def load_of(self, gpu: int) -> Load:
        """What the GPU is busy with: the file's last word, else nothing."""
        loads = [fault for fault in self.faults() if isinstance(fault, Load) and fault.gpu == gpu]
        return loads[-1] if loads else Load(gpu=gpu)

    def _is_lost(self, gpu: int) -> bool:
        return any(isinstance(fault, GpuLost) and fault.gpu == gpu for fault in self._list_lasting())

    def _list_lasting(self) -> tuple[Fault, ...]:
        """Those that are no events: every call looks at them, and a storm lists thousands of events."""
        with self._lock:
            self._look()
            return self._lasting

    def _concerns(self, fault: CallFails | CallHangs, call: str, gpu: int | None) -> bool:
        if fault.call != call or (fault.gpu is not None and fault.gpu != gpu):
            return False
        if fault.times is None:
            return True
        with self._lock:
            self._used[fault] += 1
            return self._used[fault] <= fault.times

    def _hang(self, fault: CallHangs) -> None:
        end_s = None if fault.seconds is None else self._clock.monotonic_s() + fault.seconds
        while fault in self.faults() and (end_s is None or self._clock.monotonic_s() < end_s):
            self._clock.sleep(_LOOK_EVERY_S)

    def _look(self) -> None:
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            signature = None
        if signature == self._signature:
            return
        self._signature = signature
        try:
            from_file = () if signature is None else read_faults(self._path, len(self._machine.gpus))
        except MachineInvalid as err:
            log.event(_LOG, log.ERROR, "a fault file is wrong; the faults before it stay in force", error=err)
            return
        self._faults = self._machine.faults + from_file
        self._events, self._lasting = _count_events(self._faults), _list_lasting(self._faults)
        self._used = Counter({fault: used for fault, used in self._used.items() if fault in self._lasting})


def _list_lasting(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if not isinstance(fault, Event))


def _count_events(faults: Iterable[Fault]) -> Counter[Event]:
    return Counter(fault for fault in faults if isinstance(fault, Event))


def read_faults(path: Path, gpu_count: int) -> tuple[Fault, ...]:
    """The faults of a file.

    Raises:
        MachineInvalid: the file is wrong, or names a GPU that the machine does not have.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as err:
        raise MachineInvalid(f"{path}: cannot be read: {err.strerror}") from err
    faults = tuple(decode_yaml(data, FaultsDocument, source=str(path)).faults)
    bad = find_bad_gpu(faults, gpu_count)
    if bad is not None:
        raise MachineInvalid(f"{path}: {bad}")
    return faults
