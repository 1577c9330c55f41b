"""What we know of our slices when the watch lags behind our own writes, and when it is ahead of their answers."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.kube.changes import Change, ChangeKind
from driver.kube.watch import Listed
from driver.resourceslice.diff import MAX_GENERATION
from driver.resourceslice.pool_state import PoolState
from tests.fakes.slices import IDENTITY, content, existing

A, B = content("gpu-a"), content("gpu-b")


def at(version: int | str, item: ResourceSlice) -> ResourceSlice:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version=str(version)))


def change(kind: ChangeKind, item: ResourceSlice) -> Change[ResourceSlice]:
    return Change(kind=kind, item=item)


def listed(version: int, *items: ResourceSlice) -> Listed:
    return Listed(resource_version=str(version), uids=frozenset(item.metadata.uid for item in items))


def pool() -> PoolState:
    return PoolState(IDENTITY.pool)


ONE = at(10, existing(0, A))


def test_the_first_list_is_news_even_when_it_is_empty() -> None:
    state = pool()
    assert (state.is_listed, state.note_listing(listed(5)), state.is_listed) == (False, True, True)
    assert not state.note_listing(listed(6))


def test_the_echo_of_our_own_write_is_no_news() -> None:
    state = pool()
    assert state.note_written(ONE)
    assert not state.note_change(change(ChangeKind.ADDED, ONE))
    assert state.slices == (ONE,)


def test_something_older_than_our_write_is_no_news() -> None:
    state = pool()
    newer = at(12, existing(0, B))
    state.note_written(ONE)
    state.note_written(newer)
    assert not state.note_change(change(ChangeKind.MODIFIED, ONE))
    assert state.slices == (newer,)


def test_a_change_by_somebody_else_is_news() -> None:
    state = pool()
    state.note_written(ONE)
    foreign = at(11, existing(0, B))
    assert state.note_change(change(ChangeKind.MODIFIED, foreign))
    assert state.slices == (foreign,)


def test_a_deletion_is_news_once() -> None:
    state = pool()
    state.note_written(ONE)
    assert state.note_change(change(ChangeKind.DELETED, ONE))
    assert not state.note_change(change(ChangeKind.DELETED, ONE))
    assert state.slices == ()


def test_what_the_watch_still_says_of_a_slice_that_we_deleted_is_old() -> None:
    state = pool()
    state.note_deleted(ONE)
    assert not state.note_change(change(ChangeKind.ADDED, ONE))
    assert not state.note_change(change(ChangeKind.DELETED, ONE))
    assert state.slices == ()


def test_a_slice_deleted_before_the_answer_to_its_creation_came_is_gone() -> None:
    """The kubelet may wipe between our write and its answer: the late answer must not bring the slice back to life."""
    state = pool()
    state.note_change(change(ChangeKind.ADDED, ONE))
    state.note_change(change(ChangeKind.DELETED, at(11, ONE)))
    assert not state.note_written(ONE)
    assert state.slices == ()


def test_a_change_that_overtook_the_answer_to_our_write_stays() -> None:
    state = pool()
    foreign = at(11, existing(0, B))
    state.note_change(change(ChangeKind.MODIFIED, foreign))
    assert not state.note_written(ONE)
    assert state.slices == (foreign,)


def test_a_list_takes_away_what_it_does_not_hold() -> None:
    state = pool()
    state.note_written(ONE)
    state.note_listing(listed(9))
    assert state.slices == (ONE,)  # written after the list was made
    assert state.note_listing(listed(20))
    assert not state.slices


def test_the_answer_to_a_write_that_a_later_list_no_longer_shows_is_old() -> None:
    state = pool()
    state.note_listing(listed(20))
    assert not state.note_written(ONE)
    assert state.slices == ()


@pytest.mark.parametrize(
    "version", ["abc", "²", "9" * 5000, "", "-1"], ids=["text", "superscript", "5000 digits", "empty", "minus"]
)
def test_versions_that_are_no_numbers_are_only_compared_for_being_the_same(version: str) -> None:
    state = pool()
    state.note_listing(listed(5))
    state.note_written(at(version, ONE))
    assert not state.note_change(change(ChangeKind.ADDED, at(version, ONE)))
    assert state.note_change(change(ChangeKind.MODIFIED, at("other", ONE)))


def test_the_highest_generation_is_remembered_after_its_slices_are_gone() -> None:
    state = pool()
    state.note_written(at(10, existing(0, A, generation=7)))
    state.note_listing(listed(20))
    assert (state.slices, state.highest_generation) == ((), 7)


def test_generations_of_other_pools_and_absurd_ones_do_not_count() -> None:
    state = pool()
    state.note_written(existing(0, A, generation=9, pool="other"))
    state.note_written(existing(1, A, generation=MAX_GENERATION))
    assert state.highest_generation == 0


def test_deletions_without_end_do_not_fill_the_memory() -> None:
    state = pool()
    for number in range(2000):
        state.note_change(change(ChangeKind.DELETED, existing(0, A, name=f"00000-{number}")))
    assert len(state._seen_gone) <= 256
