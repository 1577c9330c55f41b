"""What users reported of Kubernetes, and of other schedulers that know claims, with what ours does then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.desk import Desk
from tests.unit.controller.world import NAMESPACE, request

Json = dict[str, Any]


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.add_node("node-a")
    return made


def _add_template_claim(desk: Desk, name: str, pod: Json) -> None:
    """A claim as kube-controller-manager makes it for a pod."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    meta = {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}
    spec = {"devices": {"requests": [request(count=1)]}}
    desk.objects.create("resourceclaims", {"metadata": meta, "spec": spec})


def _say_claims(desk: Desk, pod: str, *names: str) -> None:
    """The pod's status lists the claims that were made for it."""
    statuses = [{"name": each, "resourceClaimName": each} for each in names]

    def say(now: Json) -> Json:
        return now | {"status": now.get("status", {}) | {"resourceClaimStatuses": statuses}}

    desk.objects.edit("pods", pod, say, namespace=NAMESPACE, is_status=True)


def _pod_of_two_templates(desk: Desk) -> None:
    entries = [{"name": each, "resourceClaimTemplateName": "one-gpu"} for each in ("left", "right")]
    body = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler", "resourceClaims": entries}
    pod = desk.objects.create("pods", {"metadata": {"name": "pod", "namespace": NAMESPACE}, "spec": body})
    for name in ("left", "right"):
        _add_template_claim(desk, name, pod)


def test_a_pod_whose_status_lists_some_of_its_claims_waits_for_the_rest(desk: Desk) -> None:
    """kube-controller-manager lists now these, now those.

    https://github.com/kubernetes/kubernetes/pull/138408
    """
    _pod_of_two_templates(desk)
    for listed in (["left"], ["right"], ["left"]):
        _say_claims(desk, "pod", *listed)
        desk.run()
        assert (desk.devices("left"), desk.devices("right")) == ([], [])
    _say_claims(desk, "pod", "left", "right")
    desk.run()
    assert desk.bound() == {"pod": "node-a"}


def test_a_claim_that_the_status_forgets_for_a_while_keeps_its_devices(desk: Desk) -> None:
    """The same, after the devices were allocated and before the pod is bound: ``reservedFor`` says who it is for.

    https://github.com/kubernetes/kubernetes/pull/138408
    """
    desk.life.refuses = {"node-a"}
    _pod_of_two_templates(desk)
    _say_claims(desk, "pod", "left", "right")
    desk.run()
    before = desk.devices("left"), desk.devices("right")
    for listed in (["left"], ["right"], []):
        _say_claims(desk, "pod", *listed)
        desk.advance(15)
        assert (desk.devices("left"), desk.devices("right")) == before
    _say_claims(desk, "pod", "left", "right")
    desk.life.refuses = set()
    desk.run()
    assert desk.bound() == {"pod": "node-a"}
    assert desk.api.writes.count("allocate") == 2


def test_a_pod_that_has_ended_goes_in_and_out_of_reserved_for_without_our_doing(desk: Desk) -> None:
    """kube-controller-manager adds and removes it by turns; another pod uses the claim.

    https://github.com/kubernetes/kubernetes/issues/141274
    """
    desk.add_claim("shared", 1)
    ended = desk.add_pod("ended", "shared")
    desk.run()
    desk.add_pod("running", "shared")
    desk.run()
    desk.objects.edit(
        "pods", "ended", lambda now: now | {"status": {"phase": "Succeeded"}}, namespace=NAMESPACE, is_status=True
    )
    status = desk.claim("shared")["status"]
    running = next(each for each in status["reservedFor"] if each["name"] == "running")
    entry = {"resource": "pods", "name": "ended", "uid": ended["metadata"]["uid"]}
    written, devices = list(desk.api.writes), desk.devices("shared")
    for reserved in ([running], [running, entry], [running], [running, entry], [running]):
        desk.set_status("shared", status | {"reservedFor": reserved})
        desk.advance(20, collects=False)
    assert (desk.api.writes, desk.devices("shared"), desk.reserved("shared")) == (written, devices, ["running"])


@pytest.mark.parametrize("is_guarded", [True, False], ids=["with our guard", "without"])
def test_a_claim_that_was_deleted_while_nobody_led_goes(desk: Desk, is_guarded: bool) -> None:
    """Its pod is gone, too, and what keeps it is our finalizer alone, or our guard.

    https://github.com/kubernetes/kubernetes/issues/132334, https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/725
    """
    desk.add_claim("claim", 1)
    desk.allocate("claim", "node-a", "gpu-0", reservedFor=[{"resource": "pods", "name": "gone", "uid": "gone-uid"}])
    desk.mark_ours("claim", is_guarded=is_guarded)
    desk.objects.delete("resourceclaims", "claim", namespace=NAMESPACE)
    assert desk.claim("claim")["metadata"]["deletionTimestamp"]
    desk.begin()
    desk.advance(60)
    assert desk.objects.objects("resourceclaims") == []


