"""What holds for every plan, from whatever state: it leads to the goal, and no consumer ever sees a mix on the way."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import ResourceSlice
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import WritePlan, content_of, plan_writes
from tests.fakes.slices import IDENTITY, content, counters, existing

contents = st.one_of(
    st.lists(st.sampled_from("abcdef"), max_size=3, unique=True).map(lambda names: content(*(f"gpu-{n}" for n in names))),
    st.sampled_from("abc").map(lambda name: counters(f"gpu-{name}")),
)
wanted_pools = st.lists(contents, max_size=4).map(tuple)


@st.composite
def existing_pools(draw: st.DrawFn) -> tuple[ResourceSlice, ...]:
    """Anything that crashes, wipes, other versions and people may leave: also two slices of an index, gaps, old generations."""
    slices = []
    for number in range(draw(st.integers(0, 5))):
        index = draw(st.integers(0, 5))
        slices.append(
            existing(
                index,
                draw(contents),
                count=draw(st.integers(1, 4)),
                generation=draw(st.integers(0, 3)),
                name=draw(st.sampled_from([f"{index:05x}-x-{number}", f"{index:05x}-x-{number}", f"odd-{number}"])),
                pool=draw(st.sampled_from(["node-a", "node-a", "node-a", "other"])),
            )
        )
    return tuple(slices)


def states_of(there: Sequence[ResourceSlice], plan: WritePlan) -> list[tuple[ResourceSlice, ...]]:
    """The state before the first write and after each."""
    state = {item.metadata.uid: item for item in there}
    states = [tuple(state.values())]
    for gone in plan.deletes:
        del state[gone.metadata.uid]
        states.append(tuple(state.values()))
    for number, written in enumerate((*plan.updates, *plan.creates)):
        meta = written.metadata
        if not meta.uid:
            meta = msgspec.structs.replace(meta, name=f"{meta.generate_name}{number:05}", uid=f"new {number}")
        state[meta.uid] = msgspec.structs.replace(written, metadata=meta)
        states.append(tuple(state.values()))
    return states


def visible(state: Sequence[ResourceSlice]) -> tuple[ResourceSlice, ...] | None:
    """The pool as a scheduler sees it: the highest generation, in the order of names, if it is complete."""
    ours = [item for item in state if item.spec.pool.name == IDENTITY.pool]
    highest = max((item.spec.pool.generation for item in ours), default=-1)
    newest = sorted((item for item in ours if item.spec.pool.generation == highest), key=lambda item: item.metadata.name)
    is_complete = newest and all(item.spec.pool.resource_slice_count == len(newest) for item in newest)
    return tuple(newest) if is_complete else None


@given(existing_pools(), wanted_pools, st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_the_plan_leads_to_exactly_what_is_wanted_in_one_generation(
    there: tuple[ResourceSlice, ...], wanted: tuple[SliceContent, ...], floor: int
) -> None:
    plan = plan_writes(there, wanted, IDENTITY, generation_floor=floor)
    final = states_of(there, plan)[-1]
    seen = visible(final)
    assert seen is not None
    assert len(seen) == len(final)
    assert tuple(content_of(item) for item in seen) == (wanted or (SliceContent(),))
    assert {item.spec.pool.generation for item in final} == {plan.generation}
    assert plan.generation >= floor


@given(existing_pools(), wanted_pools)
@settings(max_examples=80, deadline=None)
def test_between_two_writes_nobody_sees_old_and_new_together(
    there: tuple[ResourceSlice, ...], wanted: tuple[SliceContent, ...]
) -> None:
    """A complete pool at any moment is made of slices that were there before, or it is the whole of what is wanted."""
    for state in states_of(there, plan_writes(there, wanted, IDENTITY)):
        seen = visible(state)
        if seen is not None:
            is_old = all(item in there for item in seen)
            is_new = tuple(content_of(item) for item in seen) == (wanted or (SliceContent(),))
            assert is_old or is_new


@given(existing_pools(), wanted_pools)
@settings(max_examples=50, deadline=None)
def test_a_second_plan_finds_nothing_to_do(there: tuple[ResourceSlice, ...], wanted: tuple[SliceContent, ...]) -> None:
    final = states_of(there, plan_writes(there, wanted, IDENTITY))[-1]
    assert plan_writes(final, wanted, IDENTITY).is_empty


@given(existing_pools(), wanted_pools)
@settings(max_examples=50, deadline=None)
def test_after_a_crash_between_any_two_writes_the_next_plan_leads_to_the_same(
    there: tuple[ResourceSlice, ...], wanted: tuple[SliceContent, ...]
) -> None:
    for state in states_of(there, plan_writes(there, wanted, IDENTITY)):
        seen = visible(states_of(state, plan_writes(state, wanted, IDENTITY))[-1])
        assert seen is not None
        assert tuple(content_of(item) for item in seen) == (wanted or (SliceContent(),))


@given(existing_pools(), wanted_pools)
@settings(max_examples=50, deadline=None)
def test_the_generation_never_goes_back(there: tuple[ResourceSlice, ...], wanted: tuple[SliceContent, ...]) -> None:
    highest = max((item.spec.pool.generation for item in there if item.spec.pool.name == IDENTITY.pool), default=0)
    assert plan_writes(there, wanted, IDENTITY).generation >= highest
