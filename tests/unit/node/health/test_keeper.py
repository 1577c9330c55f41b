"""What is kept, written down, said, and passed on when the health of the GPUs changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.claims.flock import FileLock
from driver.health.file import FILE_NAME, HealthFile
from driver.health.model import Kind
from driver.health.observations import Observation
from driver.health.state import MAX_NUMBERS, Rules
from driver.node.health.keeper import LOCK_NAME, SAY_AGAIN_S, WRITE_AGAIN_S, HealthKeeper, KeeperOutlets
from driver.node.words import Word
from tests.unit.health.observed import GPU, OTHER, driver, look, lost, xid


class Kept:
    """An instance's keeper, and what it tells."""

    def __init__(self, folder: Path, rules: Rules | None = None, *, leads: bool = True) -> None:
        self.folder = folder
        self.leads = leads
        self.saves = 0
        self.leads_anew = 0
        self.words: list[Word] = []
        self.changes = 0
        self.links = 0
        self.now_s = 1000.0
        outlets = KeeperOutlets(
            say=self.words.append,
            on_change=self._change,
            on_links=self._move,
            on_unsaved=self._ask_to_save,
            on_lead=self._begin_to_lead,
            leads=lambda: self.leads,
        )
        lock = FileLock(str(folder / LOCK_NAME))
        self.keeper = HealthKeeper(HealthFile(folder), lock, rules or Rules(), outlets, clock=lambda: self.now_s)
        self.keeper.start()

    def note(self, *seen: Observation) -> None:
        self.keeper.note(seen)

    def reasons(self) -> list[str]:
        return [word.reason for word in self.words]

    def kinds(self) -> list[Kind]:
        return [each.kind for each in self.keeper.read().troubles]

    def stamp(self) -> int | None:
        """Changes with each writing of the file."""
        path = self.folder / FILE_NAME
        return path.stat().st_ino if path.exists() else None

    def _change(self) -> None:
        assert self.stamp() is not None or not os.access(self.folder, os.W_OK)
        self.changes += 1

    def _move(self) -> None:
        self.links += 1

    def _ask_to_save(self) -> None:
        self.saves += 1

    def _begin_to_lead(self) -> None:
        self.leads_anew += 1


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_trouble_is_on_disk_before_anybody_hears_of_it(kept: Kept) -> None:
    kept.note(xid(79))
    assert (kept.changes, kept.kinds()) == (1, [Kind.XID])
    assert HealthFile(kept.folder).read().troubles == kept.keeper.read().troubles


def test_the_next_process_goes_on_from_there(kept: Kept) -> None:
    kept.note(driver("boot-1"), xid(79))
    after = Kept(kept.folder)
    assert after.keeper.read() == kept.keeper.read()
    after.note(driver("boot-1"), xid(79, 5))
    assert (after.words, after.changes) == ([], 0)
    after.note(driver("boot-2"))
    assert (after.reasons(), after.changes, after.kinds()) == (["GpuRecovered"], 1, [])


def test_a_trouble_says_what_happened_and_what_to_do(kept: Kept) -> None:
    kept.note(xid(79))
    (word,) = kept.words
    assert word.reason == "GpuUnhealthy"
    assert word.is_warning
    assert word.message == (
        f"{GPU}: XID 79: the GPU fell off the bus; it is given to no new claim. "
        "Drain the node and reboot it; if the GPU is lost again, have the card and its slot tested."
    )


def test_an_end_says_what_is_over(kept: Kept) -> None:
    kept.note(xid(48), look(30, action=0))
    assert kept.reasons() == []  # it came and went between two breaths: nobody has to know
    kept.note(xid(48, 40))
    kept.note(look(70, action=0))
    assert kept.reasons() == ["GpuUnhealthy", "GpuRecovered"]
    assert kept.words[-1].message == f"{GPU}: over: XID 48: two bits of a memory word are wrong (double-bit ECC error)"


def test_a_programs_xid_is_said_once_a_number_and_gpu(kept: Kept) -> None:
    kept.note(xid(13), xid(13, 1), xid(31, 2))
    kept.note(xid(13, 3), xid(13, 4, device=OTHER))
    assert kept.reasons() == ["GpuXid", "GpuXid", "GpuXid"]
    assert not any(word.is_warning for word in kept.words)
    assert (kept.changes, kept.kinds()) == (0, [])
    assert kept.keeper.read().counts == {(GPU, 13): 3, (GPU, 31): 1, (OTHER, 13): 1}


