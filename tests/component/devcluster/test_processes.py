"""Processes that outlive their starter are found again by id and start time, and end."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from hack.devcluster import processes
from hack.devcluster.layout import DevclusterError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


def has_said(log: Path, expected: str) -> bool:
    return log.read_text() == expected


def test_started_process_is_found_and_stopped(tmp_path: Path) -> None:
    pid = processes.start(tmp_path, "sleeper", SLEEP, cwd=tmp_path)
    assert processes.read_pid(tmp_path, "sleeper") == pid
    processes.stop(tmp_path, "sleeper")
    assert processes.read_pid(tmp_path, "sleeper") is None
    assert processes.read_start_ticks(pid) is None


def test_second_start_leaves_the_running_process(tmp_path: Path) -> None:
    pid = processes.start(tmp_path, "sleeper", SLEEP, cwd=tmp_path)
    assert processes.start(tmp_path, "sleeper", SLEEP, cwd=tmp_path) == pid
    processes.stop(tmp_path, "sleeper")


def test_process_that_ignores_term_is_killed(tmp_path: Path) -> None:
    pid = processes.start(tmp_path, "deaf", DEAF, cwd=tmp_path)
    assert processes.wait_until(lambda: "deaf" in (tmp_path / "deaf.log").read_text(), timeout_s=30)
    processes.stop(tmp_path, "deaf", patience_s=0.1)
    assert processes.read_start_ticks(pid) is None


def test_process_that_took_over_the_id_is_left_alone(tmp_path: Path) -> None:
    """The file names another start time, so the process of this id is not the one that was started."""
    (tmp_path / "gone.pid").write_text(f"{os.getpid()} 1")
    processes.stop(tmp_path, "gone")
    assert processes.read_start_ticks(os.getpid()) is not None


def test_killed_process_is_not_running_though_nobody_waited_for_it(tmp_path: Path) -> None:
    """A zombie answers signals, and is gone all the same."""
    pid = processes.start(tmp_path, "sleeper", SLEEP, cwd=tmp_path)
    os.kill(pid, signal.SIGKILL)
    assert processes.wait_until(lambda: processes.read_pid(tmp_path, "sleeper") is None, timeout_s=30)


def test_output_is_kept_over_restarts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('once', flush=True); import time; time.sleep(600)"]
    for expected in ("once\n", "once\nonce\n"):
        processes.start(tmp_path, "talker", command, cwd=tmp_path)
        assert processes.wait_until(partial(has_said, tmp_path / "talker.log", expected), timeout_s=30)
        processes.stop(tmp_path, "talker")


def test_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((DevclusterError, FileNotFoundError)):
        processes.start(tmp_path, "nothing", ["/nonexistent"], cwd=tmp_path)
