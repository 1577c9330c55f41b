"""Opening a mock machine: its library, and the folders that stand for the node; and what a person does to such a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from driver.host.roots import Roots
from driver.nvml.library import NvmlLibrary
from driver.nvml.mock.capabilities import write_capabilities
from driver.nvml.mock.catalogue import read_mock_machine
from driver.nvml.mock.clock import Clock, SystemClock
from driver.nvml.mock.compute_modes import ComputeModes, forget_settings
from driver.nvml.mock.faultbook import FaultBook, read_faults
from driver.nvml.mock.faults import Fault, FaultsDocument, is_over_with_reset
from driver.nvml.mock.files import write_file
from driver.nvml.mock.library import MockNvml
from driver.nvml.mock.model import Machine
from driver.nvml.mock.standin import build_roots, read_boot_id, write_boot_id, write_module, write_standin
from driver.nvml.mock.state import MigStore, forget_instances, locked
from driver.nvml.mock.yaml_text import MAX_BYTES, decode_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class MockMachine:
    """A mock machine that is open: several processes may have the same one open at a time."""

    library: NvmlLibrary
    roots: Roots
    machine: Machine


def open_mock(spec: str, state_dir: Path, *, clock: Clock | None = None) -> MockMachine:
    """The machine ``NAME[@SEED]`` or ``PATH.yaml[@SEED]``, with its state and its stand-in root below ``state_dir``.

    What is there already is kept: MIG instances, the boot id, faults. The library is not initialised yet.

    Raises:
        MachineInvalid: no such machine, or its file, its fault file or its state is wrong.
    """
    machine = read_mock_machine(spec)
    root = state_dir / "root"
    # Nobody but the owner may change what a mock answers.
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    with locked(state_dir):
        write_standin(root, machine)
    faults = _faults_path(state_dir)
    if faults.exists():
        read_faults(faults, len(machine.gpus))
    publish = partial(write_capabilities, root, machine)
    store = MigStore(machine, state_dir, read_boot_id=partial(read_boot_id, root), publish=publish)
    store.publish()
    used_clock = clock or SystemClock()
    library = MockNvml(machine, store, ComputeModes(root), FaultBook(machine, faults, used_clock), used_clock)
    return MockMachine(library=library, roots=build_roots(root), machine=machine)


def write_faults(state_dir: Path, faults: Sequence[Fault]) -> None:
    """Makes ``faults`` the faults at run time of the machine in ``state_dir``, at once; an empty list heals it."""
    # JSON is YAML.
    write_file(_faults_path(state_dir), msgspec.json.format(msgspec.json.encode(FaultsDocument(faults=list(faults)))))


def reset_gpu(state_dir: Path, gpu: int) -> None:
    """Resets a GPU of the machine in ``state_dir``: what was wrong with it is over, but for rows that could not be replaced."""
    path = _faults_path(state_dir)
    if not path.exists():
        return
    with path.open("rb") as file:
        document = decode_yaml(file.read(MAX_BYTES + 1), FaultsDocument, source=str(path))
    write_faults(state_dir, [fault for fault in document.faults if not is_over_with_reset(fault, gpu)])


def reboot(state_dir: Path) -> None:
    """Boots the machine in ``state_dir``: a new boot id, the kernel module loaded anew, no MIG instances."""
    write_boot_id(state_dir / "root")
    reload_driver(state_dir)


def reload_driver(state_dir: Path) -> None:
    """Unloads and loads the kernel module of the machine in ``state_dir``, under the same boot id: MIG instances go with it."""
    forget_instances(state_dir)
    root = state_dir / "root"
    version = (root / "sys/module/nvidia/version").read_text(encoding="ascii").strip()
    write_module(root, version)
    forget_settings(root)


def _faults_path(state_dir: Path) -> Path:
    return state_dir / "faults.yaml"