def test_a_gpu_that_makes_up_numbers_fills_neither_the_log_nor_the_node_with_events(
    kept: Kept, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers beyond those that are counted would be the first of their kind each time; so would a program's XID then."""
    for place in range(5):
        kept.note(*(xid(1000 + 100 * place + number) for number in range(100)), xid(13), xid(31))
    assert kept.reasons() == ["GpuUnhealthy"]
    assert (capsys.readouterr().err + caplog.text).count("an XID that is not in the table") <= 2 * MAX_NUMBERS


def test_an_ignored_xid_is_said_to_be(tmp_path: Path) -> None:
    kept = Kept(tmp_path, Rules(ignored_xids=frozenset({48})))
    kept.note(xid(48))
    assert "ignored by the settings" in kept.words[0].message
    assert kept.changes == 0


def test_a_trouble_that_comes_and_goes_is_said_once_a_minute(kept: Kept) -> None:
    """Each change is published; events are for people."""
    for place in range(10):
        kept.note(look(60 * place, action=1))
        kept.note(look(60 * place + 30, action=0))
    assert sorted(kept.reasons()) == ["GpuRecovered", "GpuUnhealthy"]
    assert kept.changes == 20
    kept.now_s += SAY_AGAIN_S
    kept.note(look(900, action=1))
    assert len(kept.words) == 3


def test_a_storm_of_events_writes_one_file(kept: Kept) -> None:
    kept.note(xid(48))
    before = kept.stamp()
    for place in range(50):
        kept.note(*(xid(48, place), xid(13, place)) * 100)
    assert kept.stamp() == before
    assert (kept.changes, kept.keeper.read().counts) == (1, {(GPU, 48): 5001, (GPU, 13): 5000})


def test_counts_are_asked_to_be_written_down_and_are_at_the_end(kept: Kept) -> None:
    """Whoever listens waits for no disk."""
    kept.note(driver("boot-1"), xid(13))
    kept.note(xid(13, 1))
    assert (kept.saves, HealthFile(kept.folder).read().counts) == (1, {GPU: {13: 1}})
    kept.keeper.save()
    assert HealthFile(kept.folder).read().counts == {GPU: {13: 2}}
    kept.note(xid(13, 3))
    kept.keeper.close()
    kept.note(xid(13, 4))
    kept.keeper.save()
    assert HealthFile(kept.folder).read().counts == {GPU: {13: 3}}


def test_links_that_were_seen_are_written_down_at_once(kept: Kept) -> None:
    """One that goes down while the plugin is away is missed otherwise."""
    kept.note(look(0, links=((0, True),)))
    after = Kept(kept.folder)
    after.note(look(30, links=((0, False),)))
    assert after.kinds() == [Kind.NVLINK]


def test_the_machine_is_read_anew_when_links_move_and_only_then(kept: Kept) -> None:
    kept.note(look(0, links=((0, True), (1, True))))
    kept.note(look(30, links=((0, False), (1, True))))
    assert kept.links == 1
    kept.note(look(60, links=((0, False), (1, True))), xid(79))
    assert kept.links == 1
    kept.note(look(90, links=((0, False), (1, False))))
    kept.note(lost(120))
    assert kept.links == 3


def test_what_cannot_be_written_is_known_all_the_same(tmp_path: Path) -> None:
    """A full disk must not put a broken GPU back."""
    kept = Kept(tmp_path / "missing")
    kept.keeper.note([xid(79)])
    assert (kept.kinds(), kept.changes) == ([Kind.XID], 1)


def test_a_disk_that_is_full_is_said_now_and_then_and_written_to_as_soon_as_it_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "missing"
    kept = Kept(folder)
    for place in range(10):
        kept.keeper.note([xid(79, place)])
    assert (capsys.readouterr().err + caplog.text).count("kept in memory alone") == 1
    folder.mkdir()
    kept.now_s += WRITE_AGAIN_S
    kept.keeper.note([look(30)])
    assert HealthFile(folder).read().troubles == kept.keeper.read().troubles
