"""A device says at most 32 things, and what it leaves out is known."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Attribute, Capacity
from driver.resourceslice.budget import Budgeted, Fact, spend_budget


def attribute(name: str) -> Fact:
    return name, Attribute(bool_=True)


def capacity(name: str) -> Fact:
    return name, Capacity(value="1")


def test_what_fits_is_taken_in_order() -> None:
    assert spend_budget([(attribute("a"),), (capacity("b"),)]) == Budgeted(
        attributes={"a": Attribute(bool_=True)}, capacity={"b": Capacity(value="1")}, left_out=()
    )


def test_the_thirty_third_is_left_out_and_named() -> None:
    spent = spend_budget([(attribute(f"a{i}"),) for i in range(33)])
    assert len(spent.attributes) == 32
    assert spent.left_out == ("a32",)


def test_attributes_and_capacities_share_one_budget() -> None:
    spent = spend_budget([(attribute("a"),), (capacity("c"),), (attribute("b"),)], limit=2)
    assert (list(spent.attributes), list(spent.capacity), spent.left_out) == (["a"], ["c"], ("b",))


def test_a_group_is_taken_whole_or_not_at_all() -> None:
    """Some of a MIG device's memory slices would be worse than none: two devices could both seem to have the rest."""
    slices = tuple(capacity(f"memorySlice{i}") for i in range(8))
    spent = spend_budget([*((attribute(f"a{i}"),) for i in range(25)), slices])
    assert spent.capacity == {}
    assert spent.left_out == tuple(f"memorySlice{i}" for i in range(8))


def test_a_group_that_fits_exactly_is_taken() -> None:
    slices = tuple(capacity(f"memorySlice{i}") for i in range(8))
    assert len(spend_budget([*((attribute(f"a{i}"),) for i in range(24)), slices]).capacity) == 8


def test_what_is_behind_a_group_that_does_not_fit_may_still_fit() -> None:
    spent = spend_budget([(attribute("a"), attribute("b"), attribute("c")), (attribute("d"),)], limit=2)
    assert (list(spent.attributes), spent.left_out) == (["d"], ("a", "b", "c"))


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_the_limit_holds_and_nothing_is_lost_in_silence(sizes: list[int], limit: int) -> None:
    groups = [tuple(attribute(f"a{number}x{i}") for i in range(size)) for number, size in enumerate(sizes)]
    spent = spend_budget(groups, limit=limit)
    assert len(spent.attributes) <= limit
    assert {*spent.attributes, *spent.left_out} == {name for group in groups for name, _ in group}
    assert not {*spent.attributes} & {*spent.left_out}
