"""The plugin is away for long, and comes back: what runs goes on, what is new waits, and nothing is lost."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass

from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.objects import NAMESPACE
from tests.e2e.runner import Suite
from tests.e2e.scenarios.restarts import MACHINE, expect_untouched, read_files, start_pod
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
AN_HOUR_S = 3600.0
_LOOK_S = 60.0
_ONE = objects.claim_spec([objects.exactly()])
_WIPED_WITHIN_S = 60.0
"""The kubelet waits for 30 s before it takes a plugin for gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What was seen: how long it was away, how often all was looked at meanwhile, and how soon all was whole again."""

    away_s: float
    wiped_s: float
    looks: int
    published_s: float
    whole_s: float

    @property
    def summary(self) -> str:
        """In one line."""
        return (
            f"away for {self.away_s:.0f} s; slices back after {self.published_s:.1f} s, the pod that ended and the two that "
            f"were made meanwhile right after {self.whole_s:.1f} s, the one that ran was not touched"
        )


@SUITE.add("node: the plugin is absent for long: pods wait for it, its slices go; back, all is whole")
def run_absent(stage: Stage) -> str:
    """Longer than the kubelet waits. A whole hour is ``e2e.sh --soak absence``."""
    return run_absence(stage, absent_s=0.0).summary


def run_absence(stage: Stage, *, absent_s: float) -> Absence:
    """Away until the kubelet has removed the slices, and for ``absent_s`` more. A pod ends meanwhile, others are made."""
    plugin = stage.start_plugin(MACHINE)
    before = start_pod(stage)
    stage.expect_own_devices("ends", stage.run_pod("ends", _ONE))
    expect(plugin.stop() == 0, "the plugin did not end well")
    stopped_at = time.monotonic()
    stage.api.delete("Pod", NAMESPACE, "ends")
    stage.create_pod("early", _ONE)  # the slices are there still: it is bound, and waits for its prepare
    stage.wait_pod("early", lambda body: bool(body["spec"].get("nodeName")), what="bound")
    gone = "the slices of a plugin that is gone removed by the kubelet"
    stage.api.wait("ResourceSlice", None, lambda found: not found, what=gone, query=stage.pool_query, timeout_s=_WIPED_WITHIN_S)
    wiped_s = time.monotonic() - stopped_at
    stage.create_pod("late", _ONE)
    looks = _look_for(stage, absent_s)
    away_s = time.monotonic() - stopped_at
    plugin.start()
    started_at = time.monotonic()
    plugin.wait_registered()
    stage.wait_pool()
    published_s = time.monotonic() - started_at
    stage.wait_gone("Pod", ["ends"])
    held = [stage.expect_own_devices(name, stage.wait_running(name, timeout_s=300.0)) for name in ("early", "late")]
    whole_s = time.monotonic() - started_at
    expect(len({*held[0], *held[1], *before.devices}) == 4, f"devices are shared: {held} and {before.devices}")
    stage.delete_pods("early", "late")
    expect(wait_until(lambda: read_files(stage) == before.files, timeout_s=20.0), f"there are {sorted(read_files(stage))}")
    expect_untouched(stage, before)
    return Absence(away_s=away_s, wiped_s=wiped_s, looks=looks, published_s=published_s, whole_s=whole_s)


def build_report(seen: Absence, kube_version: str) -> str:
    """What ``--soak absence`` leaves in docs/reports."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"""# The plugin away for {seen.away_s / 60:.0f} minutes

{today}; `hack/devcluster/e2e.sh --soak absence`: a real API server, kubelet, kube-scheduler and containerd {kube_version}.
One pod ran before, one ended meanwhile, one was bound when the plugin went, one was made after the slices were gone.

| | |
| --- | --- |
| away | {seen.away_s:.0f} s |
| the kubelet removed the slices after | {seen.wiped_s:.0f} s |
| looked at meanwhile | {seen.looks} times: the running pod, its files and its claim untouched; the others waiting |
| back: slices published after | {seen.published_s:.1f} s |
| back: the pod that ended gone, both new pods running after | {seen.whole_s:.1f} s |
"""


def _look_for(stage: Stage, absent_s: float) -> int:
    until, looks, files = time.monotonic() + absent_s, 0, read_files(stage)
    while True:
        expect(is_waiting(stage.api, "late"), "a pod is placed though there is no device")
        expect(stage.api.get("Pod", NAMESPACE, "ends") is not None, "a pod is gone though nobody unprepared its claim")
        early = stage.api.get("Pod", NAMESPACE, "early") or {}
        expect(early["status"]["phase"] == "Pending", f"pod early is {early['status']['phase']}")
        expect(objects.is_running(stage.api.get("Pod", NAMESPACE, "before") or {}), "the pod that ran runs no more")
        expect(read_files(stage) == files, f"records or CDI files changed: {sorted(read_files(stage))}")
        looks += 1
        left_s = until - time.monotonic()
        if left_s <= 0:
            return looks
        time.sleep(min(_LOOK_S, left_s))
