"""What a daemon is told, and with which variables it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.mps.daemon_files import DaemonFiles, DaemonSpec, build_commands, build_environment

FILES = DaemonFiles(root=Path("/run/gpu-dra/mps/gpu.nvidia.com-node-a"), name="uid-config-0")


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
        "CUDA_MPS_PIPE_DIRECTORY": str(FILES.meeting),
        "CUDA_MPS_LOG_DIRECTORY": "/run/gpu-dra/mps/gpu.nvidia.com-node-a/uid-config-0/log",
    }


@pytest.mark.parametrize("node", ["node-a", "ip-10-0-128-201.us-west-2.compute.internal", "n" * 253])
def test_a_daemons_sockets_have_room_below_the_nodes_name(node: str) -> None:
    """The daemon binds ``control`` and ``control_privileged``, and the kernel takes 107 bytes of a socket's path (B56)."""
    root = Path(f"/run/gpu-dra/mps/gpu.nvidia.com-{node}")
    uid = "5f1a4a54-0000-4000-8000-000000000001"
    pipes = [DaemonFiles(root=root, name=f"{uid}-{name}").meeting for name in ("config-0", "config-31", "share-31")]
    assert [pipe for pipe in pipes if len(f"{pipe}/control_privileged") > 107] == []
    assert len(set(pipes)) == len(pipes)


def test_daemons_of_two_nodes_of_one_machine_do_not_meet() -> None:
    other = DaemonFiles(root=Path("/run/gpu-dra/mps/gpu.nvidia.com-node-b"), name="uid-config-0")
    assert other.meeting != FILES.meeting


def test_a_daemons_lock_is_not_among_what_it_had() -> None:
    assert FILES.lock.parent == FILES.root
    assert FILES.lock.name.startswith(".")
