"""MPS daemons as real processes of a stand-in program: each is started once, found again, told its limits, and ended whole."""

from __future__ import annotations

import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from driver.errors import DeviceNotReady
from driver.mps import process
from driver.mps.daemon import Daemons
from driver.mps.launch import tell
from tests.component.mps.conftest import GPU, OTHER, Stage, spec


def ask(daemons: Daemons, name: str, command: str) -> str | None:
    return tell(spec(name), daemons.files(name), daemons.find_tools(), [command], 10.0)


def test_a_daemon_runs_and_knows_its_limits(stage: Stage) -> None:
    daemons = stage.open()
    identity = daemons.start(spec(uuids=(GPU, OTHER), thread_percentage=25, memory_mib={GPU: 5120, OTHER: 10240}))
    assert process.is_alive(identity)
    name = "claim-config-0"
    assert ask(daemons, name, "get_default_active_thread_percentage") == "25.0\n"
    assert ask(daemons, name, f"get_default_device_pinned_mem_limit {GPU}") == "5120M\n"
    assert ask(daemons, name, f"get_default_device_pinned_mem_limit {OTHER}") == "10240M\n"
    files = daemons.files(name)
    assert "multi-user no" in files.output.read_text()
    assert stat.S_IMODE(files.shared_memory.stat().st_mode) == 0o1777
    assert stat.S_IMODE((files.pipe / "control").stat().st_mode) == 0o666, "clients of any user get in"


def test_started_twice_it_is_the_same_process_and_has_the_newer_limits(stage: Stage) -> None:
    daemons = stage.open()
    first = daemons.start(spec(thread_percentage=25))
    assert daemons.start(spec(thread_percentage=75)) == first
    assert ask(daemons, "claim-config-0", "get_default_active_thread_percentage") == "75.0\n"


def test_a_restarted_plugin_finds_it_again(stage: Stage) -> None:
    first = stage.open().start(spec())
    later = stage.open()
    assert later.read_identity("claim-config-0") == first
    assert later.start(spec()) == first


def test_two_plugins_that_start_it_at_once_start_one(stage: Stage) -> None:
    found: list[process.Identity] = []
    threads = [threading.Thread(target=lambda: found.append(stage.open().start(spec()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_stopped_it_leaves_nothing_and_stopping_again_is_fine(stage: Stage) -> None:
    daemons = stage.open()
    identity = daemons.start(spec())
    daemons.stop("claim-config-0")
    daemons.stop("claim-config-0")
    assert not process.is_alive(identity)
    assert list((stage.folder / "mps").iterdir()) == []


def test_one_that_does_not_quit_is_killed(stage: Stage) -> None:
    stubborn = "trap '' TERM INT\ncase \"${1:-}\" in -f) while :; do sleep 0.05; done ;; *) echo 100.0 ;; esac\n"
    stage.write_program(f"#!/bin/sh\n{stubborn}")
    daemons = stage.open()
    identity = daemons.start(spec())
    daemons.stop("claim-config-0")
    assert not process.is_alive(identity)
    assert daemons.list_names() == ()


def test_it_ends_without_the_drivers_program_too(stage: Stage) -> None:
    """The driver may be uninstalled before the last claim has ended."""
    daemons = stage.open()
    identity = daemons.start(spec())

    def missing() -> object:
        raise DeviceNotReady("there is no nvidia-cuda-mps-control")

    bare = Daemons(root=daemons.root, find_tools=missing, isolates=False)  # type: ignore[arg-type]  # raises
    bare.stop("claim-config-0")
    assert not process.is_alive(identity)


def test_servers_that_outlive_a_killed_daemon_are_ended(stage: Stage) -> None:
    """They would keep the GPU in use, and the next daemon's clients out."""
    stage.write_program(
        '#!/bin/sh\ncase "${1:-}" in -f) ;; *) echo 100.0; exit ;; esac\n'
        'sleep 1000 & echo $! > "$CUDA_MPS_LOG_DIRECTORY/server"; wait\n'
    )
    daemons = stage.open()
    identity = daemons.start(spec())
    server_file = daemons.files("claim-config-0").log / "server"
    while not server_file.exists() or not server_file.read_text().strip():
        process.wait_end(identity, 0.01)
    server = int(server_file.read_text())
    process.send(identity, signal.SIGKILL)
    assert process.wait_end(identity, 10.0)
    assert Path(f"/proc/{server}").exists()
    assert daemons.start(spec()) != identity
    assert not is_running(server)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho no GPU for you >&2; exit 3\n", r"ended with 3 instead of serving GPU-.*no GPU for you"),
        ('#!/bin/sh\ncase "${1:-}" in -f) sleep 100 ;; *) exit 1 ;; esac\n', r"has not answered for 0\.5 s"),
        ("#!/bin/sh\ncase \"${1:-}\" in -f) sleep 100 ;; *) echo 'Invalid limit 50' ;; esac\n", r"refuses its limits: Invalid"),
    ],
    ids=["ends", "never answers", "refuses a limit"],
)
def test_one_that_does_not_come_up_says_why_and_leaves_nothing(stage: Stage, program: str, words: str) -> None:
    stage.write_program(program)
    daemons = stage.open(ready_s=0.5 if "0" in words else 20.0)
    with pytest.raises(DeviceNotReady, match=words):
        daemons.start(spec())
    assert daemons.list_names() == ()


def test_a_long_name_of_the_node_leaves_room_for_the_daemons_sockets(stage: Stage) -> None:
    """A socket's path has at most 107 bytes, and a node's name alone may have 253 (B56)."""
    root = stage.folder / "mps" / f"gpu.nvidia.com-{'n' * 200}"
    daemons = Daemons(root=root, find_tools=stage.open().find_tools, isolates=False)
    root.mkdir(parents=True)
    identity = daemons.start(spec())
    assert daemons.read_identity("claim-config-0") == identity
    daemons.stop("claim-config-0")
    assert [path for path in (stage.folder / "mps").rglob("*") if path != root] == []


def test_a_folder_that_leaves_no_room_for_sockets_is_refused_with_the_limit(stage: Stage) -> None:
    root = stage.folder / ("d" * 80) / "mps"
    with pytest.raises(DeviceNotReady, match=r"has \d+ bytes, at most 88 .* --mps-dir must be shorter"):
        Daemons(root=root, find_tools=stage.open().find_tools, isolates=False).start(spec())


def test_a_driver_without_the_program_is_said(stage: Stage) -> None:
    stage.program.unlink()
    with pytest.raises(DeviceNotReady, match="claim-config-0 ended with 127"):
        stage.open().start(spec())


def test_a_process_of_the_same_number_is_not_mistaken_for_it(stage: Stage) -> None:
    """After a reboot the number is somebody else's, whom nobody may end."""
    daemons = stage.open()
    identity = daemons.start(spec())
    files = daemons.files("claim-config-0")
    process.send(identity, signal.SIGKILL)
    assert process.wait_end(identity, 10.0)
    own = Path(f"/proc/{os.getpid()}/stat").read_text().split()
    own[21] = str(int(own[21]) + 1)
    files.identity.write_text(" ".join(own))
    assert daemons.read_identity("claim-config-0") is None
    daemons.stop("claim-config-0")


def test_a_file_that_says_nothing_is_a_daemon_that_does_not_run(stage: Stage) -> None:
    daemons = stage.open()
    first = daemons.start(spec())
    daemons.files("claim-config-0").identity.write_bytes(b"\xff\x00")
    assert daemons.read_identity("claim-config-0") is None
    second = daemons.start(spec())
    assert second != first
    assert not process.is_alive(first), "found by its variables, though nothing says its number"
