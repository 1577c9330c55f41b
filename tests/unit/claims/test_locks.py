"""Locks by name. A second table on the same folder stands for another process: a file lock belongs to an open file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.claims.flock import FileLock
from driver.claims.locks import LockTable
from driver.claims.model import ClaimRef, Deadline
from driver.errors import ClaimBusy, ClaimError, StateUnwritable
from driver.names import ClaimUID
from tests.fakes.claims import ref, uid

NOW = 0.02


def table(tmp_path: Path) -> LockTable:
    made = LockTable(tmp_path / "locks")
    made.start()
    return made


@contextlib.contextmanager
def in_thread(act: threading.Thread) -> Iterator[threading.Thread]:
    act.start()
    yield act
    act.join(20)
    assert not act.is_alive()


@pytest.mark.parametrize("who", ["thread", "process"])
def test_b18_a_lock_that_is_not_had_in_time_names_its_holder(tmp_path: Path, who: str) -> None:
    """B18: the wait has a time-out, and the error says which process holds it for which claim at which step."""
    mine = table(tmp_path)
    other = mine if who == "thread" else table(tmp_path)
    with mine.hold_claim(ref(1), Deadline(5), "prepare:begin") as hold:
        hold.say("prepare:cdi-file")
        with pytest.raises(ClaimBusy) as caught, other.hold_claim(ref(1), Deadline(NOW), "unprepare:begin"):
            pass
    said = str(caught.value)
    assert f"held by process {os.getpid()}, claim default/claim-1 (uid {uid(1)}), at prepare:cdi-file" in said
    assert "ask again" in said


def test_different_claims_do_not_wait_for_each_other(tmp_path: Path) -> None:
    locks = table(tmp_path)
    with locks.hold_claim(ref(1), Deadline(0), "a"), locks.hold_claim(ref(2), Deadline(0), "b"):
        assert "claim-1" in locks.holder_of(uid(1))
        assert "claim-2" in locks.holder_of(uid(2))
    assert locks.holder_of(uid(1)) == ""


def test_a_free_lock_is_had_even_when_the_deadline_is_past(tmp_path: Path) -> None:
    with table(tmp_path).hold_claim(ref(1), Deadline(-5), "a"):
        pass


@pytest.mark.parametrize("who", ["thread", "process"])
def test_a_waiter_gets_the_lock_when_it_is_released(tmp_path: Path, who: str) -> None:
    mine = table(tmp_path)
    other = mine if who == "thread" else table(tmp_path)
    order: list[str] = []

    def wait() -> None:
        with other.hold_claim(ref(1), Deadline(20), "second"):
            order.append("second")

    with mine.hold_claim(ref(1), Deadline(5), "first"):
        thread = threading.Thread(target=wait)
        thread.start()
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]


@pytest.mark.parametrize("is_last", [False, True], ids=["file stays", "file goes"])
def test_many_waiters_of_two_processes_never_hold_at_once(tmp_path: Path, is_last: bool) -> None:
    tables = [table(tmp_path), table(tmp_path)]
    inside: list[int] = []
    worst: list[int] = []

    def work(locks: LockTable) -> None:
        for _ in range(25):
            with locks.hold_claim(ref(1), Deadline(30), "x") as hold:
                hold.is_last = is_last
                inside.append(1)
                worst.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, args=(tables[n % 2],)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(worst) == 150
    assert max(worst) == 1


def test_the_last_holder_takes_the_lock_file_with_it(tmp_path: Path) -> None:
    locks = table(tmp_path)
    with locks.hold_claim(ref(1), Deadline(0), "a") as hold:
        assert [path.name for path in (tmp_path / "locks").iterdir()] == [f"claim-{uid(1)}.lock"]
        hold.is_last = True
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_caller_that_gives_up_leaves_one_waiting_thread_for_all_that_follow(tmp_path: Path) -> None:
    """R13: the kubelet asks again every few seconds; each time one more parked thread would never end."""
    mine, other = table(tmp_path), table(tmp_path)

    def waiting() -> int:
        return sum(thread.name == f"flock claim-{uid(1)}.lock" for thread in threading.enumerate())

    with mine.hold_claim(ref(1), Deadline(0), "a"):
        for _ in range(5):
            with pytest.raises(ClaimBusy), other.hold_claim(ref(1), Deadline(NOW), "b"):
                pass
            assert waiting() == 1
        assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("flock "))
    with other.hold_claim(ref(1), Deadline(20), "b"):
        pass
    with mine.hold_claim(ref(1), Deadline(20), "c"):
        pass


def test_a_lock_that_comes_when_nobody_wants_it_any_more_is_let_go(tmp_path: Path) -> None:
    mine, other = table(tmp_path), table(tmp_path)
    with mine.hold_claim(ref(1), Deadline(0), "a"), pytest.raises(ClaimBusy), other.hold_claim(ref(1), Deadline(NOW), "b"):
        pass
    third = table(tmp_path)
    with third.hold_claim(ref(1), Deadline(20), "c"):
        pass


def test_gpus_are_locked_in_order_of_name_whatever_order_they_come_in(tmp_path: Path) -> None:
    """Two claims that want the same GPUs in another order would wait for each other for ever."""
    locks = table(tmp_path)
    done: list[str] = []

    def work(of: ClaimRef, gpus: tuple[str, ...]) -> None:
        for _ in range(30):
            with locks.hold_gpus(gpus, of, Deadline(30), "x"):
                done.append(of.name)

    threads = [
        threading.Thread(target=work, args=(ref(n), names)) for n, names in enumerate([("gpu-a", "gpu-b"), ("gpu-b", "gpu-a")])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 60


def test_gpus_that_are_not_had_are_all_let_go(tmp_path: Path) -> None:
    mine, other = table(tmp_path), table(tmp_path)
    with mine.hold_gpus(("gpu-b",), ref(1), Deadline(0), "x"):
        says = r"claim-2.*lock device-gpu-b is still held by .*claim-1"
        with pytest.raises(ClaimBusy, match=says), other.hold_gpus(("gpu-a", "gpu-b"), ref(2), Deadline(NOW), "x"):
            pass
        with mine.hold_gpus(("gpu-a",), ref(3), Deadline(0), "x"):
            pass


@pytest.mark.parametrize("name", ["../x", "", "GPU", "a/b", "a\n"])
def test_only_checked_names_become_files(tmp_path: Path, name: str) -> None:
    locks = table(tmp_path)
    with pytest.raises(ValueError, match="is no device name"), locks.hold_gpus((name,), ref(1), Deadline(0), "x"):
        pass
    bad = ClaimRef(namespace="a", name="b", uid=ClaimUID(name))
    with pytest.raises(ClaimError, match="is no claim uid"), locks.hold_claim(bad, Deadline(0), "x"):
        pass
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_folder_that_cannot_be_used_is_the_claims_error_and_nothing_stays_locked(tmp_path: Path) -> None:
    locks = LockTable(tmp_path / "gone")
    for _ in range(2):
        with pytest.raises(StateUnwritable, match="taking the lock"), locks.hold_claim(ref(1), Deadline(0), "x"):
            pass
    locks.start()
    with locks.hold_claim(ref(1), Deadline(0), "x"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnwritable, match="making the lock folder"):
        LockTable(tmp_path / "file" / "x").start()


def test_names_that_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    locks = table(tmp_path)
    for number in range(300):
        with locks.hold_claim(ref(number), Deadline(0), "x") as hold:
            hold.is_last = True
    assert locks._table == {}


def test_the_uncontended_way_makes_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    lock = FileLock(str(tmp_path / "a.lock"))
    assert lock.acquire(0, "me")
    assert threading.active_count() == before
    assert lock.read_holder() == "me"
    lock.release(delete_file=False)
    assert lock.acquire(0, "I")
    assert lock.read_holder() == "I"
    lock.release(delete_file=False)


def test_a_file_that_is_replaced_while_it_is_waited_for_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    lock = FileLock(str(path))
    got: list[bool] = []
    with in_thread(threading.Thread(target=lambda: got.append(lock.acquire(20, "me")))):
        while not lock.has_waiter():
            pass
        path.unlink()
        os.close(descriptor)
    assert got == [True]
    other = FileLock(str(path))
    assert not other.acquire(NOW, "you")
    lock.release(delete_file=False)
    assert other.acquire(20, "you")
    other.release(delete_file=False)


def test_an_error_of_the_waiting_thread_reaches_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    path.parent.mkdir()
    first = FileLock(str(path))
    assert first.acquire(0, "me")
    second = FileLock(str(path))
    errors: list[OSError] = []

    def wait() -> None:
        try:
            second.acquire(20, "you")
        except OSError as err:
            errors.append(err)

    with in_thread(threading.Thread(target=wait)):
        while not second.has_waiter():
            pass
        path.unlink()
        path.parent.rmdir()
        first.release(delete_file=False)
    assert [type(err) for err in errors] == [FileNotFoundError]
