"""The mock among processes: changes at once, a kill in between, and the stand-in ``nvidia-smi``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driver.nvml.library import Placement
from driver.nvml.mock import MockMachine, open_mock

TAKE_ALL = """
import sys
from pathlib import Path
from driver.errors import NvmlError
from driver.nvml.library import Placement
from driver.nvml.mock import open_mock

library = open_mock("dgx-h100", Path(sys.argv[1])).library
library.init()
device = library.device_handle_by_index(0)
for start in range(7):
    try:
        library.device_create_gpu_instance_with_placement(device, 19, Placement(start=start, size=1))
        print(start, flush=True)
    except NvmlError as err:
        assert err.name == "INSUFFICIENT_RESOURCES", err
"""


def enable_mig(state_dir: Path) -> MockMachine:
    mock = open_mock("dgx-h100", state_dir)
    mock.library.init()
    mock.library.device_set_mig_mode(mock.library.device_handle_by_index(0), enabled=True)
    return mock


def start(script: str, state_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, str(state_dir)], stdout=subprocess.PIPE, text=True)


def test_processes_that_take_at_once_never_take_the_same(tmp_path: Path) -> None:
    mock = enable_mig(tmp_path)
    processes = [start(TAKE_ALL, tmp_path) for _ in range(3)]
    taken = [line for process in processes for line in process.communicate(timeout=100)[0].split()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(taken) == [str(number) for number in range(7)]
    assert len(mock.library.device_gpu_instances(mock.library.device_handle_by_index(0), 19)) == 7


def test_a_killed_process_leaves_a_whole_state_and_no_lock(tmp_path: Path) -> None:
    mock = enable_mig(tmp_path)
    process = start(TAKE_ALL, tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    device = mock.library.device_handle_by_index(0)
    made = len(mock.library.device_gpu_instances(device, 19))
    assert made >= 1
    if made < 7:
        mock.library.device_create_gpu_instance_with_placement(device, 19, Placement(start=6, size=1))


def run_smi(mock: MockMachine, *arguments: str, **devices: str) -> subprocess.CompletedProcess[str]:
    script = mock.roots.driver / "usr/bin/nvidia-smi"
    environment = {"PATH": os.environ["PATH"], **devices}
    return subprocess.run([script, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def node(tmp_path: Path) -> MockMachine:
    return open_mock("dgx-h100", tmp_path)


def test_nvidia_smi_lists_what_the_container_was_given(node: MockMachine) -> None:
    uuids = [gpu.uuid for gpu in node.machine.gpus]
    result = run_smi(
        node, "-L", GPU_DRA_DEVICE_0000_43_00_0=uuids[1], GPU_DRA_DEVICE_0000_1B_00_0=uuids[0], OTHER="GPU_DRA_DEVICE_X=1"
    )
    assert result.returncode == 0
    assert (
        result.stdout == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuids[0]})\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: {uuids[1]})\n"
    )


def test_nvidia_smi_names_a_mig_device(node: MockMachine) -> None:
    result = run_smi(node, "-L", GPU_DRA_DEVICE_0000_1B_00_0="MIG-00000000-0000-4000-8000-000000000000")
    assert result.stdout == "GPU 0: MIG device (UUID: MIG-00000000-0000-4000-8000-000000000000)\n"


def test_nvidia_smi_without_devices_says_so(node: MockMachine) -> None:
    result = run_smi(node, "-L")
    assert (result.returncode, result.stdout) == (6, "No devices were found\n")


def test_nvidia_smi_without_arguments_says_the_driver_too(node: MockMachine) -> None:
    result = run_smi(node, GPU_DRA_DEVICE_A=node.machine.gpus[0].uuid)
    assert (
        result.stdout.splitlines()[0].split() == "NVIDIA-SMI 550.163.01 Driver Version: 550.163.01 CUDA Version: 12.4".split()
    )
    assert len(result.stdout.splitlines()) == 2


def test_nvidia_smi_refuses_what_it_does_not_know(node: MockMachine) -> None:
    result = run_smi(node, "--query-gpu=name")
    assert result.returncode == 2
    assert "-L lists the devices" in result.stderr


def test_a_value_in_the_environment_is_never_run(node: MockMachine, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    result = run_smi(node, "-L", GPU_DRA_DEVICE_A=f"$(touch {marker}); `touch {marker}` '\" *")
    assert result.returncode == 0
    assert "unknown device" in result.stdout
    assert not marker.exists()


def test_a_product_name_with_quotes_is_one_word(tmp_path: Path) -> None:
    """A machine file may say any product name."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ndriver: '550.1'\ncuda: '12.4'\n"
        "gpus: [{board: x, pci: ['01:00.0']}]\n"
        "boards: {x: {product: \"It's $(date) `id`\", brand: Nvidia, architecture: Hopper, compute: '9.0', device-id: 1,"
        " memory-mib: 1}}\n"
    )
    mock = open_mock(str(path), tmp_path / "state")
    uuid = mock.machine.gpus[0].uuid
    assert run_smi(mock, "-L", GPU_DRA_DEVICE_A=uuid).stdout == f"GPU 0: It's $(date) `id` (UUID: {uuid})\n"
