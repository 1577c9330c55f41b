"""What a daemon is told, and with which variables it runs."""

from __future__ import annotations

from pathlib import Path

from driver.mps.daemon_files import DaemonFiles, DaemonSpec, build_commands, build_environment

FILES = DaemonFiles(root=Path("/run/gpu-dra/mps"), name="uid-config-0")


def test_a_daemon_without_limits_is_only_asked_whether_it_is_there() -> None:
    assert build_commands(DaemonSpec(name="a", uuids=("GPU-1",))) == ("get_default_active_thread_percentage",)


def test_b65_limits_are_told_by_uuid_in_whole_mib() -> None:
    spec = DaemonSpec(name="a", uuids=("GPU-1", "GPU-2"), thread_percentage=50, memory_mib={"GPU-2": 10240, "GPU-1": 5120})
    assert build_commands(spec) == (
        "set_default_active_thread_percentage 50",
        "set_default_device_pinned_mem_limit GPU-1 5120M",
        "set_default_device_pinned_mem_limit GPU-2 10240M",
        "get_default_active_thread_percentage",
    )


def test_a_daemon_sees_its_devices_and_its_own_folders() -> None:
    assert build_environment(DaemonSpec(name="a", uuids=("GPU-1", "GPU-2")), FILES) == {
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        "CUDA_MPS_PIPE_DIRECTORY": "/run/gpu-dra/mps/uid-config-0/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/run/gpu-dra/mps/uid-config-0/log",
    }


def test_a_daemons_lock_is_not_among_what_it_had() -> None:
    assert FILES.lock.parent == FILES.root
    assert FILES.lock.name.startswith(".")
