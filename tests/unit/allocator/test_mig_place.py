"""Where partitions go: where they cost larger requests least; whole GPUs and parts of others on one node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from driver.allocator.decide import place
from driver.allocator.fleet import Fleet
from driver.api.resource_v1 import Attribute, Device
from hack.bench.mig_pools import build_mig_pool
from tests.unit.allocator.cases import ask, chosen, device_class, hold, placed, policy, positions, problem, request
from tests.unit.allocator.mig import (
    CLASSES,
    FOUR,
    ONE,
    ONE_DOUBLE,
    SEVEN,
    THREE,
    TWO,
    AttributeEngine,
    mig_fleet,
    part,
    position,
    whole,
)


def take(fleet: Fleet, gpu: int, profile: str | None = None, start: int | None = None, node: str = "a") -> None:
    """Somebody has the partition, or the whole GPU."""
    hold(fleet, node, [position(fleet.nodes[node], gpu, profile, start)])


def names(fleet: Fleet, *requests: dict[str, Any], **devices: Any) -> list[str]:
    """What one claim gets, all requests in a row."""
    placement = placed(fleet, ask(*requests, **devices), classes=CLASSES)
    return [name for each in chosen(fleet, placement) for name in each]


def where(name: str) -> tuple[int, int]:
    """GPU and start."""
    match = re.fullmatch(r"gpu-(\d+)-mig-.*-(\d+)", name)
    assert match is not None, name
    return int(match[1]), int(match[2])


def serve(fleet: Fleet, profiles: Sequence[str]) -> list[tuple[str, int, int]]:
    """Claims one after the other: profile, GPU and start of each."""
    served = []
    for profile in profiles:
        placement = placed(fleet, ask(part(profile)), classes=CLASSES)
        hold(fleet, placement.node, positions(placement)[0])
        served.append((profile, *where(chosen(fleet, placement)[0][0])))
    return served


@pytest.mark.parametrize(
    ("profile", "start"),
    [(ONE, 6), (ONE_DOUBLE, 6), (TWO, 4), (THREE, 4), (FOUR, 0), (SEVEN, 0)],
)
def test_on_an_empty_gpu_each_profile_leaves_the_most(profile: str, start: int) -> None:
    """The upper end first, which is of use to fewer: four compute slices fit at the lower end alone."""
    assert where(names(mig_fleet({"a": 1}), part(profile))[0]) == (0, start)


def test_a_part_goes_to_a_gpu_that_is_cut() -> None:
    fleet = mig_fleet({"a": 8})
    take(fleet, 5, THREE, 4)
    assert {gpu for _, gpu, _ in serve(fleet, [ONE, TWO, ONE])} == {5}


def test_a_part_goes_to_the_node_where_a_gpu_is_cut_and_not_to_the_fuller_one() -> None:
    """Cutting a GPU costs more than an emptier node."""
    fleet = mig_fleet({"a": 8, "b": 8})
    for gpu in range(5):
        take(fleet, gpu)
    take(fleet, 3, TWO, 0, node="b")
    placement = placed(fleet, ask(part(ONE)), classes=CLASSES)
    assert placement.node == "b"
    assert where(chosen(fleet, placement)[0][0])[0] == 3


def test_where_one_must_be_cut_it_is_one_whose_peers_are_gone() -> None:
    """No eight and no four is broken where that can be helped."""
    fleet = mig_fleet({"a": 8, "b": 8})
    for gpu in range(7):
        take(fleet, gpu, node="b")
    assert placed(fleet, ask(part(THREE)), classes=CLASSES).node == "b"


def test_whole_gpus_and_parts_share_a_node() -> None:
    """A claim for whole GPUs never gets one that is cut, and parts never come from one that is taken."""
    fleet = mig_fleet({"a": 8})
    take(fleet, 0, ONE, 6)
    take(fleet, 1)
    assert names(fleet, whole(count=6)) == [f"gpu-{gpu}" for gpu in range(2, 8)]
    assert place(fleet, problem(ask(whole(count=7)), classes=CLASSES)) is None
    for gpu in range(2, 8):
        take(fleet, gpu)
    assert {where(name)[0] for name in names(fleet, part(ONE, count=6))} == {0}
    assert place(fleet, problem(ask(part(ONE, count=7)), classes=CLASSES)) is None


def test_whole_gpus_and_parts_in_one_claim() -> None:
    """The part is cut from a GPU that the whole ones leave."""
    fleet = mig_fleet({"a": 4})
    found = names(fleet, part(TWO), whole(count=3))
    assert where(found[0])[0] not in {int(name.removeprefix("gpu-")) for name in found[1:]}
    assert place(fleet, problem(ask(part(TWO), whole(count=4)), classes=CLASSES)) is None


def test_seven_small_ones_fill_one_gpu() -> None:
    """One claim or seven: dra-driver #932 had them on seven GPUs."""
    assert len({where(name)[0] for name in names(mig_fleet({"a": 8}), part(ONE, count=7))}) == 1
    assert len({gpu for _, gpu, _ in serve(mig_fleet({"a": 8}), [ONE] * 7)}) == 1


