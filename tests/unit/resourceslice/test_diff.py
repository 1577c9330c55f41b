"""Which writes lead from what exists to what is wanted: each case of contracts 4.4 as state in, plan out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import pytest

from driver.api.resource_v1 import ResourceSlice, Taint
from driver.resourceslice.content import SliceContent
from driver.resourceslice.diff import (
    MAX_GENERATION,
    WritePlan,
    build_generate_name,
    content_of,
    parse_name_index,
    plan_writes,
)
from tests.fakes.slices import IDENTITY, content, counters, device, existing, pool_of

A, B, C = content("gpu-a"), content("gpu-b"), content("gpu-c")


@dataclass(frozen=True)
class Outline:
    """A plan without its bulk: names that go, and (index, content, generation, count) of what is written."""

    deletes: tuple[str, ...] = ()
    updates: tuple[tuple[str, SliceContent, int, int], ...] = ()
    creates: tuple[tuple[str, SliceContent, int, int], ...] = ()


def outline(plan: WritePlan) -> Outline:
    def written(item: ResourceSlice, name: str) -> tuple[str, SliceContent, int, int]:
        return name, content_of(item), item.spec.pool.generation, item.spec.pool.resource_slice_count

    return Outline(
        deletes=tuple(item.metadata.name for item in plan.deletes),
        updates=tuple(written(item, item.metadata.name[:5]) for item in plan.updates),
        creates=tuple(written(item, item.metadata.generate_name[:5]) for item in plan.creates),
    )


NAME = "{:05x}-gpu.nvidia.com-node-a-abcde"

CASES: dict[str, tuple[Sequence[ResourceSlice], Sequence[SliceContent], Outline]] = {
    "nothing exists: all is created in generation 1": (
        (),
        (A, B),
        Outline(creates=(("00000", A, 1, 2), ("00001", B, 1, 2))),
    ),
    "everything is there: nothing is written": (pool_of((A, B)), (A, B), Outline()),
    "no content is one empty slice": ((), (), Outline(creates=(("00000", SliceContent(), 1, 1),))),
    "and that is not written twice": (pool_of((SliceContent(),)), (), Outline()),
    "one changed slice is one write in the same generation": (
        pool_of((A, B), generation=7),
        (A, C),
        Outline(updates=(("00001", C, 7, 2),)),
    ),
    "two changed slices raise the generation": (
        pool_of((A, B), generation=7),
        (B, A),
        Outline(updates=(("00000", B, 8, 2), ("00001", A, 8, 2))),
    ),
    "a slice more raises the generation and rewrites the others": (
        pool_of((A,), generation=3),
        (A, B),
        Outline(updates=(("00000", A, 4, 2),), creates=(("00001", B, 4, 2),)),
    ),
    "a slice fewer goes first, and the last one is above it for who did not see it go": (
        pool_of((A, B), generation=3),
        (A,),
        Outline(deletes=(NAME.format(1),), updates=(("00000", A, 4, 1),)),
    ),
    "two of three left are two changes": (
        pool_of((A, B, C), generation=3),
        (A, B),
        Outline(deletes=(NAME.format(2),), updates=(("00000", A, 4, 2), ("00001", B, 4, 2))),
    ),
    "a missing slice is created in a new generation": (
        pool_of((A, B), generation=3)[:1],
        (A, B),
        Outline(updates=(("00000", A, 4, 2),), creates=(("00001", B, 4, 2),)),
    ),
    "a slice of an older generation goes": (
        (
            existing(0, A, generation=1),
            *pool_of((A,), generation=2)[:0],
            existing(0, A, generation=2, name=NAME.format(0)[:-1]),
        ),
        (A,),
        Outline(deletes=(NAME.format(0),)),
    ),
    "of two slices with one index the first by name stays, above the other": (
        (existing(0, A, name="00000-b"), existing(0, A, name="00000-a")),
        (A,),
        Outline(deletes=("00000-b",), updates=(("00000", A, 2, 1),)),
    ),
    "a name without an index goes": (
        (existing(0, A, name="node-a-gpu-xyz"),),
        (A,),
        Outline(deletes=("node-a-gpu-xyz",), creates=(("00000", A, 2, 1),)),
    ),
    "an index beyond the pool goes": (
        (*pool_of((A,)), existing(9, B)),
        (A,),
        Outline(deletes=(NAME.format(9),), updates=(("00000", A, 2, 1),)),
    ),
    "a slice of another pool on this node goes": (
        (*pool_of((A,)), existing(0, B, name="00000-old", pool="node-a/gpus")),
        (A,),
        Outline(deletes=("00000-old",)),
    ),
    "a wrong count is a change": (
        (existing(0, A, count=5, generation=4),),
        (A,),
        Outline(updates=(("00000", A, 4, 1),)),
    ),
    "a generation that leaves no room for the next is no generation": (
        (existing(0, A, generation=MAX_GENERATION),),
        (A,),
        Outline(deletes=(NAME.format(0),), creates=(("00000", A, 1, 1),)),
    ),
    "counters and devices are told apart": (
        pool_of((counters("gpu-a"), A), generation=2),
        (counters("gpu-b"), A),
        Outline(updates=(("00000", counters("gpu-b"), 2, 2),)),
    ),
}


@pytest.mark.parametrize(("there", "wanted", "expected"), CASES.values(), ids=CASES.keys())
def test_plan(there: Sequence[ResourceSlice], wanted: Sequence[SliceContent], expected: Outline) -> None:
    plan = plan_writes(there, wanted, IDENTITY)
    assert outline(plan) == expected
    assert plan.is_empty == (expected == Outline())


def test_the_order_in_which_slices_are_listed_does_not_matter() -> None:
    there = (*pool_of((A, B, C), generation=3), existing(1, B, generation=2, name="00001-old"))
    assert outline(plan_writes(there[::-1], (A, C), IDENTITY)) == outline(plan_writes(there, (A, C), IDENTITY))


def test_the_order_of_devices_is_part_of_what_is_wanted() -> None:
    plan = plan_writes(pool_of((content("gpu-a", "gpu-b"),)), (content("gpu-b", "gpu-a"),), IDENTITY)
    assert len(plan.updates) == 1


def test_an_update_carries_the_conditions_and_metadata_of_what_it_replaces() -> None:
    there = existing(0, A)
    plan = plan_writes([there], [B], IDENTITY)
    assert plan.updates == (
        ResourceSlice(metadata=there.metadata, spec=msgspec.structs.replace(there.spec, devices=B.devices)),
    )


def test_after_the_kubelet_wiped_all_slices_the_generation_goes_on() -> None:
    assert plan_writes((), (A,), IDENTITY, generation_floor=6).generation == 7


def test_a_pool_of_which_nothing_is_there_begins_at_the_time_of_day() -> None:
    """Above all that a consumer may still hold that did not see the slices go (kube-controller-manager evicts by those)."""
    assert plan_writes((), (A,), IDENTITY, first_generation=1_764_668_000).generation == 1_764_668_000
    assert plan_writes((), (A,), IDENTITY, generation_floor=6, first_generation=1_764_668_000).generation == 1_764_668_000


def test_a_clock_that_was_set_back_never_takes_the_generation_with_it() -> None:
    assert plan_writes((), (A,), IDENTITY, generation_floor=1_764_668_000, first_generation=5).generation == 1_764_668_001


def test_a_pool_that_is_there_goes_on_counting() -> None:
    """Its generation says how often it changed; only where it begins is a matter of time."""
    plan = plan_writes(pool_of((A,), generation=7), (B, A), IDENTITY, first_generation=1_764_668_000)
    assert plan.generation == 8


def test_a_generation_that_was_set_back_by_hand_is_raised_above_all_that_was_seen() -> None:
    plan = plan_writes(pool_of((A,), generation=2), (A,), IDENTITY, generation_floor=6)
    assert outline(plan) == Outline(updates=(("00000", A, 7, 1),))


def test_a_floor_that_is_reached_changes_nothing() -> None:
    assert plan_writes(pool_of((A,), generation=6), (A,), IDENTITY, generation_floor=6).is_empty


def test_the_time_of_a_taint_that_stays_is_kept_and_of_a_new_one_is_left_to_the_server() -> None:
    then = "2026-12-01T10:00:00Z"
    old = SliceContent(devices=(device("gpu-a", taints=(Taint(key="x/ecc", effect="NoSchedule", time_added=then),)),))
    both = (Taint(key="x/ecc", effect="NoSchedule"), Taint(key="x/xid", effect="NoExecute"))
    wanted = SliceContent(devices=(device("gpu-a", taints=both),))
    plan = plan_writes(pool_of((old,)), (wanted,), IDENTITY)
    assert plan.updates[0].spec.devices[0].taints == (msgspec.structs.replace(both[0], time_added=then), both[1])


def test_a_taint_keeps_its_time_also_when_its_device_moves_to_another_slice() -> None:
    then = "2026-12-01T10:00:00Z"
    tainted = device("gpu-b", taints=(Taint(key="x/ecc", effect="NoSchedule", time_added=then),))
    there = pool_of((SliceContent(devices=(device("gpu-a"), tainted)),))
    wanted = (A, SliceContent(devices=(device("gpu-b", taints=(Taint(key="x/ecc", effect="NoSchedule"),)),)))
    assert plan_writes(there, wanted, IDENTITY).creates[0].spec.devices[0] == tainted


@pytest.mark.parametrize(
    ("name", "count", "index"),
    [
        pytest.param("00000-x", 1, 0, id="zero"),
        pytest.param("0001f-x", 32, 31, id="hexadecimal"),
        pytest.param("00020-x", 32, None, id="beyond the pool"),
        pytest.param("0000-x", 1, None, id="too few digits"),
        pytest.param("000000-x", 1, None, id="too many digits"),
        pytest.param("0000A-x", 32, None, id="upper case"),
        pytest.param("x-00000", 1, None, id="not in front"),
        pytest.param("00000", 1, None, id="no dash"),
        pytest.param("", 1, None, id="empty"),
        pytest.param("100000-x", 0x100001, 0x100000, id="more slices than five digits hold"),
    ],
)
def test_the_index_in_a_name(name: str, count: int, index: int | None) -> None:
    assert parse_name_index(name, count=count) == index


@pytest.mark.parametrize(
    ("node", "base"),
    [
        pytest.param("node-a", "0000a-gpu.nvidia.com-node-a-", id="short"),
        pytest.param("n" * 253, "0000a-gpu.nvidia.com-" + "n" * 36 + "-", id="cut"),
        pytest.param("n" * 35 + ".example", "0000a-gpu.nvidia.com-" + "n" * 35 + "-", id="cut after a dot"),
        pytest.param("n" * 35 + "-1.example", "0000a-gpu.nvidia.com-" + "n" * 35 + "-", id="cut after a dash"),
    ],
)
def test_the_base_of_a_generated_name_is_legal_and_not_cut_by_the_server(node: str, base: str) -> None:
    name = build_generate_name(replace(IDENTITY, node_name=node), 10)
    assert name == base
    assert len(name) <= 58
