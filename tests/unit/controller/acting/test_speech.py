"""What people are told, about what, and how often."""

from __future__ import annotations

import pytest

from driver.controller.acting.speech import QUIET_S, Speech
from driver.controller.books.demands import Demand
from driver.controller.deciding.decision import LeaveAlone
from driver.controller.objects.model import Claim, Meta, Pod, PodMeta
from tests.unit.controller.desk import Recorder


def demand(key: str = "key", *, pods: int = 1, claims: int = 1) -> Demand:
    return Demand(
        key=key,
        pods=tuple(Pod(metadata=PodMeta(name=f"pod-{number}", namespace="team", uid=f"p{number}")) for number in range(pods)),
        claims=tuple(Claim(metadata=Meta(name=f"claim-{n}", namespace="team", uid=f"c{n}")) for n in range(claims)),
        node=None,
        priority=0,
        since_s=0.0,
    )


@pytest.fixture
def told() -> Recorder:
    return Recorder()


@pytest.fixture
def speech(told: Recorder) -> Speech:
    return Speech(told)


def test_what_waits_is_told_on_pod_and_claim(told: Recorder, speech: Speech) -> None:
    speech.say_waits(demand(), "need 4", 0.0)
    assert told.told == [("Pod pod-0", "ClaimWaiting", "need 4"), ("ResourceClaim claim-0", "ClaimWaiting", "need 4")]


def test_the_same_is_not_said_again_and_looked_at_once_a_minute(told: Recorder, speech: Speech) -> None:
    one = demand()
    assert speech.is_due(one, 0.0)
    speech.say_waits(one, "need 4", 0.0)
    assert not speech.is_due(one, QUIET_S - 1)
    assert speech.is_due(one, QUIET_S)
    speech.say_waits(one, "need 4", QUIET_S)
    assert len(told.told) == 2
    assert not speech.is_due(one, QUIET_S + 1)
    speech.say_waits(one, "need 4; largest free set is 3", 2 * QUIET_S)
    assert len(told.told) == 4


def test_what_was_placed_may_wait_anew(told: Recorder, speech: Speech) -> None:
    one = demand()
    speech.say_waits(one, "need 4", 0.0)
    speech.say_placed(one, "node-a", [["gpu-1"]])
    assert speech.is_due(one, 1.0)
    speech.say_waits(one, "need 4", 1.0)
    assert told.notes("Pod pod-0", "ClaimWaiting") == ["need 4", "need 4"]


def test_the_pod_is_told_where_all_of_its_devices_are(told: Recorder, speech: Speech) -> None:
    """A claim has it in its status: an event more for each would be a request more."""
    speech.say_placed(demand(claims=2), "node-a", [["gpu-2", "gpu-1"], ["gpu-0"]])
    assert told.told == [("Pod pod-0", "ClaimPlaced", "3 devices on node node-a: gpu-0, gpu-1, gpu-2")]


@pytest.mark.parametrize("is_fault", [True, False])
def test_only_what_somebody_must_mend_is_an_event(told: Recorder, speech: Speech, is_fault: bool) -> None:
    speech.say_left_alone(LeaveAlone(demand=demand(), reason="no such class", is_fault=is_fault))
    assert len(told.told) == (2 if is_fault else 0)


def test_a_claim_of_hundreds_of_pods_is_not_told_to_all(told: Recorder, speech: Speech) -> None:
    speech.say_waits(demand(pods=300), "need 4", 0.0)
    assert len(told.told) == 20


def test_what_is_no_more_is_forgotten(speech: Speech) -> None:
    speech.say_waits(demand("gone"), "need 4", 0.0)
    speech.say_waits(demand("there"), "need 4", 0.0)
    speech.keep_only(frozenset({"there"}))
    assert speech.is_due(demand("gone"), 1.0)
    assert not speech.is_due(demand("there"), 1.0)


def test_a_take_back_is_told_to_claim_and_pods(told: Recorder, speech: Speech) -> None:
    one = demand()
    speech.say_taken_back(one.claims[0], one.pods, "its pod was not bound")
    assert [what for what, reason, _ in told.told if reason == "ClaimTakenBack"] == ["Pod pod-0", "ResourceClaim claim-0"]
