"""A pod or a claim on its way to devices: where it stands, in one line, and what can be done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.cli.gpu.explanation import list_uids
from driver.cli.gpu.reading import SeenEvent
from driver.cli.gpu.views import ClaimView, DeviceView, EventView, PodView
from driver.controller.objects.model import Claim, Pod
from tests.unit.cli.gpu.stories import AT, BOARDS, cut_gpus, explain, gpu, islands, occupy, read
from tests.unit.controller.world import CREATED, NAMESPACE, World, decode, machine, policy, request

A100 = "NVIDIA A100-SXM4-80GB"
GATE = [{"name": "example.com/quota"}]


def test_the_islands_story() -> None:
    world = islands("node-a", "node-b", "node-c", "node-d", "node-e")
    world.job("big", request(device_class="topology", count=4), devices={"config": [policy(mode="required")]})
    view = explain(world, "big")
    assert (view.kind, view.namespace, view.name, view.state) == ("pod", NAMESPACE, "big", "waiting")
    assert view.summary.startswith("5 nodes, 20 free GPUs; need 4 on one NVLink island; largest free set is 2 (node-a island 0")
    assert [each.verdict for each in view.nodes] == ["devices"] * 5
    assert view.claims == (
        ClaimView(
            claim="team/big",
            state="waiting",
            requests=("gpus: 4 of class topology", "policy: nvlink required, pack"),
            allocator=None,
            since=None,
            node=None,
            devices=(),
            quality="",
            pods=(),
        ),
    )
    assert view.pods == (PodView(pod="big", phase="Pending", node=None, since=CREATED, state=""),)


def test_a_pod_that_runs_shows_its_devices_and_how_they_are_linked() -> None:
    world = islands("node-a", taken={})
    occupy(world, "runs", "node-a", gpu(BOARDS, 4, 5))
    view = explain(world, "runs")
    assert (view.state, view.summary) == ("running", "the pod runs on node node-a with 2 devices")
    names = gpu(BOARDS, 4, 5)
    assert view.claims == (
        ClaimView(
            claim="team/runs",
            state="allocated",
            requests=("gpus: 2 of class gpu",),
            allocator="controller",
            since=AT,
            node="node-a",
            devices=tuple(
                DeviceView(
                    request="gpus",
                    driver="gpu.nvidia.com",
                    pool="node-a",
                    device=name,
                    gpu=at,
                    is_admin=False,
                    product=A100,
                    island=1,
                )
                for at, name in zip((4, 5), names, strict=True)
            ),
            quality="linked by NVLink; as good as any 2 GPUs of this machine",
            pods=("runs",),
        ),
    )
    assert view.nodes == ()


def test_a_claim_that_is_used_says_by_whom() -> None:
    world = islands("node-a", taken={})
    occupy(world, "runs", "node-a", gpu(BOARDS, 4, 5))
    view = explain(world, "claim/runs")
    assert (view.kind, view.state) == ("claim", "running")
    assert view.summary == "allocated on node node-a by controller 1h30m ago: 2 devices, used by runs"
    assert [each.pod for each in view.pods] == ["runs"]


def test_a_claim_that_nobody_uses() -> None:
    world = islands("node-a", taken={})
    world.claim("lonely")
    assert (explain(world, "lonely").state, explain(world, "lonely").summary) == ("unused", "no pod uses the claim")
    occupy(world, "kept", "node-a", gpu(BOARDS, 0), pods=False)
    kept = explain(world, "kept")
    assert (kept.state, kept.summary.partition(": ")[2]) == ("allocated", "1 device; no pod that is bound uses it")


def test_devices_that_are_allocated_while_the_pod_is_not_bound() -> None:
    """Another pod has filled the node meanwhile."""
    world = islands("node-a", taken={})
    world.job("waits", request(count=1), containers=[{"name": "main", "resources": {"requests": {"cpu": "8"}}}])
    occupy(world, "waits", "node-a", gpu(BOARDS, 0), pods=False)
    world.pod("greedy", nodeName="node-a", containers=[{"name": "main", "resources": {"requests": {"cpu": "60"}}}])
    view = explain(world, "waits")
    assert view.state == "allocated"
    assert view.summary == "its claims are allocated, the last 1h30m ago; it waits for kube-scheduler to bind it to node node-a"
    (node,) = view.nodes
    assert (node.node, node.reasons[1:]) == ("node-a", ("not enough cpu: needs 8, 4 of 64 are left",))


BLOCKED: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "gated",
        {"schedulingGates": GATE},
        "blocked",
        "the pod does not wait for devices now: it has the scheduling gate example.com/quota",
    ),
    (
        "of another scheduler",
        {"schedulerName": "volcano"},
        "blocked",
        "the pod does not wait for devices now: its scheduler volcano is not one that the controller works for",
    ),
    ("ended", {"status": {"phase": "Succeeded"}}, "ended", "the pod has ended (Succeeded): its claims are freed"),
    ("being deleted", {"deleted": CREATED}, "blocked", "the pod does not wait for devices now: it is being deleted"),
]


@pytest.mark.parametrize(("fields", "state", "summary"), [case[1:] for case in BLOCKED], ids=[case[0] for case in BLOCKED])
def test_a_pod_that_does_not_wait(fields: dict[str, Any], state: str, summary: str) -> None:
    world = islands("node-a")
    world.job("job", **fields)
    view = explain(world, "job")
    assert (view.state, view.summary, view.nodes) == (state, summary, ())


def test_a_claim_whose_pods_do_not_wait_says_why() -> None:
    world = islands("node-a")
    world.job("job", schedulingGates=GATE)
    view = explain(world, "claim/job")
    assert view.state == "blocked"
    assert view.summary == "pod job: the pod does not wait for devices now: it has the scheduling gate example.com/quota"


def test_claims_that_are_not_there() -> None:
    world = islands("node-a")
    world.pod("named", "nothing")
    world.pod("made", made=["gpus"], status={"resourceClaimStatuses": []})
    named, made = explain(world, "named"), explain(world, "made")
    assert (named.state, named.summary) == ("blocked", "claim nothing does not exist")
    assert [(each.claim, each.state, each.pods) for each in named.claims] == [("team/nothing", "missing", ("named",))]
    assert made.summary == "the claim for gpus is not made yet from ResourceClaimTemplate template"
    assert made.advice == ("see that it exists: kubectl get resourceclaimtemplate template",)


def test_a_required_policy_that_the_class_does_not_bear_out() -> None:
    """R4: kube-scheduler would serve it elsewhere without looking at the policy."""
    world = islands("node-a")
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.job("leaky", request(count=2), devices={"config": [policy(mode="required")]})
    view = explain(world, "leaky")
    assert view.state == "leftAlone"
    assert "kube-scheduler may serve request gpus without looking at it" in view.summary
    assert "DeviceClass topology.gpu.nvidia.com" in view.summary
    assert view.advice[0].startswith("somebody has to mend this")
    assert {each.node: each.verdict for each in view.nodes} == {"node-a": "controller", "node-u": "scheduler"}


def test_a_claim_that_only_unfenced_devices_can_serve_is_kube_schedulers() -> None:
    world = World()
    world.classes()
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.job("job")
    view = explain(world, "job")
    assert view.state == "leftAlone"
    assert view.summary == "request gpus of claim job matches only devices that are kube-scheduler's"
    assert view.advice[0].startswith("it is kube-scheduler's to allocate")


def test_a_pod_with_an_extended_resource_cannot_use_fenced_nodes() -> None:
    """R7: kube-scheduler makes its claim, without tolerations."""
    world = islands("node-a", "node-b")
    world.classes({"nvidia": {"extendedResourceName": "nvidia.com/gpu"}})
    world.node("node-u", machine("dgx-h100", "scheduler"))
    world.pod("old", containers=[{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}])
    view = explain(world, "old")
    assert view.state == "leftAlone"
    assert view.summary == (
        "the pod asks for nvidia.com/gpu: kube-scheduler makes and allocates the claim for it, and cannot use fenced nodes: "
        "1 node of its own, 2 nodes of the controller's"
    )
    assert {each.node: each.verdict for each in view.nodes}["node-a"] == "controller"


def test_the_claim_of_an_extended_resource() -> None:
    world = islands("node-a")
    world.claim("made", annotations={"resource.kubernetes.io/extended-resource-claim": "true"})
    assert explain(world, "claim/made").summary.startswith("the claim is for an extended resource of a pod: ")


def test_a_pod_without_claims() -> None:
    world = islands("node-a")
    world.pod("plain")
    view = explain(world, "plain")
    assert (view.state, view.summary) == ("unused", "the pod has no claims: it asks for no device")


def test_a_missing_class_is_somebodys_to_mend() -> None:
    world = islands("node-a")
    world.job("job", request(device_class="gone"))
    view = explain(world, "job")
    assert (view.state, view.summary) == ("leftAlone", "claim job: request gpus: DeviceClass gone does not exist")


def test_a_place_that_can_be_had_now_points_to_the_controller() -> None:
    world = islands("node-a")
    world.job("small")
    view = explain(world, "small")
    assert view.state == "placeable"
    assert view.summary == "1 device can be had now on node node-a: the controller is about to allocate"
    assert view.advice


def test_pods_that_share_a_claim_are_shown_together() -> None:
    world = islands("node-a")
    world.claim("shared", request(device_class="topology", count=8))
    world.pod("one", "shared")
    world.pod("two", "shared")
    assert [each.pod for each in explain(world, "two").pods] == ["two", "one"]
    assert sorted(each.pod for each in explain(world, "claim/shared").pods) == ["one", "two"]


def said(note: str, **fields: Any) -> SeenEvent:
    """An event of the controller's, where nothing else is given."""
    event = {"metadata": {"name": "e"}, "reason": "ClaimWaiting", "note": note, "eventTime": CREATED}
    return msgspec.convert({**event, "reportingController": "gpu.nvidia.com/controller", **fields}, SeenEvent)


