"""One leader among the others of a cluster: what it does about everything that may happen, second by second."""

from __future__ import annotations

from typing import Any

import pytest

from driver.controller.objects.model import Claim
from tests.unit.controller.desk import Desk, plain_settings
from tests.unit.controller.memory_claim_api import Trouble, refusal, unreachable
from tests.unit.controller.world import NAMESPACE

SINCE = "2027-01-15T08:00:00Z"


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.add_node("node-a")
    made.add_node("node-b")
    return made


def drain(desk: Desk, node: str) -> None:
    """The node wants to leave the controller."""

    def edit(now: dict[str, Any]) -> dict[str, Any]:
        taint = {"key": "gpu.nvidia.com/allocator", "value": "draining", "effect": "NoSchedule", "timeAdded": SINCE}
        devices = [each | {"taints": [taint]} for each in now["spec"]["devices"]]
        return now | {"spec": now["spec"] | {"devices": devices}}

    desk.objects.edit("resourceslices", f"00000-{node}", edit)


def test_a_pod_gets_its_devices_and_is_bound(desk: Desk) -> None:
    desk.add_job("pod", 4)
    desk.run()
    assert desk.bound() == {"pod": "node-a"}
    assert desk.reserved("pod") == ["pod"]
    assert desk.claim("pod")["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert desk.claim("pod")["status"]["allocation"]["allocationTimestamp"] == "2027-01-15T08:16:40Z"
    assert desk.api.writes == ["mark", "allocate"]
    assert desk.recorder.notes("Pod pod", "ClaimPlaced") == ["4 devices on node node-a: gpu-0, gpu-1, gpu-2, gpu-3"]


def test_nothing_is_decided_before_everything_was_listed(desk: Desk) -> None:
    desk.add_job("pod", 4)
    desk.decide()
    assert desk.loop.describe().startswith("lists deviceclasses, devicetaintrules")
    desk.run()
    assert desk.loop.describe() == "decides"


def test_claims_of_one_pod_are_guarded_until_the_last_is_written(desk: Desk) -> None:
    """R6: kube-scheduler would take the first one back where an unfenced node could serve the second."""
    desk.add_claim("first", 2)
    desk.add_claim("second", 3)
    desk.add_pod("pod", "first", "second")
    taken_back = []

    def try_to_take_back(what: str, claim: Claim) -> None:
        if claim.metadata.name == "second" and what in {"mark", "allocate"}:
            taken_back.append(desk.life.take_back("first"))

    desk.api.on_write = try_to_take_back
    desk.run()
    assert taken_back == [False, False]
    assert desk.bound() == {"pod": desk.node("first")}
    assert (desk.reserved("first"), desk.reserved("second")) == (["pod"], ["pod"])


def test_pods_that_share_a_claim_are_reserved_together(desk: Desk) -> None:
    desk.add_claim("shared", 2)
    desk.add_pod("one", "shared")
    desk.add_pod("two", "shared")
    desk.run(schedules=False)
    assert sorted(desk.reserved("shared")) == ["one", "two"]


def test_what_another_allocated_is_respected(desk: Desk) -> None:
    desk.add_job("pod", 4)

    def allocate_too(what: str, claim: Claim) -> None:
        if what == "allocate":
            desk.api.on_write = lambda what, claim: None
            desk.allocate("pod", "node-b", "gpu-7")

    desk.api.on_write = allocate_too
    desk.run()
    assert desk.devices("pod") == ["node-b/gpu-7"]
    assert desk.bound() == {"pod": "node-b"}
    assert not desk.claim("pod")["metadata"].get("annotations"), "it does not look like ours"
    assert desk.claim("pod")["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    desk.advance(300)
    assert desk.devices("pod") == ["node-b/gpu-7"]


TROUBLES = {
    "a conflict": refusal(409, "Conflict"),
    "too many requests": refusal(429, "TooManyRequests"),
    "a server error": refusal(500, "InternalError"),
    "no answer": unreachable,
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", TROUBLES.values(), ids=TROUBLES.keys())
@pytest.mark.parametrize("number", [1, 2], ids=["mark", "allocate"])
def test_a_write_in_trouble_is_made_good(desk: Desk, number: int, what: Any, when: str) -> None:
    desk.add_job("pod", 4)
    desk.api.troubles = [Trouble(number, when, what)]
    desk.run()
    assert desk.bound() == {"pod": "node-a"}
    assert len(desk.devices("pod")) == 4


def test_a_write_of_which_nobody_knows_keeps_its_devices(desk: Desk) -> None:
    """The server may be about to store it; then it is found out, and stays out for ever."""
    desk.add_job("pod", 8)
    broken = {"is": True}

    def fail(what: str, claim: Claim) -> None:
        if broken["is"] and what != "mark":
            raise unreachable()

    desk.api.on_write = fail
    desk.api.read_claim = _refuse_reads(desk, broken)  # type: ignore[method-assign]
    desk.run()
    assert desk.loop.cluster.claim_book.reserved, "the devices are kept"
    desk.add_job("other", 8)
    desk.add_job("third", 8)
    desk.run()
    broken["is"] = False
    desk.advance(60)
    assert len(desk.bound()) == 2
    assert desk.doubles() == []


def _refuse_reads(desk: Desk, broken: dict[str, bool]) -> Any:
    read = desk.api.read_claim

    def refuse(claim: Claim) -> Claim:
        if broken["is"]:
            raise unreachable()
        return read(claim)

    return refuse


def test_what_the_server_refuses_is_told_and_tried_less_and_less_often(desk: Desk) -> None:
    desk.add_job("pod", 4)

    def refuse(what: str, claim: Claim) -> None:
        raise refusal(422, "Invalid")()

    desk.api.on_write = refuse
    desk.advance(120)
    assert 3 <= desk.api.writes.count("mark") <= 5
    assert desk.recorder.notes("ResourceClaim pod", "ClaimNotWritten")[0].startswith("TEST: 422 Invalid")


def test_without_the_lease_nothing_is_written(desk: Desk) -> None:
    desk.add_job("pod", 4)
    desk.may_write = False
    desk.run()
    assert desk.api.writes == []
    desk.may_write = True
    desk.advance(10)
    assert desk.bound() == {"pod": "node-a"}


def test_what_waits_is_told_in_numbers_on_pod_and_claim_when_they_change(desk: Desk) -> None:
    desk.add_job("large", 8)
    desk.add_job("filler", 5)
    desk.run()
    desk.add_job("pod", 8)
    desk.advance(130)
    notes = desk.recorder.notes("Pod pod", "ClaimWaiting")
    assert len(notes) == 1
    assert "need 8" in notes[0]
    assert desk.recorder.notes("ResourceClaim pod", "ClaimWaiting") == notes
    desk.add_job("another", 1)
    desk.advance(130)
    assert len(desk.recorder.notes("Pod pod", "ClaimWaiting")) == 2
    desk.delete_pod("filler")
    desk.delete_pod("another")
    desk.advance(10)
    assert "pod" in desk.bound()


def test_what_nobody_can_serve_is_a_warning_and_others_go_on(desk: Desk) -> None:
    desk.add_claim("broken", selectors=[{"cel": {"expression": "device.driver =="}}])
    desk.add_pod("broken", "broken")
    desk.add_claim("missing")
    desk.objects.delete("resourceclaims", "missing", namespace=NAMESPACE)
    body = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "no-such-class"}}]}}
    desk.objects.create("resourceclaims", {"metadata": {"name": "missing", "namespace": NAMESPACE}, "spec": body})
    desk.add_pod("missing", "missing")
    desk.add_job("pod", 1)
    desk.run()
    assert desk.bound() == {"pod": "node-a"}
    assert desk.recorder.notes("Pod broken", "ClaimLeftAlone")
    assert "no-such-class" in desk.recorder.notes("Pod missing", "ClaimLeftAlone")[0]


