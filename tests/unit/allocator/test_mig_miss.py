"""Why partitions do not fit, in numbers; and what a GPU that is cut is to those who want it whole."""

from __future__ import annotations

from driver.allocator.hold import HoldRule, Holds, Waiting, choose_soonest
from driver.allocator.pools import gather_pools
from driver.allocator.search import Found
from driver.api.resource_v1 import Counter, CounterSet, ResourcePool, ResourceSlice, ResourceSliceSpec
from tests.unit.allocator.cases import DRIVER, ask, hold, missed, problem
from tests.unit.allocator.mig import CLASSES, FOUR, ONE, SEVEN, THREE, TWO, mig_fleet, part, position, whole


def test_gpus_that_are_cut_are_not_free() -> None:
    """Seven of eight GPUs could be had; the eighth has a seventh taken."""
    fleet = mig_fleet({"a": 8})
    hold(fleet, "a", [position(fleet.nodes["a"], 0, ONE, 6)])
    assert missed(fleet, ask(whole(count=8)), classes=CLASSES).text == (
        "1 node, 7 free GPUs; need 8 on one node; largest free set is 7 (a); "
        "a: gpu-0 has 7 of 8 memory slices free, the whole GPU needs 8"
    )


def test_placements_that_exclude_each_other_are_not_counted_together() -> None:
    """3g and 4g are taken: nothing of a slice is left, though no partition of one slice is anybody's."""
    fleet = mig_fleet({"a": 1, "b": 1})
    node = fleet.nodes["a"]
    hold(fleet, "a", [position(node, 0, THREE, 4), position(node, 0, FOUR, 0)])
    assert missed(fleet, ask(part(ONE, count=8)), classes=CLASSES).text == (
        "2 nodes, 7 free MIG placements; need 8 on one node; largest free set is 7 (b)"
    )
    hold(fleet, "b", [position(fleet.nodes["b"], 0)])
    assert missed(fleet, ask(part(ONE)), classes=CLASSES).text == (
        "2 nodes, 0 free MIG placements; need 1 on one node; largest free set is 0; "
        "a: gpu-0 has 0 of 8 memory slices free, 1g.10gb needs 1"
    )


def test_the_largest_set_is_one_that_fits_together() -> None:
    """Two placements of 3g and three of 2g are open, of which only one or two fit."""
    fleet = mig_fleet({"a": 1})
    hold(fleet, "a", [position(fleet.nodes["a"], 0, TWO, 4)])
    miss = missed(fleet, ask(part(TWO, count=3)), classes=CLASSES)
    assert (miss.free, miss.largest, miss.is_whole) == (2, 2, False)
    assert missed(fleet, ask(part(SEVEN)), classes=CLASSES).largest == 0


def test_requests_that_fit_alone_but_not_together_say_so() -> None:
    fleet = mig_fleet({"a": 1})
    assert missed(fleet, ask(part(FOUR, "four"), part(THREE, "three", count=2)), classes=CLASSES).is_together


def test_a_whole_set_with_a_gpu_that_is_cut_is_not_spared() -> None:
    """The last eight is not whole any more, so a single may have one of it."""
    fleet = mig_fleet({"a": 8})
    holds = Holds(HoldRule(spare_patience_s=60))
    eight = Waiting(key="e", problem=problem(ask(whole(count=8)), classes=CLASSES), count=8, waited_s=0)
    single = Waiting(key="s", problem=problem(ask(whole()), classes=CLASSES), count=1, waited_s=0)
    holds.update(fleet, [eight, single])
    breaks = Found(score=(), picks=(), damage=(1, 1, 1))
    assert not holds.accepts(fleet, single, breaks)
    hold(fleet, "a", [position(fleet.nodes["a"], 0, ONE, 6)])
    assert holds.accepts(fleet, single, Found(score=(), picks=(), damage=(0, 1, 1)))


def test_the_node_that_frees_soonest_counts_gpus_that_are_cut() -> None:
    """Two of a's GPUs are cut, one of b's is taken."""
    fleet = mig_fleet({"a": 8, "b": 8})
    hold(fleet, "a", [position(fleet.nodes["a"], gpu, ONE, 6) for gpu in (0, 1)])
    hold(fleet, "b", [position(fleet.nodes["b"], 0)])
    assert choose_soonest(fleet, problem(ask(whole(count=8)), classes=CLASSES), 8) == "b"


def test_a_pool_with_a_counter_below_zero_is_left_out() -> None:
    spec = ResourceSliceSpec(
        driver=DRIVER,
        node_name="a",
        pool=ResourcePool(name="p", generation=1, resource_slice_count=1),
        shared_counters=(CounterSet(name="gpu-0", counters={"slots": Counter(value="-1")}),),
    )
    _, left_out = gather_pools([ResourceSlice(spec=spec)])
    assert left_out[0].reason == "invalid: a counter of -1, which is below zero"
