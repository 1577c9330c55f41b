"""Of several instances the newest that lives is the publisher (R3)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from driver.errors import StateUnwritable
from driver.resourceslice.publisher_lock import FilePublisherLock


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "publish.lock"


def new(path: Path, time: Time | None = None) -> FilePublisherLock:
    """An instance; two in one process are as good as two processes, since locks belong to open file descriptions."""
    time = time or Time()
    return FilePublisherLock(path, clock=time.clock, sleep=time.sleep)


def test_an_instance_that_never_asked_is_not_the_publisher(path: Path) -> None:
    assert not new(path).is_held()


def test_the_newest_instance_takes_over_by_arriving(path: Path) -> None:
    old, newest = new(path), new(path)
    old.acquire()
    assert old.is_held()
    newest.acquire()
    assert (old.is_held(), newest.is_held()) == (False, True)
    with old.writing(0) as may_write:
        assert not may_write
    with newest.writing(0) as may_write:
        assert may_write


def test_when_the_newest_goes_the_one_before_takes_up_again(path: Path) -> None:
    first, second, third = new(path), new(path), new(path)
    for lock in (first, second, third):
        lock.acquire()
    second.release()
    assert (first.is_held(), third.is_held()) == (False, True)
    third.release()
    assert first.is_held()


def test_the_end_of_a_process_is_a_release(path: Path) -> None:
    old = new(path)
    old.acquire()
    program = (
        "import sys, pathlib; from driver.resourceslice.publisher_lock import FilePublisherLock as L; "
        "lock = L(pathlib.Path(sys.argv[1])); lock.acquire(); print(lock.is_held(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as newest:
        assert newest.stdout is not None
        assert newest.stdout.readline() == "True\n"
        assert not old.is_held()
        newest.kill()
    assert old.is_held()


def test_asking_again_is_no_change(path: Path) -> None:
    old, newest = new(path), new(path)
    old.acquire()
    newest.acquire()
    old.acquire()
    assert not old.is_held()


def test_an_instance_that_released_comes_back_as_the_newest(path: Path) -> None:
    first, second = new(path), new(path)
    first.acquire()
    second.acquire()
    first.release()
    first.acquire()
    assert (first.is_held(), second.is_held()) == (True, False)


def test_a_new_instance_does_not_write_before_the_old_one_has_finished_its_request(path: Path) -> None:
    time = Time()
    old, newest = new(path), new(path, time)
    old.acquire()
    newest.acquire()
    newest.release()
    with old.writing(0) as may_write:
        assert may_write
        with pytest.raises(StateUnwritable, match="another instance has been writing for 60 s"):
            newest.acquire()
    newest.acquire()
    assert newest.is_held()


def test_waiting_for_the_other_to_finish_has_an_end(path: Path) -> None:
    time = Time()
    old, newest = new(path), new(path, time)
    old.acquire()
    with old.writing(0):
        newest._ticket, newest._file = 99, os.open(path, os.O_RDWR)
        with pytest.raises(StateUnwritable, match="writing for 10 s"), newest.writing(10):
            pass
        assert time.now_s >= 10
    newest.release()


def test_a_file_that_lost_its_number_does_not_make_an_old_instance_the_newest(path: Path) -> None:
    old, newest = new(path), new(path)
    for _ in range(3):
        old.acquire()
        old.release()
    old.acquire()
    path.write_bytes(b"rubbish")
    newest.acquire()
    assert (old.is_held(), newest.is_held()) == (False, True)


def test_the_file_is_for_root_alone(path: Path) -> None:
    new(path).acquire()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnwritable, match=r"absent/publish\.lock: No such file"):
        new(tmp_path / "absent" / "publish.lock").acquire()


def test_threads_of_one_instance_take_turns(path: Path) -> None:
    """They share its file, and so its locks: the record of the fence is not written into a slice's request."""
    lock = new(path)
    lock.acquire()
    with lock.writing(0) as may_write:
        assert may_write
        found = []

        def try_writing() -> None:
            try:
                with lock.writing(0.01):
                    found.append("wrote")
            except StateUnwritable as err:
                found.append(str(err))

        thread = threading.Thread(target=try_writing)
        thread.start()
        thread.join()
    assert "another thread has been writing" in found[0]
    with lock.writing(0) as may_write:
        assert may_write


def test_the_first_instance_is_one_while_it_writes(path: Path) -> None:
    """Its ticket is the byte beside the one that is held around writes: to the kernel the two are one lock."""
    first, waiting = new(path), new(path)
    first.acquire()
    with first.writing(0) as may_write:
        assert may_write
        assert (first.read_others(), waiting.read_others()) == ((), (1,))
        assert (first.is_anothers(), waiting.is_anothers()) == (False, True)
    second = new(path)
    second.acquire()
    with second.writing(0):
        assert [each.read_others() for each in (first, second, waiting)] == [(2,), (1,), (1, 2)]


def test_an_instance_that_came_and_went_unseen_has_left_its_ticket(path: Path) -> None:
    first, second = new(path), new(path)
    assert first.read_last_ticket() == 0
    first.acquire()
    second.acquire()
    second.release()
    assert (first.read_last_ticket(), first.read_others()) == (2, ())
    path.write_text("no number")
    assert first.read_last_ticket() == 0


def test_each_sees_the_others_that_live_and_whether_one_of_them_is_the_publisher(path: Path) -> None:
    """Also one that has not come yet: before the first has, it is nobody's."""
    first, second, third, waiting = new(path), new(path), new(path), new(path)
    assert (waiting.read_others(), waiting.is_anothers()) == ((), False)
    for lock in (first, second, third):
        lock.acquire()
    assert [each.read_others() for each in (first, second, third, waiting)] == [(2, 3), (1, 3), (1, 2), (1, 2, 3)]
    assert [each.is_anothers() for each in (first, second, third, waiting)] == [True, True, False, True]
    second.release()
    third.release()
    assert (first.read_others(), first.is_anothers()) == ((), False)
    assert (waiting.read_others(), waiting.is_anothers()) == ((1,), True)