def test_no_more_is_decided_than_may_be_under_way() -> None:
    desk = Desk(plain_settings(max_in_flight=3))
    desk.add_node("node-a")
    for number in range(8):
        desk.add_job(f"pod-{number}")
    desk.tell()
    desk.decide()
    assert len(desk.jobs) == 3
    desk.run()
    assert len(desk.bound()) == 8


def test_when_all_that_may_be_is_under_way_the_next_round_is_once_half_of_it_is_written() -> None:
    desk = Desk(plain_settings(max_in_flight=4))
    desk.add_node("node-a")
    for number in range(8):
        desk.add_job(f"pod-{number}")
    desk.tell()
    desk.decide()
    rounds = []
    while desk.jobs:
        desk.loop.put(desk.writer.run(desk.jobs.pop(0)))
        desk.decide()
        rounds.append(len(desk.jobs))
    assert rounds == [3, 4, 3, 4, 3, 2, 1, 0]


def test_nobody_is_told_why_he_waits_who_was_not_looked_at_yet() -> None:
    desk = Desk(plain_settings(max_in_flight=1))
    desk.add_node("node-a", 2)
    for number in range(3):
        desk.add_job(f"pod-{number}")
    desk.tell()
    desk.decide()
    assert [reason for _, reason, _ in desk.recorder.told] == []
    desk.advance(2)
    (left,) = {f"pod-{number}" for number in range(3)} - desk.bound().keys()
    told = [about for about, reason, _ in desk.recorder.told if reason == "ClaimWaiting"]
    assert told == [f"Pod {left}", f"ResourceClaim {left}"]


def test_a_node_that_drains_is_let_go_when_nothing_is_under_way(desk: Desk) -> None:
    desk.add_job("pod", 1)
    desk.run()

    drain(desk, "node-b")
    desk.advance(3)
    assert desk.acknowledged == []
    desk.advance(15)
    assert {(each.node, each.time_added) for each in desk.acknowledged} == {("node-b", SINCE)}


def test_a_node_that_may_not_be_told_is_tried_ever_more_seldom(desk: Desk) -> None:
    """The right to write nodes is missing, and may come."""
    drain(desk, "node-b")
    desk.refuse_acknowledgement = refusal(403, "Forbidden")
    desk.advance(12)
    tried = len(desk.acknowledged)
    assert tried
    desk.advance(120)
    assert len(desk.acknowledged) - tried <= 7
    desk.refuse_acknowledgement = None
    before = len(desk.acknowledged)
    desk.advance(70)
    assert len(desk.acknowledged) > before
