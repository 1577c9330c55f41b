"""The counts of unprepares that have begun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.claims.ended import KEPT_S, EndedCounts
from driver.errors import ClaimError, StateUnwritable
from driver.names import ClaimUID
from tests.fakes.claims import uid


def test_each_instance_sees_the_unprepares_of_the_other(tmp_path: Path) -> None:
    one, other = EndedCounts(tmp_path / "ended"), EndedCounts(tmp_path / "ended")
    one.start()
    assert other.read(uid(1)) == 0
    one.add(uid(1))
    other.add(uid(1))
    assert (one.read(uid(1)), one.read(uid(2))) == (2, 0)


def test_old_counts_are_forgotten_and_young_ones_kept(tmp_path: Path) -> None:
    now_s = 10_000.0
    counts = EndedCounts(tmp_path, lambda: now_s)
    for number, age_s in ((1, KEPT_S + 1), (2, KEPT_S - 1)):
        counts.add(uid(number))
        os.utime(tmp_path / uid(number), (now_s - age_s,) * 2)
    (tmp_path / "other").write_text("not ours")
    os.utime(tmp_path / "other", (0, 0))
    counts.forget_old()
    assert sorted(path.name for path in tmp_path.iterdir()) == [uid(2), "other"]


def test_only_a_uid_becomes_a_file_name(tmp_path: Path) -> None:
    for act in (EndedCounts(tmp_path).read, EndedCounts(tmp_path).add):
        with pytest.raises(ClaimError, match="is no claim uid"):
            act(ClaimUID("../x"))


def test_a_folder_that_is_not_there_is_an_error_of_the_claim(tmp_path: Path) -> None:
    with pytest.raises(StateUnwritable):
        EndedCounts(tmp_path / "gone").add(uid(1))
    with pytest.raises(StateUnwritable):
        EndedCounts(Path("/proc/version/x")).start()
    EndedCounts(tmp_path / "gone").forget_old()