def test_what_was_said_is_shown() -> None:
    world = islands("node-a")
    world.job("big", request(device_class="topology", count=8))
    again = {"count": 3, "lastObservedTime": AT}
    view = explain(world, "big", [said("held for pod team/older", series=again)])
    assert view.events == (
        EventView(time=AT, reason="ClaimWaiting", note="held for pod team/older", reporter="gpu.nvidia.com/controller"),
    )
    assert len(explain(world, "big", [said(str(n)) for n in range(50)]).events) == 10


def test_of_what_others_say_only_that_about_devices_and_scheduling_is_shown() -> None:
    """Also of those who write the older form of events, with time and source elsewhere."""
    world = islands("node-a")
    world.job("big")
    older = {
        "eventTime": None,
        "deprecatedLastTimestamp": AT,
        "reportingController": "",
        "deprecatedSource": {"component": "kubelet"},
    }
    events = [
        said("no", reason="Pulled", **older),
        said("yes", reason="FailedPrepareDynamicResources", **older),
        said("yes", reason="FailedScheduling", reportingController="default-scheduler"),
        said("no", reason="Scheduled", reportingController="default-scheduler"),
    ]
    assert explain(world, "big", events).events == (
        EventView(time=AT, reason="FailedPrepareDynamicResources", note="yes", reporter="kubelet"),
        EventView(time=CREATED, reason="FailedScheduling", note="yes", reporter="default-scheduler"),
    )


