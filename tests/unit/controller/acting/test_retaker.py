"""What is taken back, settled and left: one leader among the others of a cluster, second by second."""

from __future__ import annotations

import pytest

from driver.controller.objects.model import Claim
from tests.unit.controller.desk import Desk
from tests.unit.controller.memory_claim_api import Trouble, refusal
from tests.unit.controller.world import NAMESPACE


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.add_node("node-a")
    made.add_node("node-b")
    return made


def test_an_allocation_of_anothers_is_never_taken_back(desk: Desk) -> None:
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_job("pod", 1)
    desk.allocate("pod", "node-b", "gpu-7")
    desk.advance(600)
    assert desk.devices("pod") == ["node-b/gpu-7"]
    assert desk.api.writes == []


def test_a_pod_that_is_not_bound_is_placed_otherwise(desk: Desk) -> None:
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 4)
    desk.run()
    assert desk.node("pod") == "node-a"
    desk.advance(59)
    assert desk.node("pod") == "node-a", "it has a minute"
    desk.advance(10)
    assert desk.bound() == {"pod": "node-b"}
    assert desk.recorder.notes("Pod pod", "ClaimTakenBack") == ["taken back from node node-a: its pod was not bound"]


def test_an_allocation_counts_as_idle_anew_when_its_pod_was_bound_meanwhile(desk: Desk) -> None:
    """The pod that shares the claim was bound for half a minute: what came before does not count."""
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_job("pod", 1)
    desk.advance(40)
    node = desk.node("pod")
    desk.life.refuses = set()
    desk.run()
    assert desk.bound() == {"pod": node}
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_pod("second", "pod")
    desk.advance(5, collects=False)
    desk.delete_pod("pod")
    desk.advance(30)
    assert desk.node("pod") == node, "the second pod has its minute"


def test_nothing_goes_to_and_fro(desk: Desk) -> None:
    """No node will have it: each try is kept for longer than the one before, and so is each node left out."""
    desk.life.refuses = {"node-a", "node-b"}
    desk.add_job("pod", 8)
    desk.advance(1800)
    assert desk.api.writes.count("allocate") <= 8
    assert desk.doubles() == []


def test_a_node_that_is_left_out_is_named() -> None:
    desk = Desk()
    desk.add_node("node-a")
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 8)
    desk.advance(80)
    notes = desk.recorder.notes("Pod pod", "ClaimWaiting")
    assert len(notes) == 1
    assert "node-a" in notes[0]
    assert "its pod was not bound" in notes[0]


def test_what_kube_scheduler_takes_back_rests_and_goes_elsewhere(desk: Desk) -> None:
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 4)
    desk.run()
    assert desk.life.take_back("pod")
    desk.advance(4)
    assert desk.devices("pod") == [], "not before 5 s: what kube-scheduler has in flight would meet another allocation"
    desk.advance(3)
    assert desk.bound() == {"pod": "node-b"}
    notes = desk.recorder.notes("Pod pod", "ClaimTakenBack")
    assert notes == ["kube-scheduler took the allocation back: the pod does not fit on node node-a; another is tried"]


def test_a_claim_that_kube_controller_manager_frees_teaches_nothing(desk: Desk) -> None:
    """A named claim goes from pod to pod: the node of the first is as good as any for the next."""
    desk.add_job("pod", 8)
    desk.add_job("filler", 8)
    desk.run()
    node = desk.node("pod")
    desk.add_pod("next", "pod")
    desk.delete_pod("pod")
    desk.advance(7)
    assert desk.bound()["next"] == node
    assert desk.recorder.notes("Claim pod", "ClaimTakenBack") == []


@pytest.mark.parametrize("collects", [True, False], ids=["kube-controller-manager lives", "it is away"])
def test_nothing_stays_allocated_for_a_pod_that_went_before_it_was_bound(desk: Desk, collects: bool) -> None:
    """R5."""
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 8)
    desk.run()
    desk.delete_pod("pod")
    desk.advance(20, collects=collects)
    assert desk.is_clean("pod")


def test_a_pod_that_is_bound_at_the_last_moment_keeps_its_claim(desk: Desk) -> None:
    """kube-scheduler binds between our withdraw and our look at the pods."""
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 4)
    desk.run()
    devices = desk.devices("pod")

    def bind_now(what: str, claim: Claim) -> None:
        if what == "reserve":
            desk.life.refuses.clear()
            desk.life.schedule()

    desk.api.on_write = bind_now
    desk.advance(65)
    assert desk.bound() == {"pod": "node-a"}
    assert desk.devices("pod") == devices
    assert desk.reserved("pod") == ["pod"]
    assert "clear" not in desk.api.writes