@pytest.mark.parametrize(
    "profiles",
    [
        [ONE] * 3 + [TWO, TWO],
        [THREE, FOUR],
        [ONE] * 4,
        [ONE, ONE, ONE, TWO],
        [TWO, TWO, TWO, ONE],
        [THREE, THREE],
    ],
    ids=" ".join,
)
def test_what_fits_on_one_gpu_is_put_there_in_any_case(profiles: list[str]) -> None:
    """One after the other, small ones first, without looking ahead."""
    fleet = mig_fleet({"a": 2})
    assert {gpu for _, gpu, _ in serve(fleet, profiles)} == {0}


def test_one_claim_for_a_layout_has_it_whatever_the_order_of_its_requests() -> None:
    """3g must not lie where 4g has to, and four of 1g must not lie at the upper end if 3g comes too."""
    found = names(mig_fleet({"a": 1}), part(THREE, "three"), part(FOUR, "four"))
    assert sorted(where(name)[1] for name in found) == [0, 4]
    found = names(mig_fleet({"a": 1}), part(ONE, "ones", count=4), part(THREE, "three"))
    assert sorted(where(name)[1] for name in found) == [0, 1, 2, 3, 4]


def test_parts_of_one_gpu_by_parent() -> None:
    """``matchAttribute`` on ``parentUUID``: the GPU that is cut has no room for both, so another is cut."""
    fleet = mig_fleet({"a": 4})
    take(fleet, 2, FOUR, 0)
    constraint = [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    found = [where(name) for name in names(fleet, part(THREE, count=2), constraints=constraint)]
    assert len({gpu for gpu, _ in found}) == 1
    assert found[0][0] != 2


def test_parts_of_different_gpus_by_parent() -> None:
    constraint = [{"distinctAttribute": "gpu.nvidia.com/parentUUID"}]
    found = [where(name)[0] for name in names(mig_fleet({"a": 4}), part(ONE, count=4), constraints=constraint)]
    assert sorted(found) == [0, 1, 2, 3]
    assert place(mig_fleet({"a": 3}), problem(ask(part(ONE, count=4), constraints=constraint), classes=CLASSES)) is None


def test_who_does_not_say_which_gets_a_part() -> None:
    """A whole GPU is not given away where a seventh would do."""
    fleet = mig_fleet({"a": 2})
    placement = placed(fleet, ask(request()), classes={"gpu": device_class()})
    assert "-mig-" in chosen(fleet, placement)[0][0]


def test_required_links_are_for_whole_gpus() -> None:
    """Two parts have no ring."""
    asked = ask(part(ONE, count=2), config=[policy(scope="nvlink", mode="required")])
    assert place(mig_fleet({"a": 2}), problem(asked, classes=CLASSES)) is None


@pytest.mark.parametrize(
    ("table", "profile", "fit"),
    [("a30", "1g.6gb", 4), ("rtx-pro-6000", "1g.24gb", 4), ("a100-40gb", "1g.5gb", 7), ("b200", "1g.22gb", 7)],
)
def test_other_boards_fill_up_and_no_more(table: str, profile: str, fit: int) -> None:
    fleet = mig_fleet({"a": 2}, table)
    assert Counter(where(name)[0] for name in names(fleet, part(profile, count=fit))) == {0: fit}
    assert len(names(fleet, part(profile, count=2 * fit))) == 2 * fit
    assert place(fleet, problem(ask(part(profile, count=2 * fit + 1)), classes=CLASSES)) is None


def test_equal_nodes_are_one_bucket_whatever_their_devices_are_called() -> None:
    """Two nodes of eight GPUs with 208 devices each; then one of them has a partition less."""
    fleet = mig_fleet({"a": 8, "b": 8})
    asked = problem(ask(part(ONE)), classes=CLASSES)
    assert len(list(fleet.view(asked).index.buckets())) == 1
    take(fleet, 0, ONE, 6)
    assert len(list(fleet.view(asked).index.buckets())) == 2
    take(fleet, 0, ONE, 6, node="b")
    assert len(list(fleet.view(asked).index.buckets())) == 1


def test_more_than_is_there_is_taken() -> None:
    """A GPU of whose counters too much is taken gives nothing more; the others do."""
    fleet = mig_fleet({"a": 2})
    take(fleet, 0, THREE, 0)
    take(fleet, 0, FOUR, 0)
    assert {where(name)[0] for name in names(fleet, part(ONE, count=7))} == {1}
    assert place(fleet, problem(ask(part(ONE, count=8)), classes=CLASSES)) is None


def test_a_node_of_both_kinds_gives_out_both() -> None:
    """GPUs that claims divide, and GPUs of which nothing is known, in two pools of a node."""
    fleet = Fleet(AttributeEngine())
    divided = build_mig_pool("divided", "h100-80gb", 2)
    bare = tuple(Device(name=f"bare-{number}", attributes={"type": Attribute(string="gpu")}) for number in range(2))
    fleet.set_node("a", [divided, replace(divided, name="bare", devices=bare, counter_sets=())])
    assert len(names(fleet, whole(count=4))) == 4
    assert where(names(fleet, part(TWO))[0])[1] == 4
    assert names(fleet, whole()) == ["bare-0"]
