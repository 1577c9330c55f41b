"""The log of unprepares that have begun."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from driver.claims.ended import MOST_BYTES, EndedLog
from driver.errors import ClaimError, StateUnwritable
from driver.names import ClaimUID
from tests.fakes.claims import uid


def test_each_instance_sees_the_unprepares_of_the_other(tmp_path: Path) -> None:
    one, other = EndedLog(tmp_path / "ended"), EndedLog(tmp_path / "ended")
    one.start()
    came_at = other.read_end()
    assert not other.has_begun(uid(1), came_at)
    one.add(uid(1))
    assert (other.has_begun(uid(1), came_at), other.has_begun(uid(2), came_at)) == (True, False)
    other.add(uid(2))
    assert one.has_begun(uid(2), came_at)
    assert not one.has_begun(uid(1), one.read_end())


def test_a_log_that_has_grown_is_emptied_and_who_is_at_work_cannot_tell_any_more(tmp_path: Path) -> None:
    """A prepare that cannot tell is refused, and asked for again: better than one too many that takes effect."""
    log = EndedLog(tmp_path)
    log.add(uid(1))
    came_at = log.read_end()
    log.cut()
    assert log.read_end() == came_at
    (tmp_path / "log").write_bytes(b"x" * (MOST_BYTES + 1))
    came_at = log.read_end()
    log.cut()
    assert log.read_end() == 0
    assert log.has_begun(uid(7), came_at)


def test_a_log_that_somebody_deleted_is_made_again(tmp_path: Path) -> None:
    log = EndedLog(tmp_path)
    log.add(uid(1))
    came_at = log.read_end()
    (tmp_path / "log").unlink()
    assert log.has_begun(uid(2), came_at)
    log.add(uid(2))
    assert (tmp_path / "log").read_text() == f"{uid(2)}\n"
    assert EndedLog(tmp_path).has_begun(uid(2), 0)


def test_lines_of_many_threads_and_instances_do_not_mix(tmp_path: Path) -> None:
    logs = [EndedLog(tmp_path), EndedLog(tmp_path)]

    def add(number: int) -> None:
        for _ in range(50):
            logs[number % 2].add(uid(number))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "log").read_text().splitlines()
    assert {line: lines.count(line) for line in lines} == {uid(number): 50 for number in range(6)}


def test_only_a_uid_becomes_a_line(tmp_path: Path) -> None:
    with pytest.raises(ClaimError, match="is no claim uid"):
        EndedLog(tmp_path).add(ClaimUID("a\nb"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_of_the_claim(tmp_path: Path) -> None:
    gone = EndedLog(tmp_path / "gone")
    for act in (lambda: gone.add(uid(1)), gone.read_end, lambda: gone.has_begun(uid(1), 0), gone.cut):
        with pytest.raises(StateUnwritable, match="look at the disk"):
            act()
    with pytest.raises(StateUnwritable):
        EndedLog(Path("/proc/version/x")).start()
