"""A daemon that dies is started again, told its limits again, and said; one that is not wanted any more is left alone."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.mps import process
from driver.mps.daemon import Daemons
from driver.mps.watch import DaemonWatch
from tests.component.mps.conftest import Stage, spec
from tests.component.mps.test_daemon import ask

NAME = "claim-config-0"


class Said:
    """What was reported; ``wait`` for so many words."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._more = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._more:
            self.words.append(text)
            self._more.notify_all()

    def wait(self, count: int) -> list[str]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.words) >= count, 30.0), self.words
            return list(self.words)


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def watched(stage: Stage, said: Said) -> Iterator[tuple[Daemons, DaemonWatch]]:
    daemons = stage.open()
    watch = DaemonWatch(daemons, said)
    yield daemons, watch
    watch.stop()


def wait_other(daemons: Daemons, before: process.Identity) -> process.Identity:
    """The daemon's next process."""
    pause = threading.Event()
    for _ in range(600):
        now = daemons.read_identity(NAME)
        if now is not None and now != before:
            return now
        pause.wait(0.05)
    raise AssertionError("the daemon did not come back")


def test_a_daemon_that_dies_comes_back_with_its_limits_and_is_said(watched: tuple[Daemons, DaemonWatch], said: Said) -> None:
    daemons, watch = watched
    first = daemons.start(spec(thread_percentage=30))
    watch.keep(spec(thread_percentage=30))
    process.send(first, signal.SIGKILL)
    second = wait_other(daemons, first)
    assert said.wait(1) == [f"the MPS daemon {NAME} had ended and runs again; what was its client has failed"]
    assert process.is_alive(second)
    assert ask(daemons, NAME, "get_default_active_thread_percentage") == "30.0\n"


def test_one_that_another_plugin_has_started_is_looked_after_too(stage: Stage, said: Said) -> None:
    """It is no child of ours, so its end comes by its descriptor."""
    child = os.fork()  # a plugin that starts it and is gone
    if child == 0:
        try:
            stage.open().start(spec())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    daemons = stage.open()
    first = daemons.read_identity(NAME)
    assert first is not None
    watch = DaemonWatch(daemons, said)
    try:
        watch.keep(spec())
        process.send(first, signal.SIGKILL)
        assert wait_other(daemons, first) != first
    finally:
        watch.stop()


def test_one_that_had_died_before_the_plugin_came_is_started(watched: tuple[Daemons, DaemonWatch]) -> None:
    daemons, watch = watched
    first = daemons.start(spec())
    process.send(first, signal.SIGKILL)
    assert process.wait_end(first, 10.0)
    watch.keep(spec())
    assert wait_other(daemons, first) != first


def test_one_that_cannot_be_started_is_tried_again_and_said(stage: Stage, said: Said) -> None:
    daemons = stage.open()
    first = daemons.start(spec())
    good = stage.program.read_text()
    stage.write_program("#!/bin/sh\nexit 9\n")
    watch = DaemonWatch(daemons, said)
    try:
        watch.keep(spec())
        process.send(first, signal.SIGKILL)
        assert "cannot be started" in said.wait(1)[0]
        stage.write_program(good)
        assert wait_other(daemons, first) != first
    finally:
        watch.stop()


def test_one_that_another_plugin_has_stopped_stays_stopped(stage: Stage, said: Said) -> None:
    """In a rolling update both look after it, and one of them unprepares its claim."""
    old, new = stage.open(), stage.open()
    old.start(spec())
    watch = DaemonWatch(old, said)
    try:
        watch.keep(spec())
        new.stop(NAME)
        other = "claim-config-1"
        first = old.start(spec(other))
        watch.keep(spec(other))
        process.send(first, signal.SIGKILL)
        said.wait(1)
        assert new.read_identity(NAME) is None
        assert not new.files(NAME).folder.exists()
        assert all(NAME not in text for text in said.words)
    finally:
        watch.stop()


def test_one_that_was_forgotten_is_not_started_again(watched: tuple[Daemons, DaemonWatch], said: Said) -> None:
    """Not while it is seen to for the first time: who forgets it then stops it, too, which a restart heeds."""
    daemons, watch = watched
    process.send(_start_kept(daemons, watch), signal.SIGKILL)
    said.wait(1)
    again = daemons.read_identity(NAME)
    assert again is not None
    watch.forget(NAME)
    process.send(again, signal.SIGKILL)
    assert process.wait_end(again, 10.0)
    other = daemons.start(spec("claim-config-1"))
    watch.keep(spec("claim-config-1"))
    process.send(other, signal.SIGKILL)
    said.wait(2)
    assert daemons.read_identity(NAME) is None


def _start_kept(daemons: Daemons, watch: DaemonWatch) -> process.Identity:
    identity = daemons.start(spec())
    watch.keep(spec())
    return identity


def can_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) & 1 << 21)


@pytest.mark.skipif(not can_mount(), reason="a mount namespace takes CAP_SYS_ADMIN")
def test_a_daemon_of_a_real_machine_has_the_claims_folder_as_its_shared_memory(stage: Stage) -> None:
    stage.write_program(
        '#!/bin/sh\ncase "${1:-}" in -f) echo here > /dev/shm/from-the-daemon; exec sleep 1000 ;; *) echo 100.0 ;; esac\n'
    )
    daemons = Daemons(root=stage.folder / "mps", find_tools=stage.open().find_tools, isolates=True)
    daemons.start(spec())
    found = daemons.files(NAME).shared_memory / "from-the-daemon"
    pause = threading.Event()
    for _ in range(200):
        if found.exists():
            break
        pause.wait(0.05)
    assert found.exists()
    assert not Path("/dev/shm/from-the-daemon").exists()
    daemons.stop(NAME)


@pytest.mark.skipif(not can_mount(), reason="a mount takes CAP_SYS_ADMIN")
def test_what_pods_put_into_their_shared_memory_fills_no_folder_of_the_node(stage: Stage) -> None:
    """The folder of the daemons lies in /run, which all of the node's services need room in."""
    daemons = Daemons(root=stage.folder / "mps", find_tools=stage.open().find_tools, isolates=True)
    identity = daemons.start(spec())
    files = daemons.files(NAME)
    own = files.shared_memory.stat()
    assert own.st_dev != files.folder.stat().st_dev
    assert stat.S_IMODE(own.st_mode) == 0o1777
    (files.shared_memory / "cuda.shm").write_text("a client's")
    process.send(identity, signal.SIGKILL)
    assert process.wait_end(identity, 10.0)
    assert daemons.restart(spec()) is not None
    assert (files.shared_memory / "cuda.shm").exists()
    daemons.stop(NAME)
    assert str(stage.folder) not in Path("/proc/mounts").read_text()
    assert not files.folder.exists()
