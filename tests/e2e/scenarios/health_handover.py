"""Two instances of the plugin while GPUs are sick: a rolling update, a roll back, and a kill of either."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from driver.nvml.mock.faults import XidEvent
from hack.devcluster.processes import wait_until
from tests.e2e import health_view, objects
from tests.e2e.health_view import play, select, wait_state
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.scenarios.health import TAINTS_SINCE, name_device
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_MACHINE = "dgx-h200"
_SICK, _NEXT, _BUSY = name_device(3), name_device(5), name_device(1)
_WITHIN_S = 40.0
_UNKNOWN_S = 15.0
"""The kubelet forgets a driver's states when the stream of any of its instances ends, until another one speaks again."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    """What everybody sees of the node's sick GPUs."""

    stage: Stage
    played: list[XidEvent] = field(default_factory=list)
    earlier: frozenset[str] = frozenset()
    """Events of before this scenario."""
    states: set[str] = field(default_factory=set)
    """All that the kubelet was seen to show."""
    longest_unknown_s: float = 0.0

    def hear(self, *xids: tuple[int, int]) -> None:
        """XIDs, as GPU and number, and all those that were before."""
        self.played += [XidEvent(gpu=gpu, xid=xid, id=str(len(self.played) + at)) for at, (gpu, xid) in enumerate(xids)]
        play(self.stage, *self.played)

    def read_counts(self) -> dict[str, dict[str, int]]:
        """What is on disk."""
        found: dict[str, dict[str, int]] = json.loads((self.stage.folders.plugin_dir / "health.json").read_text())["counts"]
        return found

    def wait_counted(self, wanted: dict[str, dict[str, int]], when: str) -> None:
        """Wait until each XID is counted, once."""
        expect(wait_until(lambda: self.read_counts() == wanted, timeout_s=_WITHIN_S), f"{when}: {self.read_counts()}")

    def read(self, device: str, pod: str) -> Json:
        """All that must stay as it is: taints and condition with their times, the kubelet's states with their words."""
        taints = health_view.read_taints(self.stage.wait_pool()).get(device, ())
        claim = self.stage.read_claim_of(pod)["status"].get("devices", [])
        body = self.stage.api.get("Pod", NAMESPACE, pod) or {}
        shown = [each.get("allocatedResourcesStatus") for each in body["status"]["containerStatuses"]]
        return {"taints": [str(each) for each in taints], "condition": [each["conditions"] for each in claim], "kubelet": shown}

    def wait_said(self, device: str, pod: str) -> Json:
        """Wait until all is said of the device: the XID, and what the driver asks for."""
        expect(wait_until(lambda: str(self.read(device, pod)).count("asks for") == 2, timeout_s=_WITHIN_S), f"{pod}")
        return self.read(device, pod)

    def list_events(self) -> list[str]:
        """What was said since the scenario began: of what, what, and how often."""
        found = self.stage.api.find("Event", None)
        return sorted(
            f"{each['involvedObject']['name']}: {each['message']} ({(each.get('series') or {}).get('count', 1)})"
            for each in found
            if each["reason"].startswith("Gpu") and each["metadata"]["uid"] not in self.earlier
        )

    def watch_states(self, pod: str, is_over: threading.Event) -> None:
        """Note every state that the kubelet shows of a pod's device, until told. It forgets them when a stream ends."""
        known_s = time.monotonic()
        while not is_over.wait(0.2):
            body = self.stage.api.get("Pod", NAMESPACE, pod) or {}
            now = set(health_view.read_states(body).values())
            self.states |= now
            if "Unknown" not in now:
                known_s = time.monotonic()
            self.longest_unknown_s = max(self.longest_unknown_s, time.monotonic() - known_s)


@SUITE.add("health: a rolling update while a GPU is sick", needs_minor=TAINTS_SINCE)
def run_rolling_update(stage: Stage) -> str:
    """XIDs before, between and after; old and new one ended and killed: times and words stay, all is counted once."""
    seen = _Watched(stage=stage)
    seen.earlier = frozenset(each["metadata"]["uid"] for each in stage.api.find("Event", None))
    first = stage.start_plugin(_MACHINE)
    for pod, device in (("ill", _SICK), ("next", _NEXT)):
        stage.run_pod(pod, objects.claim_spec([select(stage, device)]))
    seen.hear((3, 79), (1, 13))
    counts = {_SICK: {"79": 1}, _BUSY: {"13": 1}}
    seen.wait_counted(counts, "before")
    before = seen.wait_said(_SICK, "ill")
    wait_state(stage, "next", "Healthy")

    is_over = threading.Event()
    watcher = threading.Thread(target=seen.watch_states, args=("ill", is_over), daemon=True)
    watcher.start()
    second = _start_beside(stage)
    seen.hear((5, 48), (1, 31))
    counts = {**counts, _NEXT: {"48": 1}, _BUSY: {"13": 1, "31": 1}}
    seen.wait_counted(counts, "between")
    both = seen.wait_said(_NEXT, "next")

    def pass_on(what: str, end: Callable[[], object], *xids: tuple[int, int]) -> None:
        end()
        seen.hear(*xids)
        for _, xid in xids:
            counts[_BUSY] = {**counts[_BUSY], str(xid): counts[_BUSY].get(str(xid), 0) + 1}
        seen.wait_counted(counts, what)
        for device, pod, wanted in ((_SICK, "ill", before), (_NEXT, "next", both)):
            is_so = wait_until(lambda: seen.read(device, pod) == wanted, timeout_s=_WITHIN_S)  # noqa: B023
            expect(is_so, f"{what}: {pod} has {seen.read(device, pod)}, before {wanted}")

    pass_on("the old one ended", lambda: expect(first.stop() == 0, "the old one failed"), (1, 43))
    third = _start_beside(stage)
    pass_on("the new one was killed", third.kill, (1, 45))
    fourth = _start_beside(stage)
    pass_on("the old one was killed", second.kill, (1, 68))
    fifth = _start_beside(stage)
    pass_on("rolled back", lambda: expect(fifth.stop() == 0, "the new one failed"), (1, 109))
    is_over.set()
    watcher.join(10.0)
    expect(fourth.is_running(), "the instance that stays does not run")
    events = seen.list_events()
    expect(len(events) == len(set(events)) and all(each.endswith("(1)") for each in events), f"said twice: {events}")
    expect(seen.states <= {"Unhealthy", "Unknown"}, f"the kubelet showed {seen.states}")
    expect(seen.longest_unknown_s < _UNKNOWN_S, f"the kubelet did not know it for {seen.longest_unknown_s:.1f} s")
    xids = sum(sum(row.values()) for row in counts.values())
    return f"5 instances, {xids} XIDs, {len(events)} events; Unknown for {seen.longest_unknown_s:.1f} s at most"


def _start_beside(stage: Stage) -> Plugin:
    """Another instance, which has taken over."""
    ticket = stage.folders.plugin_dir / "publish.lock"
    before = ticket.read_text()
    plugin = stage.new_plugin(_MACHINE)
    plugin.start()
    plugin.wait_registered()
    expect(wait_until(lambda: ticket.read_text() != before, timeout_s=_WITHIN_S), "the new instance does not publish")
    return plugin
