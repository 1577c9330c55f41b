"""A leader is killed around each of its writes; the next one finishes or undoes. No device is given twice, nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.unit.controller.desk import Crash, Desk
from tests.unit.controller.memory_claim_api import Trouble

Play: TypeAlias = Callable[[Desk], None]


def one_claim(desk: Desk) -> None:
    desk.add_job("pod", 4)


def two_claims(desk: Desk) -> None:
    desk.add_claim("first", 2)
    desk.add_claim("second", 3)
    desk.add_pod("pod", "first", "second")


def a_shared_claim(desk: Desk) -> None:
    desk.add_claim("shared", 2)
    desk.add_claim("own", 1)
    desk.add_pod("pod", "shared", "own")
    desk.add_pod("other", "shared")


def run_until_crash(desk: Desk, number: int, when: str) -> bool:
    """Whether the leader came so far."""
    desk.api.troubles.append(Trouble(number, when, Crash))
    try:
        desk.advance(3)
    except Crash:
        return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("play", [one_claim, two_claims, a_shared_claim], ids=lambda play: play.__name__)
def test_killed_around_each_write_of_a_placement(play: Play, when: str) -> None:
    met = 0
    for number in range(1, 20):
        desk = Desk()
        desk.add_node("node-a")
        desk.add_node("node-b")
        play(desk)
        if not run_until_crash(desk, number, when):
            break
        met += 1
        desk.begin()
        desk.advance(3)
        pods = [each["metadata"]["name"] for each in desk.objects.objects("pods")]
        assert sorted(desk.bound()) == sorted(pods), f"killed {when} write {number}"
        claims = [each["metadata"]["name"] for each in desk.objects.objects("resourceclaims")]
        assert all("guard" not in desk.reserved(each) for each in claims)
        for pod in pods:
            desk.delete_pod(pod)
        desk.advance(30)
        assert all(desk.is_clean(each) for each in claims), f"killed {when} write {number}"
        assert desk.doubles() == []
    assert met >= (2 if play is one_claim else 6)


def unbound(desk: Desk) -> None:
    """A pod that kube-scheduler never binds."""
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_job("pod", 8)
    desk.advance(50)
    assert desk.devices("pod")


def gone(desk: Desk) -> None:
    """A named claim whose pod went, and nobody who frees it."""
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_job("pod", 8)
    desk.advance(5)
    desk.delete_pod("pod")


def half(desk: Desk) -> None:
    """A guard on a claim whose pod's other claim fits nowhere: the leader died between the two."""
    desk.add_claim("first", 2)
    desk.add_claim("second", 8)
    desk.add_pod("other-pod", "first", "second")
    desk.allocate("first", "node-a", "gpu-0", "gpu-1")
    desk.mark_ours("first", is_guarded=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("play", [unbound, gone, half], ids=lambda play: play.__name__)
def test_killed_around_each_write_of_a_take_back(play: Play, when: str) -> None:
    met = 0
    for number in range(1, 20):
        desk = Desk()
        desk.add_node("node-a")
        desk.add_node("node-b")
        play(desk)
        desk.begin()
        desk.api.troubles.append(Trouble(number, when, Crash))
        try:
            desk.advance(70, collects=False)
        except Crash:
            met += 1
        else:
            break
        desk.begin()
        desk.life.refuses.clear()
        desk.advance(90)
        pods = [each["metadata"]["name"] for each in desk.objects.objects("pods")]
        fits = [each for each in pods if each != "other-pod"]
        assert sorted(desk.bound()) == fits, f"killed {when} write {number}"
        for pod in pods:
            desk.delete_pod(pod)
        desk.advance(30)
        claims = [each["metadata"]["name"] for each in desk.objects.objects("resourceclaims")]
        assert all(desk.is_clean(each) for each in claims), f"killed {when} write {number}"
        assert desk.doubles() == []
    assert met >= (2 if play in (gone, half) else 3)
