"""Which allocations are idle."""

from __future__ import annotations

import msgspec
import pytest

from driver.controller.deciding.takeback import Idle, IdleCase, IdleRule, IdleWatch, judge
from driver.controller.objects.model import Claim, Pod, PodMeta, PodSpec, PodStatus, SchedulingGate
from tests.unit.controller.objects.test_ownership import ONE, claim
from tests.unit.controller.writing.test_claim_steps import GROUP, GUARD, MARK, OTHER, POD

DELETED = "2027-01-15T08:00:00Z"


def pods(**by_name: Pod) -> dict[str, Pod]:
    return {f"{name}-uid": item for name, item in by_name.items()}


def pod(node: str = "", phase: str = "Pending", *, is_gated: bool = False, deleted: str | None = None) -> Pod:
    gates = (SchedulingGate(name="wait"),) if is_gated else ()
    return Pod(
        metadata=PodMeta(deletion_timestamp=deleted),
        spec=PodSpec(node_name=node, scheduling_gates=gates),
        status=PodStatus(phase=phase),
    )


def ours(*reserved: object) -> Claim:
    return claim(ONE, mark=MARK, reserved=reserved)  # type: ignore[arg-type]


CASES = {
    "its pod waits": (ours(POD), pods(pod=pod()), Idle.UNBOUND),
    "its pod is bound": (ours(POD), pods(pod=pod("node-a")), None),
    "its pod is bound and being deleted: it may still run": (ours(POD), pods(pod=pod("node-a", deleted=DELETED)), None),
    "its pod has ended": (ours(POD), pods(pod=pod("node-a", "Succeeded")), Idle.GONE),
    "its pod is gone": (ours(POD), {}, Idle.GONE),
    "its pod was deleted before it was bound": (ours(POD), pods(pod=pod(deleted=DELETED)), Idle.GONE),
    "its pod is gated again": (ours(POD), pods(pod=pod(is_gated=True)), Idle.GATED),
    "one of two is bound": (ours(POD, OTHER), pods(pod=pod(), other=pod("node-a")), None),
    "one waits, one is gated": (ours(POD, OTHER), pods(pod=pod(), other=pod(is_gated=True)), Idle.UNBOUND),
    "one is gated, one waits": (ours(POD, OTHER), pods(pod=pod(is_gated=True), other=pod()), Idle.UNBOUND),
    "one waits, one is gone": (ours(POD, OTHER), pods(pod=pod()), Idle.UNBOUND),
    "nobody is reserved": (ours(), {}, Idle.GONE),
    "only a guard": (ours(GUARD), {}, Idle.GONE),
    "a guard and a pod that waits": (ours(GUARD, POD), pods(pod=pod()), Idle.UNBOUND),
    "a group keeps it": (ours(GROUP), {}, None),
    "it is somebody else's": (claim(ONE, reserved=(POD,)), {}, None),
    "it is not allocated": (claim(mark=MARK), {}, None),
}


@pytest.mark.parametrize(("item", "there", "expected"), CASES.values(), ids=CASES.keys())
def test_why_an_allocation_is_idle(item: Claim, there: dict[str, Pod], expected: Idle | None) -> None:
    assert judge(item, there) is expected


def test_idleness_counts_from_when_it_is_first_seen() -> None:
    watch = IdleWatch()
    watch.look(ours(POD), pods(pod=pod()), 100.0)
    watch.look(ours(POD), pods(pod=pod()), 130.0)
    assert list(watch.cases()) == [IdleCase(uid="uid", why=Idle.UNBOUND, since_s=100.0)]


def test_another_reason_begins_anew() -> None:
    watch = IdleWatch()
    watch.look(ours(POD), pods(pod=pod()), 100.0)
    watch.look(ours(POD), {}, 130.0)
    assert list(watch.cases()) == [IdleCase(uid="uid", why=Idle.GONE, since_s=130.0)]


def test_the_longest_idle_come_first_and_later_ones_can_be_left_out() -> None:
    """A case that begins anew is as young as any other."""
    watch = IdleWatch()
    first = ours(POD)
    second = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata, uid="second"))
    watch.look(first, pods(pod=pod()), 100.0)
    watch.look(second, pods(pod=pod()), 110.0)
    assert [each.uid for each in watch.cases(109.0)] == ["uid"]
    watch.look(first, {}, 120.0)
    assert [each.uid for each in watch.cases()] == ["second", "uid"]
    assert [each.uid for each in watch.cases(110.0)] == ["second"]


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "forgotten"])
def test_what_is_in_use_is_no_case_any_more(is_bound: bool) -> None:
    watch = IdleWatch()
    watch.look(ours(POD), pods(pod=pod()), 100.0)
    if is_bound:
        watch.look(ours(POD), pods(pod=pod("node-a")), 110.0)
    else:
        watch.forget("uid")
    assert list(watch.cases()) == []


def test_nothing_is_due_before_the_shorter_of_both_times() -> None:
    assert [IdleRule(unbound_s=60.0, gone_s=10.0).least_s, IdleRule(unbound_s=5.0, gone_s=10.0).least_s] == [10.0, 5.0]


def test_the_limit_doubles_with_each_time_in_vain_up_to_a_bound() -> None:
    rule = IdleRule(unbound_s=60.0, gone_s=10.0, doublings_max=3)
    assert [rule.limit_s(Idle.UNBOUND, attempts) for attempts in (0, 1, 2, 3, 9)] == [60.0, 120.0, 240.0, 480.0, 480.0]
    assert [rule.limit_s(why, 9) for why in (Idle.GONE, Idle.GATED)] == [10.0, 10.0]
