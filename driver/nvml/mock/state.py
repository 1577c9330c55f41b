"""The MIG state of a machine on disk: shared by every process that opens the mock, and void after a boot.

One JSON file, changed under a file lock and replaced as a whole, so a process that is killed leaves the old state or the new.
A state of another boot id is not read as it is: instances are gone, and the mode is what a boot leaves of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from driver.errors import MachineInvalid
from driver.nvml.library import Code
from driver.nvml.mock.files import write_file
from driver.nvml.mock.mig import MigState, Refused, build_first_state, build_state_after_boot
from driver.nvml.mock.model import Machine, MockGpu

_T = TypeVar("_T")


class _StateFile(msgspec.Struct, frozen=True, kw_only=True):
    boot_id: str
    gpus: dict[str, MigState]
    """By UUID: a swapped card has nothing of the old one's."""


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Holds the state directory's lock: against other processes and against other threads."""
    file = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def forget_instances(state_dir: Path) -> None:
    """What a driver that is loaded anew does: the state counts as another boot's."""
    path = state_dir / "mig.json"
    with locked(state_dir):
        try:
            saved = msgspec.json.decode(path.read_bytes(), type=_StateFile)
        except (FileNotFoundError, msgspec.DecodeError):
            return
        write_file(path, msgspec.json.encode(msgspec.structs.replace(saved, boot_id="")))


class MigStore:
    """Reads and changes the state. ``publish`` is told of every change, under the lock, to bring the stand-in files in step."""

    def __init__(
        self,
        machine: Machine,
        state_dir: Path,
        *,
        read_boot_id: Callable[[], str],
        publish: Callable[[Mapping[int, MigState]], None],
    ) -> None:
        self._machine = machine
        self._state_dir = state_dir
        self._path = state_dir / "mig.json"
        self._read_boot_id = read_boot_id
        self._publish = publish

    def read(self, index: int) -> MigState:
        """The state of the GPU of this index."""
        return self._read_all()[index]

    def change(self, index: int, plan: Callable[[MockGpu, MigState], tuple[MigState, _T]]) -> _T:
        """Carries out ``plan`` on the GPU's state and answers what it answers; where it refuses, nothing changes."""
        with locked(self._state_dir):
            states = self._read_all()
            after, answer = plan(self._machine.gpus[index], states[index])
            if after != states[index]:
                states[index] = after
                self._write(states)
                self._publish(states)
        return answer

    def publish(self) -> None:
        """Brings the stand-in files in step with the state as it is."""
        with locked(self._state_dir):
            self._publish(self._read_all())

    def _write(self, states: Mapping[int, MigState]) -> None:
        gpus = {self._machine.gpus[index].uuid: state for index, state in states.items()}
        write_file(self._path, msgspec.json.encode(_StateFile(boot_id=self._read_boot_id(), gpus=gpus)))

    def _read_all(self) -> dict[int, MigState]:
        saved = self._read_file()
        is_same_boot = saved is not None and saved.boot_id == self._read_boot_id()
        states = {}
        for index, gpu in enumerate(self._machine.gpus):
            state = None if saved is None else saved.gpus.get(gpu.uuid)
            if state is None:
                states[index] = _build_first(self._machine.name, index, gpu)
            else:
                states[index] = state if is_same_boot else build_state_after_boot(gpu, state)
        return states

    def _read_file(self) -> _StateFile | None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(data, type=_StateFile)
        except msgspec.DecodeError as err:
            raise MachineInvalid(f"{self._path}: no MIG state of a mock machine ({err}): remove the file") from err


_WHY = {
    Code.NOT_SUPPORTED: "the GPU has no such profile; driver/nvml/mock/mig.yaml has the ids",
    Code.INVALID_ARGUMENT: "the profile has no such place; driver/nvml/mock/mig.yaml has its starts",
    Code.INSUFFICIENT_RESOURCES: "those before it leave no room there",
}


def _build_first(machine: str, index: int, gpu: MockGpu) -> MigState:
    for number, (profile, start) in enumerate(gpu.mig_instances):
        try:
            build_first_state(replace(gpu, mig_instances=gpu.mig_instances[: number + 1]))
        except Refused as err:
            raise MachineInvalid(
                f"mock machine {machine}: GPU {index}: mig.instances[{number}] (profile {profile}, start {start}): "
                f"{err.code.name}: {_WHY.get(err.code, 'NVML would refuse it')}"
            ) from err
    return build_first_state(gpu)
