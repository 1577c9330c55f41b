"""Allocations that are of no use go back: nothing stays longer than the limit, and nothing goes to and fro."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.controller import Controller
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import SHORT_TIMES, Play, gpus, is_allocated, node_of, play
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
UNBOUND_S = 6
_OPTIONS = (*SHORT_TIMES, "--unbound-s", str(UNBOUND_S))
_TWO = {"node-1": "dgx-a100", "node-2": "dgx-a100"}
_BACK_S = UNBOUND_S + 20.0
"""Until a take-back is seen: the limit, the look, the writes, on a busy machine."""


@contextlib.contextmanager
def scheduler_stopped(stage: Stage) -> Iterator[None]:
    """What happens in here happens between the controller's decision and the scheduler's."""
    stage.stop_component("scheduler")
    try:
        yield
    finally:
        stage.start_component("scheduler")


def start(on: Play) -> Controller:
    """A controller that waits only seconds for pods to be bound."""
    return on.start_controller(options=_OPTIONS)


@SUITE.add("controller: a node is cordoned after the decision: placed elsewhere, or explained", needs_minor=MINOR)
def run_cordoned(stage: Stage) -> str:
    """kube-scheduler cannot bind the pod there and takes the allocation back, or we do."""
    with play(stage, _TWO) as on:
        start(on)
        with scheduler_stopped(stage):
            on.create_pod("pod", {"gpus": gpus(8)})
            first = node_of(on.wait_allocated("pod")["gpus"])
            _cordon(stage, first)
        began = time.monotonic()
        second = on.wait_bound("pod", timeout_s=_BACK_S * 2)["pod"]
        moved_s = time.monotonic() - began
        expect(second != first, f"the pod is bound to the cordoned node {first}")
        on.create_pod("late", {"gpus": gpus(8)})
        said = on.wait_event("late", "need 8", timeout_s=30.0)
        expect(on.watch.allocations <= 3, f"{on.watch.allocations} allocations for one pod: it goes to and fro")
        return f"from {first} to {second} in {moved_s:.1f} s, {on.watch.allocations} allocations; the next one waits: {said}"


def _cordon(stage: Stage, node: str) -> None:
    where = stage.api.path("Node", None, node)
    stage.api.request("PATCH", where, {"spec": {"unschedulable": True}}, kind="application/merge-patch+json")


@SUITE.add("controller: a named claim whose pod goes between decision and binding is freed", needs_minor=MINOR)
def run_pod_goes(stage: Stage) -> str:
    """Nobody but us frees it: kube-controller-manager only does when a pod that was reserved goes."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        start(on)
        on.create_claim("named", gpus(8))
        with scheduler_stopped(stage):
            on.create_pod("pod", {"gpus": "named"})
            on.wait_allocated("pod")
            on.delete_pods("pod")
            began = time.monotonic()
            on.wait_claim("named", lambda claim: not is_allocated(claim), what="free", timeout_s=_BACK_S * 2)
            freed_s = time.monotonic() - began
        on.create_pod("next", {"gpus": "named"})
        on.wait_bound("next")
        return f"free {freed_s:.1f} s after its pod went, and used by the next pod"


@SUITE.add("controller: another pod fills the node after the decision, and ours is pinned to it", needs_minor=MINOR)
def run_node_filled(stage: Stage) -> str:
    """It cannot be bound there, and nowhere else: the GPUs go to somebody who can run."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        start(on)
        pinned = {"kubernetes.io/hostname": "node-1"}
        with scheduler_stopped(stage):
            on.create_pod("pinned", {"gpus": gpus(8)}, cpu="100", nodeSelector=pinned)
            on.wait_allocated("pinned")
            on.create_pod("filler", {}, cpu="60", nodeName="node-1")
        on.wait_claims("pinned", lambda claim: not is_allocated(claim), what="taken back", timeout_s=_BACK_S * 2)
        on.create_pod("small", {"gpus": gpus(8)}, cpu="1")
        on.wait_bound("small", timeout_s=_BACK_S)
        on.wait_event("pinned", "need 8", reason="ClaimWaiting", timeout_s=90.0)
        said = on.wait_event("pinned", reason="ClaimTakenBack")
        expect(on.watch.allocations <= 3, f"{on.watch.allocations} allocations: it goes to and fro")
        return f"taken back and given to a pod that fits; said: {said}"


@SUITE.add("controller: a pod whose other claim fits nowhere keeps no GPUs", needs_minor=MINOR)
def run_second_driver(stage: Stage) -> str:
    """The claim of another driver, of which no device exists, never lets the pod run."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        start(on)
        stage.api.create(_class_of_nothing())
        try:
            other = objects.claim_spec([{"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}}])
            on.create_pod("both", {"gpus": gpus(8), "nic": other})
            on.create_pod("plain", {"gpus": gpus(8)})
            began = time.monotonic()
            on.wait_bound("plain", timeout_s=_BACK_S * 3)
            waited_s = time.monotonic() - began
            is_calm = not wait_until(lambda: on.watch.allocations > 3, timeout_s=UNBOUND_S)
            expect(is_calm, f"{on.watch.allocations} allocations: it goes to and fro")
        finally:
            on.delete_pods("both", "plain")
            stage.api.delete("DeviceClass", None, "nic.example.com")
        return f"the pod beside it was bound after {waited_s:.1f} s; {on.watch.allocations} allocations in all"


def _class_of_nothing() -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "nic.example.com"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]},
    }


@SUITE.add("controller: a gated pod is given nothing until its gate goes", needs_minor=MINOR)
def run_gated(stage: Stage) -> str:
    """A suspended job must not hoard (R7)."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        start(on)
        on.create_pod("gated", {"gpus": gpus(8)}, schedulingGates=[{"name": "example.com/wait"}])
        on.wait_claims("gated", lambda claim: True, what="made")
        on.create_pod("other", {"gpus": gpus(8)})
        on.wait_bound("other")
        expect(not any(is_allocated(each) for each in on.claims_of("gated").values()), "a gated pod was given GPUs")
        on.delete_pods("other")
        where = stage.api.path("Pod", NAMESPACE, "gated")
        stage.api.request("PATCH", where, {"spec": {"schedulingGates": None}}, kind="application/merge-patch+json")
        on.wait_bound("gated")
        return "nothing while gated, bound once the gate went"


@SUITE.add("controller: two claims of which an unfenced node could serve one", needs_minor=MINOR)
def run_two_sides(stage: Stage) -> str:
    """kube-scheduler could allocate the one elsewhere and clear it again, for ever (R6)."""
    with play(stage, {"fenced": "dgx-a100"}) as on:
        stage.fleet.add({"open": "dgx-a100"}, is_fenced=False)
        start(on)
        either = objects.claim_spec([objects.exactly(count=1)])
        names = [f"pod-{number}" for number in range(3)]
        for name in names:
            on.create_pod(name, {"either": either, "ours": gpus(1)})
        nodes = on.wait_bound(*names, timeout_s=_BACK_S * 2)
        expect(set(nodes.values()) == {"fenced"}, f"bound to {nodes}")
        before = on.watch.allocations
        is_calm = not wait_until(lambda: on.watch.allocations > before, timeout_s=UNBOUND_S + 4.0)
        expect(is_calm, "claims of bound pods were allocated again")
        expect(before <= 12, f"{before} allocations for six claims: it goes to and fro")
        return f"three pods with both claims on the fenced node; {before} allocations for 6 claims"
