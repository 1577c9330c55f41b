"""What a write does next, for every state that a claim may be in."""

from __future__ import annotations

import msgspec
import pytest

from driver.api.claim_spec_v1 import ClaimAllocation, ClaimDevices, ClaimResult
from driver.controller.objects.model import Claim, Consumer, Pod, PodMeta, PodSpec, PodStatus
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION, FINALIZER, build_guard
from driver.controller.writing.claim_steps import (
    End,
    Placing,
    Step,
    build_allocated,
    build_cleared,
    build_mark,
    build_reserved,
    build_unmark,
    choose_clearing_step,
    choose_placing_step,
    choose_settling_step,
    choose_unmarking_step,
    choose_withdrawing_step,
    is_in_use,
    plan_settled,
    plan_withdrawn,
)
from tests.unit.controller.objects.test_ownership import ONE, TWO, claim

RESULT = ClaimResult(request="gpus", driver="gpu.nvidia.com", pool="node-a", device="gpu-0")
POD = Consumer(resource="pods", name="pod", uid="pod-uid")
OTHER = Consumer(resource="pods", name="other", uid="other-uid")
GROUP = Consumer(api_group="scheduling.k8s.io", resource="podgroups", name="group", uid="group-uid")
GUARD = build_guard("uid")
WANT = Placing(claim=claim(), allocation=ClaimAllocation(devices=ClaimDevices(results=(RESULT,))), consumers=(POD,))
MARK = WANT.digest


def changed(item: Claim, **metadata: object) -> Claim:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, **metadata))


MARKED = changed(claim(mark=MARK), finalizers=(FINALIZER,))
PLACING = {
    "nothing yet": (claim(), Step.MARK),
    "a finalizer without the mark, as kube-scheduler leaves it": (changed(claim(), finalizers=(FINALIZER,)), Step.MARK),
    "a mark without the finalizer": (claim(mark=MARK), Step.MARK),
    "the mark of another choice": (changed(claim(mark="other"), finalizers=(FINALIZER,)), Step.MARK),
    "marked": (MARKED, Step.ALLOCATE),
    "written": (claim(ONE, mark=MARK), End.DONE),
    "allocated otherwise by us": (claim(TWO, mark=MARK), End.TAKEN),
    "allocated by another, to the same": (claim(ONE), End.TAKEN),
    "being deleted": (changed(MARKED, deletion_timestamp="2027-01-15T08:00:00Z"), End.GONE),
    "another claim of the name": (changed(MARKED, uid="another"), End.GONE),
}


@pytest.mark.parametrize(("now", "expected"), PLACING.values(), ids=PLACING.keys())
def test_placing(now: Claim, expected: Step | End) -> None:
    assert choose_placing_step(now, WANT) is expected


OURS = claim(ONE, mark=MARK, reserved=(POD,))
SETTLING = {
    "with a guard": (claim(ONE, mark=MARK, reserved=(POD, GUARD)), Step.SETTLE),
    "without one": (OURS, End.DONE),
    "freed meanwhile": (claim(mark=MARK), End.TAKEN),
    "allocated anew meanwhile": (claim(TWO, mark="other", reserved=(GUARD,)), End.TAKEN),
}


@pytest.mark.parametrize(("now", "expected"), SETTLING.values(), ids=SETTLING.keys())
def test_settling(now: Claim, expected: Step | End) -> None:
    assert choose_settling_step(now, OURS) is expected


WITHDRAWING = {
    "with its pod": (OURS, Step.WITHDRAW),
    "with a guard only": (claim(ONE, mark=MARK, reserved=(GUARD,)), End.DONE),
    "with nobody": (claim(ONE, mark=MARK), End.DONE),
    "with something that is no pod": (claim(ONE, mark=MARK, reserved=(POD, GROUP)), End.IN_USE),
    "allocated by another": (claim(ONE, reserved=(POD,)), End.TAKEN),
    "allocated anew by us": (claim(TWO, mark="other", reserved=(POD,)), End.TAKEN),
    "freed by another": (claim(mark=MARK), End.DONE),
    "another claim of the name": (changed(OURS, uid="another"), End.DONE),
}


@pytest.mark.parametrize(("now", "expected"), WITHDRAWING.values(), ids=WITHDRAWING.keys())
def test_withdrawing(now: Claim, expected: Step | End) -> None:
    assert choose_withdrawing_step(now, OURS) is expected


