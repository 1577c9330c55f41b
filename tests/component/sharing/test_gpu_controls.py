"""Compute modes and time slices on a mock machine, whose ``nvidia-smi`` is a program as the real one is."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from driver.cli.backend import Backend, open_mock_backend, open_nvml
from driver.errors import DeviceNotReady, NvmlError
from driver.host.programs import find_program
from driver.nvml.enums import ComputeMode
from driver.nvml.gpu_controls import GpuControls, GpuSetting, Smi
from driver.nvml.mock import read_mock_machine, reload_driver, write_faults
from driver.nvml.mock.compute_modes import read_time_slice
from driver.nvml.mock.faults import CallFails, GpuLost


class Node:
    """A machine and its controls."""

    def __init__(self, machine: str, folder: Path) -> None:
        self.folder = folder
        self.backend: Backend = open_mock_backend(machine, folder)
        self.uuid = read_mock_machine(machine).gpus[0].uuid
        self.controls = GpuControls(
            functools.partial(open_nvml, self.backend),
            lambda: Smi(program=find_program(self.backend.roots, "nvidia-smi")),
        )

    def mode(self) -> int:
        with open_nvml(self.backend) as library:
            return library.device_compute_mode(library.device_handle_by_uuid(self.uuid))

    def time_slice(self) -> int:
        return read_time_slice(self.folder / "root", self.uuid)

    def set(self, **values: int) -> None:
        self.controls.set(GpuSetting(uuid=self.uuid, **values))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node("dgx-h100", tmp_path)


def test_a_mode_and_a_time_slice_are_set_and_set_again(node: Node) -> None:
    for _ in range(2):
        node.set(compute_mode=ComputeMode.DEFAULT, time_slice=3)
    assert (node.mode(), node.time_slice()) == (ComputeMode.DEFAULT, 3)
    node.set(compute_mode=ComputeMode.EXCLUSIVE_PROCESS)
    assert (node.mode(), node.time_slice()) == (ComputeMode.EXCLUSIVE_PROCESS, 3)


def test_another_driver_has_forgotten_both(node: Node) -> None:
    node.set(compute_mode=ComputeMode.EXCLUSIVE_PROCESS, time_slice=2)
    reload_driver(node.folder)
    assert (node.mode(), node.time_slice()) == (ComputeMode.DEFAULT, 0)


def test_b63_a_gpu_without_time_slices_says_so(tmp_path: Path) -> None:
    node = Node("dgx-1p", tmp_path)
    with pytest.raises(NvmlError, match=r"compute-policy.*NOT_SUPPORTED.*not supported for GPU-") as caught:
        node.set(time_slice=3)
    assert caught.value.code == 3


def test_a_gpu_that_is_gone_is_told_by_nvmls_own_word(node: Node) -> None:
    write_faults(node.folder, [GpuLost(gpu=0)])
    with pytest.raises(NvmlError) as caught:
        node.set(compute_mode=ComputeMode.DEFAULT)
    assert caught.value.name == "GPU_IS_LOST"
    write_faults(node.folder, [CallFails(call="nvmlDeviceSetComputeMode", code="NO_PERMISSION")])
    with pytest.raises(NvmlError) as caught:
        node.set(compute_mode=ComputeMode.EXCLUSIVE_PROCESS)
    assert (caught.value.call, caught.value.name) == ("nvmlDeviceSetComputeMode", "NO_PERMISSION")


def test_a_driver_without_nvidia_smi_is_said(node: Node) -> None:
    find_program(node.backend.roots, "nvidia-smi").unlink()
    node.set(compute_mode=ComputeMode.DEFAULT)
    with pytest.raises(DeviceNotReady, match="there is no nvidia-smi in driver root"):
        node.set(time_slice=1)


def test_a_program_that_cannot_run_is_an_error_of_its_own(node: Node) -> None:
    find_program(node.backend.roots, "nvidia-smi").chmod(0o600)
    with pytest.raises(NvmlError, match="Permission denied"):
        node.set(time_slice=1)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["compute-policy", "-i", "GPU-nobody", "--set-timeslice", "1"], 3),
        (["compute-policy", "-i", "nobody", "--set-timeslice", "1"], 6),
        (["compute-policy", "-i", "GPU-nobody", "--set-timeslice", "4"], 2),
        (["compute-policy", "--list"], 2),
    ],
    ids=["another machine's", "no UUID", "no such slice", "another question"],
)
def test_the_stand_in_refuses_with_nvidias_numbers(node: Node, arguments: list[str], code: int) -> None:
    program = find_program(node.backend.roots, "nvidia-smi")
    assert subprocess.run([str(program), *arguments], capture_output=True, check=False).returncode == code


def test_in_a_container_the_stand_in_may_set_nothing(node: Node, tmp_path: Path) -> None:
    """There it is a file of its own, without the node's root above it."""
    inside = tmp_path / "container" / "usr" / "bin" / "nvidia-smi"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(find_program(node.backend.roots, "nvidia-smi").read_bytes())
    inside.chmod(0o755)
    done = subprocess.run(
        [str(inside), "compute-policy", "-i", node.uuid, "--set-timeslice", "1"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (4, b"Insufficient Permissions")