def test_a_claim_is_found_by_its_own_name_and_not_by_the_pods_word_for_it(desk: Desk) -> None:
    """https://github.com/kai-scheduler/KAI-Scheduler/pull/968: two pods may use one word for two claims."""
    for number in (1, 2):
        desk.add_claim(f"claim-{number}", number)
        entry = {"name": "gpus", "resourceClaimName": f"claim-{number}"}
        body = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler", "resourceClaims": [entry]}
        desk.objects.create("pods", {"metadata": {"name": f"pod-{number}", "namespace": NAMESPACE}, "spec": body})
    desk.run()
    assert [len(desk.devices(f"claim-{number}")) for number in (1, 2)] == [1, 2]
    assert set(desk.bound()) == {"pod-1", "pod-2"}


def test_a_cluster_that_is_full_is_not_tried_again_and_again(desk: Desk) -> None:
    """https://github.com/kai-scheduler/KAI-Scheduler/issues/848: nothing is written, and it is said once."""
    desk.add_job("first", 8)
    desk.run()
    written = list(desk.api.writes)
    for number in range(5):
        desk.add_job(f"late-{number}", 1)
    desk.advance(600)
    assert desk.api.writes == written
    assert [len(desk.recorder.notes(f"Pod late-{number}", "ClaimWaiting")) for number in range(5)] == [1] * 5


def test_a_pod_that_waits_is_served_once_what_it_waits_for_is_free_whatever_was_missed(desk: Desk) -> None:
    """The end of a claim is all that the watch tells: that it had lost its devices before was missed.

    https://github.com/kubernetes/kubernetes/pull/140831
    """
    desk.add_job("first", 8)
    desk.run()
    desk.add_job("second", 8)
    desk.run()
    assert set(desk.bound()) == {"first"}
    desk.delete_pod("first")
    desk.life.collect()
    desk.objects.delete("resourceclaims", "first", namespace=NAMESPACE)
    desk.run()
    assert desk.bound() == {"second": "node-a"}


def test_a_gang_that_shares_a_claim_is_placed_as_one(desk: Desk) -> None:
    """https://github.com/kubernetes/kubernetes/issues/137617: each waited until the other's allocation was through."""
    desk.add_claim("shared", 4)
    for number in range(20):
        desk.add_pod(f"pod-{number}", "shared")
    desk.run()
    assert len(desk.bound()) == 20
    assert desk.api.writes.count("allocate") == 1


def test_a_pod_with_a_claim_that_several_have_and_one_of_its_own_is_bound(desk: Desk) -> None:
    """https://github.com/kubernetes/kubernetes/pull/139363: such pods stayed pending."""
    desk.add_node("node-b")
    desk.add_claim("shared", 1)
    for number in range(3):
        desk.add_claim(f"own-{number}", 1)
        desk.add_pod(f"pod-{number}", "shared", f"own-{number}")
        desk.run()
    node = desk.node("shared")
    assert desk.bound() == {f"pod-{number}": node for number in range(3)}


def test_devices_that_were_planned_and_never_written_are_free_again(desk: Desk) -> None:
    """https://github.com/volcano-sh/volcano/pull/5103: what a round had put aside was put aside for good."""
    desk.add_job("pod", 8)
    desk.tell()
    desk.decide()
    assert desk.jobs
    desk.objects.delete("pods", "pod", namespace=NAMESPACE)
    desk.objects.delete("resourceclaims", "pod", namespace=NAMESPACE)
    desk.run()
    desk.add_job("next", 8)
    desk.run()
    assert desk.bound() == {"next": "node-a"}


@pytest.mark.parametrize(
    "requests",
    [
        [{"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2**63 - 1}}],
        [{"name": f"gpus-{at}", "exactly": {"deviceClassName": "gpu", "count": 2**62}} for at in range(4)],
        [
            {
                "name": "gpus",
                "firstAvailable": [{"name": f"a{at}", "deviceClassName": "gpu", "count": 2**63 - 1} for at in range(8)],
            }
        ],
    ],
    ids=["one request", "four requests", "eight alternatives"],
)
def test_a_claim_for_more_than_there_can_be_harms_nobody_else(desk: Desk, requests: list[Json]) -> None:
    """The API takes any positive int64. Its owner waits, with a reason; the others are served.

    https://github.com/kai-scheduler/KAI-Scheduler/pull/1874
    """
    meta = {"name": "greedy", "namespace": NAMESPACE}
    desk.objects.create("resourceclaims", {"metadata": meta, "spec": {"devices": {"requests": requests}}})
    desk.add_pod("greedy", "greedy")
    for number in range(8):
        desk.add_job(f"modest-{number}", 1)
    desk.run()
    assert set(desk.bound()) == {f"modest-{number}" for number in range(8)}
    told = [note for about, reason, note in desk.recorder.told if about == "Pod greedy" and reason.startswith("Claim")]
    assert len(told) == 1
