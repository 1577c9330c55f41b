"""The fence on devices: put up, and read back."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import Attribute, Device, Taint
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.fence import (
    FenceStanding,
    find_allocators,
    is_fenced_as,
    judge_fence,
    read_fence_times,
    stamp_fence,
)

S, D, C = Allocator.SCHEDULER, Allocator.DRAINING, Allocator.CONTROLLER
SINCE, LATER = "2026-12-02T01:00:00Z", "2026-12-02T02:00:00Z"
LOST = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule", time_added=LATER)


def fence(value: str, since: str | None = SINCE, effect: str = "NoSchedule") -> Taint:
    return Taint(key="gpu.nvidia.com/allocator", value=value, effect=effect, time_added=since)


def device(*taints: Taint, said: str = "") -> Device:
    return Device(name="a", taints=taints, attributes={"allocator": Attribute(string=said)} if said else {})


def test_the_moment_is_put_on_the_fence_alone() -> None:
    bare, fenced = device(LOST), device(fence("controller", None), LOST)
    assert stamp_fence([bare, fenced], SINCE) == (bare, device(fence("controller"), LOST))
    assert stamp_fence([fenced], "") == (fenced,)


@pytest.mark.parametrize(
    ("devices", "standing"),
    [
        pytest.param([], FenceStanding.UP, id="no device"),
        pytest.param([device(fence("draining")), device(fence("draining"), LOST)], FenceStanding.UP, id="all of them"),
        pytest.param([device(fence("draining")), device()], FenceStanding.OPEN, id="one has none"),
        pytest.param([device(fence("controller")), device(LOST)], FenceStanding.OPEN, id="another taint is no fence"),
        pytest.param([device(fence("draining", effect="None"))], FenceStanding.OPEN, id="one that keeps nobody out"),
        pytest.param([device(fence("draining")), device(fence("controller"))], FenceStanding.OTHER, id="of another state"),
        pytest.param([device(fence("draining", LATER))], FenceStanding.OTHER, id="of another drain"),
    ],
)
def test_how_devices_stand_to_the_fence(devices: list[Device], standing: FenceStanding) -> None:
    assert judge_fence(devices, D, SINCE) is standing


def test_an_unknown_moment_is_any() -> None:
    assert judge_fence([device(fence("controller", LATER)), device(fence("controller"))], C, "") is FenceStanding.UP


def test_whether_devices_say_what_is_to_be_published() -> None:
    assert is_fenced_as([device(), device(LOST)], S, "")
    assert not is_fenced_as([device(), device(fence("draining"))], S, "")
    assert is_fenced_as([device(fence("draining"))], D, SINCE)
    assert not is_fenced_as([device(fence("draining"))], D, LATER)


@pytest.mark.parametrize(
    ("published", "remembered", "said"),
    [
        pytest.param([], [], set(), id="nothing was ever there"),
        pytest.param([device(said="scheduler")], [device(said="scheduler")], {S}, id="kube-scheduler's"),
        pytest.param([device(fence("controller"), said="controller")], [device(said="controller")], {C}, id="the controller's"),
        pytest.param([device(said="controller")], [], {S}, id="a dropped taint counts more than what the attribute says"),
        pytest.param([], [device(said="controller")], {C}, id="slices that the kubelet wiped"),
        pytest.param([device(fence("draining"))], [device(said="controller")], {D, C}, id="cut off in between"),
        pytest.param([device(fence("none"))], [device(said="?")], {D}, id="words that nobody knows"),
    ],
)
def test_who_may_have_allocated(published: list[Device], remembered: list[Device], said: set[Allocator]) -> None:
    assert find_allocators(published, remembered) == said


def test_the_fences_moments_are_read() -> None:
    devices = [device(fence("draining")), device(fence("draining", LATER)), device(LOST), device(fence("draining", None))]
    assert read_fence_times(devices) == {SINCE, LATER}