def test_an_event_without_a_time_has_none() -> None:
    assert said("x", eventTime=None).time == ""


def test_events_are_asked_for_by_uid() -> None:
    world = islands("node-a")
    pod = world.job("job")
    reading = read(world)
    assert list_uids(reading, pod) == (pod.metadata.uid, world.get(Claim, "job").metadata.uid)
    assert list_uids(reading, world.get(Claim, "job")) == (world.get(Claim, "job").metadata.uid,)


def test_devices_that_the_slices_no_longer_have_are_named_all_the_same() -> None:
    world = islands("node-a", taken={})
    world.claim("old")
    world.allocate("old", "node-z", "gpu-gone")
    (claim,) = explain(world, "claim/old").claims
    assert claim.devices == (
        DeviceView(
            request="gpus",
            driver="gpu.nvidia.com",
            pool="node-z",
            device="gpu-gone",
            gpu=None,
            is_admin=False,
            product="",
            island=None,
        ),
    )


def test_another_drivers_devices_are_listed() -> None:
    world = islands("node-a", taken={})
    world.claim("nic")
    world.allocate("nic", "node-a", "nic-0", driver="nic.example.com")
    world.put(decode(Pod, {"metadata": world.meta("Pod", "net", namespace=NAMESPACE, creationTimestamp=CREATED)}))
    assert [each.driver for each in explain(world, "claim/nic").claims[0].devices] == ["nic.example.com"]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "leftAlone"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, "placeable"),
    ],
    ids=["before kube-scheduler has looked", "after it found nothing"],
)
def test_a_monitor_of_gpus_that_claims_divide_is_told_who_serves_it(status: dict[str, Any], state: str) -> None:
    """Without a controller nobody does: what to do then is said."""
    world = cut_gpus("node-a")
    occupy(world, "job", "node-a", ["gpu-0-mig-1g10gb-19-6"])
    world.job("monitor", request(allocationMode="All", adminAccess=True), status=status)
    found = explain(world, "monitor")
    assert found.state == state
    assert "kube-scheduler keeps even admin access off GPUs of which claims have parts" in found.advice[-1]