def test_a_pod_that_is_reserved_between_withdraw_and_clear_keeps_its_claim(desk: Desk) -> None:
    """kube-scheduler's PreBind comes after our look at the pods, and before our write: the version decides."""
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 4)
    desk.run()

    def reserve_now(what: str, claim: Claim) -> None:
        if what == "clear":
            desk.life.refuses.clear()
            desk.life.schedule()

    desk.api.on_write = reserve_now
    desk.advance(65)
    assert desk.bound() == {"pod": "node-a"}
    assert len(desk.devices("pod")) == 4
    assert desk.reserved("pod") == ["pod"]


def test_half_a_pod_is_taken_back_when_the_rest_fits_nowhere(desk: Desk) -> None:
    desk.add_claim("first", 2)
    desk.add_claim("second", 2)
    desk.add_pod("pod", "first", "second")
    desk.api.troubles = [Trouble(number, "before", refusal(422, "Invalid")) for number in (3, 4, 5)]
    desk.advance(5)  # the server refuses the take-back too, twice
    assert desk.is_clean("first")
    desk.advance(60)
    assert desk.bound() == {"pod": "node-a"}


def test_a_guard_that_a_leader_left_is_removed_and_its_pod_runs(desk: Desk) -> None:
    desk.add_job("pod", 2)
    desk.allocate("pod", "node-b", "gpu-0", "gpu-1")
    desk.mark_ours("pod", is_guarded=True)
    desk.run(schedules=False)
    assert desk.reserved("pod") == ["pod"]


def test_a_guard_does_not_keep_a_claim_from_being_deleted(desk: Desk) -> None:
    """kube-controller-manager keeps a claim that has a consumer which it does not know."""
    desk.add_claim("named", 2)
    desk.allocate("named", "node-b", "gpu-0", "gpu-1")
    desk.mark_ours("named", is_guarded=True)
    desk.objects.delete("resourceclaims", "named", namespace=NAMESPACE)
    desk.advance(3)
    assert desk.objects.objects("resourceclaims") == []


def test_a_device_in_two_claims_is_given_back_by_the_younger_unbound_one(desk: Desk) -> None:
    desk.add_job("old", 1)
    desk.run()
    device = desk.devices("old")[0].split("/")
    desk.life.is_scheduling = False
    desk.add_claim("young")
    desk.add_pod("young", "young", nodeSelector={"no": "node"})
    desk.allocate("young", *device)
    desk.mark_ours("young")
    desk.advance(10, schedules=False)
    assert desk.devices("old") == ["/".join(device)]
    assert desk.devices("young") == []
    said = desk.recorder.notes("ResourceClaim young", "DeviceInTwoClaims")
    assert said == [f"device {device[1]} of {device[0]} is in 2 claims; claim team/young gives it back"]
    assert b"gpu_dra_doubles_total 1.0" in desk.metrics.page("").body


def test_a_device_in_two_claims_that_are_in_use_is_told_once(desk: Desk) -> None:
    for name in ("one", "two"):
        desk.add_job(name)
        desk.allocate(name, "node-a", "gpu-0")
        desk.mark_ours(name)
    desk.life.schedule()
    assert sorted(desk.bound()) == ["one", "two"]
    desk.advance(20)
    said = desk.recorder.notes("ResourceClaim one", "DeviceInTwoClaims")
    assert said == ["device gpu-0 of node-a is in 2 claims; delete a pod of one of them: all are in use"]


def test_a_take_back_that_the_watch_tells_before_the_writer_teaches_all_the_same(desk: Desk) -> None:
    """Else the claim goes to the same node at once, again and again."""
    desk.life.refuses = {"node-a"}
    desk.add_job("pod", 4)
    desk.run()
    desk.clock.advance(61)
    desk.tell()
    desk.decide()
    jobs, desk.jobs[:] = list(desk.jobs), []
    reports = [desk.writer.run(job) for job in jobs]
    desk.tell()
    desk.decide()
    assert desk.jobs == [], "nothing is placed before the report"
    for report in reports:
        desk.loop.put(report)
    desk.advance(10)
    assert desk.bound() == {"pod": "node-b"}


def test_a_claim_that_kube_controller_manager_freed_is_not_written_again(desk: Desk) -> None:
    desk.add_job("pod", 4)
    desk.run()
    desk.delete_pod("pod")
    desk.advance(60)
    assert desk.is_clean("pod")
    assert desk.api.writes == ["mark", "allocate"]
