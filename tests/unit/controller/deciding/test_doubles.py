"""A device in two claims is found at once, and the right one gives it back."""

from __future__ import annotations

import random

import msgspec
import pytest

from driver.allocator.device_node import DeviceId
from driver.api.resource_v1 import AllocationResult
from driver.controller.deciding.doubles import Double, DoubleWatch, choose_loser
from driver.controller.objects.model import Claim, Consumer
from driver.controller.objects.ownership import digest_allocation
from tests.unit.controller.deciding.test_takeback import pod, pods
from tests.unit.controller.objects.test_ownership import ONE, SHARED, TWO, claim
from tests.unit.controller.writing.test_claim_steps import GROUP, GUARD, OTHER, POD

DEVICE = DeviceId("gpu.nvidia.com", "node-a", "gpu-0")
WHOLE = ONE
OTHER_SHARE = msgspec.structs.replace(SHARED, share_id="77aa")
ADMIN = msgspec.structs.replace(ONE, admin_access=True)
FOREIGN = msgspec.structs.replace(ONE, driver="nic.example.com")


def with_uid(uid: str, *results: AllocationResult, stamp: str = "", reserved: tuple[Consumer, ...] = ()) -> Claim:
    made = claim(*results, mark=digest_allocation(results), reserved=reserved)
    status = made.status
    if status.allocation is not None and stamp:
        allocation = msgspec.structs.replace(status.allocation, allocation_timestamp=stamp)
        status = msgspec.structs.replace(status, allocation=allocation)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid, name=uid), status=status)


PAIRS = {
    "the same device": (ONE, ONE, True),
    "two devices": (ONE, TWO, False),
    "the same share": (SHARED, SHARED, True),
    "two shares": (SHARED, OTHER_SHARE, False),
    "a share and all of it": (SHARED, WHOLE, True),
    "all of it and a share": (WHOLE, SHARED, True),
    "admin access beside a claim": (ONE, ADMIN, False),
    "another driver's device": (FOREIGN, FOREIGN, False),
}


@pytest.mark.parametrize(("first", "second", "is_double"), PAIRS.values(), ids=PAIRS.keys())
def test_what_is_a_double(first: AllocationResult, second: AllocationResult, is_double: bool) -> None:
    watch = DoubleWatch("gpu.nvidia.com")
    watch.note(with_uid("a", first))
    watch.note(with_uid("b", second))
    assert watch.doubles() == ((Double(device=DEVICE, uids=("a", "b")),) if is_double else ())


@pytest.mark.parametrize("how", ["freed", "gone", "moved"])
def test_a_double_ends_when_one_gives_the_device_back(how: str) -> None:
    watch = DoubleWatch("gpu.nvidia.com")
    watch.note(with_uid("a", ONE))
    watch.note(with_uid("b", ONE))
    if how == "gone":
        watch.forget("b")
    else:
        watch.note(with_uid("b", *((TWO,) if how == "moved" else ())))
    assert watch.doubles() == ()


def test_the_same_claim_again_is_no_double() -> None:
    watch = DoubleWatch("gpu.nvidia.com")
    for _ in range(3):
        watch.note(with_uid("a", ONE, TWO))
    assert watch.doubles() == ()


def test_any_row_of_changes_finds_what_a_look_at_all_claims_finds() -> None:
    rng = random.Random(7)
    results = [msgspec.structs.replace(ONE, device=f"gpu-{number}") for number in range(4)]
    watch, claims = DoubleWatch("gpu.nvidia.com"), {}
    for _ in range(500):
        uid = rng.choice("abcde")
        claims[uid] = with_uid(uid, *rng.sample(results, rng.randrange(3)))
        watch.note(claims[uid])
        holders: dict[str, list[str]] = {}
        for name, item in sorted(claims.items()):
            for each in item.status.allocation.devices.results if item.status.allocation is not None else ():
                holders.setdefault(each.device, []).append(name)
        expected = {(device, tuple(names)) for device, names in holders.items() if len(names) > 1}
        assert {(each.device.device, each.uids) for each in watch.doubles()} == expected


EARLY, LATE = "2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z"
UNBOUND, BOUND = pods(pod=pod(), other=pod()), pods(pod=pod("node-a"), other=pod())


def test_the_younger_one_gives_it_back() -> None:
    old, young = with_uid("a", ONE, stamp=EARLY, reserved=(POD,)), with_uid("b", ONE, stamp=LATE, reserved=(OTHER,))
    assert choose_loser([young, old], UNBOUND) is young


def test_one_that_is_in_use_never_gives_it_back() -> None:
    old, young = with_uid("a", ONE, stamp=EARLY, reserved=(OTHER,)), with_uid("b", ONE, stamp=LATE, reserved=(POD,))
    assert choose_loser([young, old], BOUND) is old


def test_one_that_somebody_else_allocated_never_gives_it_back() -> None:
    young = claim(ONE, reserved=(OTHER,))
    assert choose_loser([young], UNBOUND) is None


@pytest.mark.parametrize(("keeper", "is_kept"), [(POD, True), (GROUP, True), (GUARD, False)], ids=["pod", "group", "guard"])
def test_what_keeps_a_claim_in_a_double(keeper: Consumer, is_kept: bool) -> None:
    item = with_uid("a", ONE, reserved=(keeper,))
    assert choose_loser([item], BOUND) is (None if is_kept else item)
