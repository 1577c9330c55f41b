"""Two instances on one folder: the old one and the new one of a rolling update. Both hear; one takes in, writes and speaks."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from driver.health.file import FILE_NAME, HealthFile
from driver.health.handover import ECHO_S
from driver.health.model import Kind
from driver.health.observations import Observation
from driver.health.state import HealthState
from tests.unit.health.observed import GPU, OTHER, driver, ecc, look, xid
from tests.unit.node.health.test_keeper import Kept


class Pair:
    """The old instance leads until ``hand_over``; the new one until ``kill_new``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.old = Kept(folder)
        self.old.note(driver("boot-1"))
        self.new = Kept(folder, leads=False)
        self.new.note(driver("boot-1"))

    def hand_over(self) -> None:
        """The new one publishes for the first time, and reads what there is to publish."""
        self.old.leads, self.new.leads = False, True
        self.new.keeper.read()

    def roll_back(self) -> None:
        """The new one ends, well or by a kill: from the old one's side it is the same."""
        self.old.leads, self.new.leads = True, False

    def stop_old(self) -> None:
        self.old.keeper.close()

    def hear(self, *seen: Observation, skew: float = 0.0) -> None:
        """Both hear it, the one that leads first."""
        late = [xid(each.number, _seconds(each) + skew, device=each.device) for each in seen]  # type: ignore[union-attr]
        for kept, heard in sorted(((self.old, seen), (self.new, late)), key=lambda pair: not pair[0].leads):
            kept.note(*heard)

    def filed(self) -> HealthState:
        return HealthFile(self.folder).read()

    def since(self, kept: Kept) -> list[datetime]:
        return [each.since for each in kept.keeper.read().troubles]

    def words(self) -> list[str]:
        return [*self.old.reasons(), *self.new.reasons()]


def _seconds(seen: Observation) -> float:
    return (seen.at - xid(1).at).total_seconds()  # type: ignore[union-attr]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_what_came_before_keeps_its_moment_in_both(pair: Pair) -> None:
    pair.old.note(xid(79, 5))
    before = pair.since(pair.old)
    pair.hand_over()
    pair.stop_old()
    assert pair.since(pair.new) == before == pair.since(pair.old)
    assert pair.words() == ["GpuUnhealthy"]


@pytest.mark.parametrize("skew", [0.0, 1.0, ECHO_S], ids=["at once", "a second later", "as late as can be"])
def test_what_comes_in_between_has_one_moment_and_is_counted_and_said_once(pair: Pair, skew: float) -> None:
    pair.hand_over()
    pair.hear(xid(79, 5), xid(13, 5, device=OTHER), skew=skew)
    pair.new.keeper.save()
    assert pair.since(pair.old) == pair.since(pair.new) == [each.since for each in pair.filed().troubles]
    assert pair.filed().counts == {GPU: {79: 1}, OTHER: {13: 1}}
    assert sorted(pair.words()) == ["GpuUnhealthy", "GpuXid"]
    pair.stop_old()
    assert pair.filed().counts == {GPU: {79: 1}, OTHER: {13: 1}}


def test_what_the_new_one_hears_again_is_not_counted_again(pair: Pair) -> None:
    """The old one took it in; a moment later the new one leads, and then hears of it."""
    pair.old.note(xid(79, 5))
    pair.hand_over()
    pair.new.note(xid(79, 6))
    pair.new.note(xid(79, 20))
    pair.new.keeper.save()
    assert pair.filed().counts == {GPU: {79: 2}}
    assert pair.words() == ["GpuUnhealthy"]


def test_what_the_old_one_never_took_in_is_taken_in_by_the_new_one(pair: Pair) -> None:
    """Heard while the old one led, which died first."""
    pair.new.note(xid(79, 5), xid(13, 5, device=OTHER), ecc(5))
    assert pair.filed().counts == {}
    assert pair.words() == []
    pair.hand_over()
    pair.new.note(look(6))
    pair.new.keeper.save()
    assert pair.filed().counts == {GPU: {79: 1}, OTHER: {13: 1}}
    assert [each.kind for each in pair.filed().troubles] == [Kind.XID, Kind.ECC]
    assert sorted(pair.words()) == ["GpuUnhealthy", "GpuUnhealthy", "GpuXid"]


def test_a_roll_back_goes_on_from_what_the_new_one_wrote(pair: Pair) -> None:
    pair.hand_over()
    pair.hear(xid(79, 5), skew=1.0)
    before = pair.since(pair.new)
    pair.roll_back()
    pair.new.keeper.close()
    pair.old.note(look(30), xid(79, 40))
    pair.old.keeper.save()
    assert pair.since(pair.old) == before
    assert pair.filed().counts == {GPU: {79: 2}}
    assert pair.words() == ["GpuUnhealthy"]
    assert pair.old.leads_anew == 1


def test_what_the_killed_one_heard_alone_is_what_the_other_one_tells(pair: Pair) -> None:
    """Killed before it wrote: the old one has heard it, too."""
    pair.hand_over()
    pair.old.note(xid(79, 5))
    before = pair.since(pair.old)
    pair.roll_back()
    pair.old.note(look(30))
    assert [each.since for each in pair.filed().troubles] == before
    assert pair.words() == ["GpuUnhealthy"]


def test_the_old_one_ends_without_writing(pair: Pair) -> None:
    """Its last word may be older than what the new one has written."""
    pair.old.note(xid(13, 1))
    pair.hand_over()
    pair.new.note(xid(48, 5))
    before = (pair.folder / FILE_NAME).read_bytes()
    pair.stop_old()
    assert (pair.folder / FILE_NAME).read_bytes() == before


def test_an_end_in_the_new_one_is_an_end_in_the_old_one(pair: Pair) -> None:
    pair.hear(xid(48, 5))
    pair.hand_over()
    pair.new.note(look(40, action=0))
    assert pair.since(pair.old) == []
    assert pair.words() == ["GpuUnhealthy", "GpuRecovered"]
    pair.roll_back()
    pair.old.note(look(60, action=0))
    assert pair.filed().troubles == ()
    assert pair.words() == ["GpuUnhealthy", "GpuRecovered"]


def test_looks_of_the_one_that_does_not_lead_are_not_taken_in(pair: Pair) -> None:
    """Another version may see other things; the two must not contradict each other every half minute."""
    pair.hand_over()
    pair.old.note(look(5, has_events=False))
    assert pair.since(pair.old) == pair.since(pair.new) == []


def test_without_a_file_the_one_that_leads_writes_it_again(pair: Pair) -> None:
    pair.old.note(xid(48, 5))
    (pair.folder / FILE_NAME).unlink()
    pair.old.note(xid(13, 6))
    pair.old.keeper.save()
    assert pair.filed().counts == {GPU: {48: 1, 13: 1}}