CLEARING = {
    "withdrawn": (claim(ONE, mark=MARK, reserved=(GUARD,)), Step.CLEAR),
    "with a pod that is gone": (claim(ONE, mark=MARK, reserved=(OTHER,)), Step.CLEAR),
    "with a pod that came": (OURS, End.IN_USE),
    "with a group that came": (claim(ONE, mark=MARK, reserved=(GUARD, GROUP)), End.IN_USE),
    "cleared": (claim(mark=MARK), Step.UNMARK),
    "cleared, and the name is another claim's": (changed(claim(mark=MARK), uid="another"), End.DONE),
    "clean": (claim(), End.DONE),
    "marked anew": (claim(mark="other"), End.DONE),
    "allocated by another": (claim(TWO, mark=MARK), End.TAKEN),
}


@pytest.mark.parametrize(("now", "expected"), CLEARING.values(), ids=CLEARING.keys())
def test_clearing(now: Claim, expected: Step | End) -> None:
    assert choose_clearing_step(now, OURS, frozenset({"other-uid"})) is expected


UNMARKING = {
    "marked and not allocated": (MARKED, Step.UNMARK),
    "clean": (claim(), End.DONE),
    "freed by kube-controller-manager": (claim(mark=MARK), End.DONE),
    "kept by kube-scheduler": (changed(claim(), finalizers=(FINALIZER,)), End.DONE),
    "allocated": (changed(claim(ONE, mark=MARK), finalizers=(FINALIZER,)), End.DONE),
    "being deleted": (changed(MARKED, deletion_timestamp="2027-01-15T08:00:00Z"), End.DONE),
}


@pytest.mark.parametrize(("now", "expected"), UNMARKING.values(), ids=UNMARKING.keys())
def test_unmarking(now: Claim, expected: Step | End) -> None:
    assert choose_unmarking_step(now) is expected


def test_every_body_has_the_version_that_it_was_planned_on() -> None:
    now = changed(OURS, resource_version="7", namespace="team")
    bodies = [build_mark(now, "d"), build_unmark(now), build_allocated(now, WANT), build_reserved(now, ()), build_cleared(now)]
    assert [each["metadata"]["resourceVersion"] for each in bodies] == ["7"] * 5
    assert [each["metadata"]["uid"] for each in bodies] == ["uid"] * 5


def test_other_finalizers_and_annotations_stay() -> None:
    now = changed(claim(), finalizers=("example.com/own",))
    assert build_mark(now, "d")["metadata"]["finalizers"] == ["example.com/own", FINALIZER]
    now = changed(MARKED, finalizers=(FINALIZER, "example.com/own"))
    assert build_unmark(now)["metadata"]["finalizers"] == ["example.com/own"]
    assert build_unmark(now)["metadata"]["annotations"] == {ALLOCATION_ANNOTATION: None}


def test_a_guard_is_written_with_the_pods_where_there_are_several_claims() -> None:
    guarded = Placing(claim=WANT.claim, allocation=WANT.allocation, consumers=(POD,), is_guarded=True)
    assert build_allocated(WANT.claim, guarded)["status"]["reservedFor"] == (GUARD, POD)
    assert build_allocated(WANT.claim, WANT)["status"]["reservedFor"] == (POD,)


def test_what_stays_in_reserved_for() -> None:
    now = claim(ONE, mark=MARK, reserved=(GUARD, OTHER))
    assert plan_withdrawn(now) == (GUARD,)
    assert plan_settled(now, [POD]) == (OTHER, POD)


def test_nothing_is_added_to_a_claim_that_is_being_deleted() -> None:
    """The API refuses it, and the claim would keep its guard for ever."""
    now = changed(claim(ONE, mark=MARK, reserved=(GUARD, OTHER)), deletion_timestamp="2027-01-15T08:00:00Z")
    assert plan_withdrawn(now) == ()
    assert plan_settled(now, [POD]) == (OTHER,)


def pod(uid: str = "pod-uid", node: str = "", phase: str = "Pending") -> Pod:
    return Pod(metadata=PodMeta(name="pod", uid=uid), spec=PodSpec(node_name=node), status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(None, False, id="gone"),
        pytest.param(pod(), False, id="unbound"),
        pytest.param(pod(node="node-a"), True, id="bound"),
        pytest.param(pod(node="node-a", phase="Running"), True, id="running"),
        pytest.param(pod(node="node-a", phase="Succeeded"), False, id="ended"),
        pytest.param(pod(uid="another", node="node-a"), False, id="another pod of the name"),
    ],
)
def test_which_pods_keep_a_claim(item: Pod | None, expected: bool) -> None:
    assert is_in_use(item, "pod-uid") is expected
