"""An API server that turns requests away, has forgotten what was watched, and claims that somebody rewrites all the time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hack.devcluster.processes import wait_until
from tests.e2e.controller import Controller
from tests.e2e.identity import CONTROLLER, SYSTEM_NAMESPACE
from tests.e2e.kube import ApiRefused, Json, KubeApi
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import Play, gpus, is_allocated, play
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
_NAME = "e2e-rejected"
_VERSION = "flowcontrol.apiserver.k8s.io/v1"
_PATIENT = ("--lease-s", "60", "--renew-s", "50", "--retry-s", "2", "--request-timeout-s", "5")
"""The leader is to live through all of it: what is tried is not who leads."""
_REJECTED_S = 6.0
_MOST_REJECTED = 150
"""In these seconds: some for each claim that waits, which backs off, and a few for the lease."""


@SUITE.add("controller: the API server says 429, and has forgotten what was watched", needs_minor=MINOR)
def run_pressure(stage: Stage) -> str:
    """Rejected for seconds; then frozen while etcd is compacted and the API server restarted; then under a storm of 409."""
    with play(stage, {"node-1": "dgx-a100", "node-2": "dgx-a100", "node-3": "dgx-a100"}) as on:
        on.may_lose_place = True
        controller = on.start_controller(options=_PATIENT)
        pid = controller.pid
        on.create_pod("first", {"gpus": gpus(2)})
        on.wait_bound("first")
        said = [_reject(on), _forget(on, controller), _storm(on, controller)]
        expect(controller.is_running() and controller.pid == pid, "the controller did not live through it")
        return "; ".join(said)


def _reject(on: Play) -> str:
    names = [f"rejected-{number}" for number in range(6)]
    with _rejected(on.stage.api):
        before = _count_rejected(on.stage.api)
        for name in names:
            on.create_pod(name, {"gpus": gpus(1)})
        time.sleep(_REJECTED_S)
        count = _count_rejected(on.stage.api) - before
        allocated = [name for name in names if any(is_allocated(each) for each in on.claims_of(name).values())]
    began = time.monotonic()
    on.wait_bound(*names, timeout_s=30.0)
    took_s = time.monotonic() - began
    on.check_doubles()
    expect(not allocated, f"claims of {allocated} were written, though every request was to be rejected")
    expect(0 < count <= _MOST_REJECTED, f"{count} requests in {_REJECTED_S:.0f} s of 429")
    on.delete_pods(*names)
    return f"429 for {_REJECTED_S:.0f} s: {count} requests, 6 pods bound {took_s:.1f} s after it"


@contextlib.contextmanager
def _rejected(api: KubeApi) -> Iterator[None]:
    """From here on a request of the controller's hangs, and every other one is answered with 429, until the block ends.

    A level that queues nothing lets requests through one by one, even where it has no seat.
    """
    api.apply(_LEVEL)
    api.apply(_SCHEMA)
    try:
        waiting = "apiserver_flowcontrol_current_inqueue_requests{"
        is_heeded = wait_until(lambda: _read_flow(api, waiting) > 0, timeout_s=20.0)
        expect(is_heeded, "the API server does not heed the flow schema")
        yield
    finally:
        api.delete("FlowSchema", None, _NAME)
        api.delete("PriorityLevelConfiguration", None, _NAME)


def _count_rejected(api: KubeApi) -> int:
    return _read_flow(api, "apiserver_flowcontrol_rejected_requests_total{")


def _read_flow(api: KubeApi, name: str) -> int:
    lines = [line for line in api.request_text("GET", "/metrics").splitlines() if line.startswith(name) and _NAME in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


_LEVEL: Json = {
    "apiVersion": _VERSION,
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": _NAME},
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 0,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}},
        },
    },
}
_SCHEMA: Json = {
    "apiVersion": _VERSION,
    "kind": "FlowSchema",
    "metadata": {"name": _NAME},
    "spec": {
        "priorityLevelConfiguration": {"name": _NAME},
        "matchingPrecedence": 2,
        "rules": [
            {
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": CONTROLLER, "namespace": SYSTEM_NAMESPACE}}],
                "resourceRules": [
                    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
                ],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        ],
    },
}


def _forget(on: Play, controller: Controller) -> str:
    """While it is frozen a pod goes, others come, and nobody can tell afterwards what came in between."""
    stage = on.stage
    controller.freeze()
    try:
        stage.api.delete("Pod", NAMESPACE, "first", grace_s=0)
        names = [f"forgotten-{number}" for number in range(3)]
        for name in names:
            on.create_pod(name, {"gpus": gpus(8)})
        stage.forget_history()
    finally:
        controller.thaw()
    began = time.monotonic()
    on.wait_bound(*names, timeout_s=60.0)
    took_s = time.monotonic() - began
    count = controller.read_log().count("watch is too old, listing again")
    expect(count > 0, "no watch was refused with 410: the API server still knew all that had happened")
    on.delete_pods(*names)
    return f"{count} watches were answered with 410, 3 pods on whole nodes bound {took_s:.1f} s after it woke up"


@dataclass(slots=True)
class _Rewriter:
    """Rewrites the metadata of all claims, as fast as it can; in several threads."""

    api: KubeApi
    writes: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.is_over.is_set():
            for claim in self.api.find("ResourceClaim", NAMESPACE):
                self._rewrite(claim["metadata"]["name"])

    def _rewrite(self, name: str) -> None:
        self.writes += 1
        body = {"metadata": {"labels": {"e2e/rewritten": str(self.writes)}}}
        with contextlib.suppress(ApiRefused):  # it went
            where = self.api.path("ResourceClaim", NAMESPACE, name)
            self.api.request("PATCH", where, body, kind="application/merge-patch+json")


def _storm(on: Play, controller: Controller) -> str:
    """Three claims at a time, so that each is rewritten about once in the time that a write takes."""
    before = _count_conflicts(controller)
    rewriter = _Rewriter(on.stage.api)
    threads = [threading.Thread(target=rewriter.run, daemon=True) for _ in range(4)]
    slowest_s = 0.0
    try:
        for number in range(5):
            names = [f"storm-{number}-{each}" for each in "abc"]
            for name in names:
                on.create_claim(name, gpus(1))
            if not number:
                for thread in threads:
                    thread.start()
            began = time.monotonic()
            for name in names:
                on.create_pod(name, {"gpus": name})
            on.wait_bound(*names, timeout_s=30.0)
            slowest_s = max(slowest_s, time.monotonic() - began)
            on.delete_pods(*names)
            for name in names:
                on.stage.api.delete("ResourceClaim", NAMESPACE, name)
    finally:
        rewriter.is_over.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    conflicts = _count_conflicts(controller) - before
    expect(conflicts >= 3, f"{conflicts:.0f} writes met a conflict beside {rewriter.writes} of another program")
    expect(conflicts < 300, f"{conflicts:.0f} conflicts for 15 claims")
    others = f"{rewriter.writes} writes to their claims by another program"
    return f"15 pods, 3 at a time, bound within {slowest_s:.1f} s beside {others}, {conflicts:.0f} conflicts"


def _count_conflicts(controller: Controller) -> float:
    lines = [line for line in controller.ask("/metrics")[1].splitlines() if line.startswith("gpu_dra_write_failures_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "onflict" in line)
