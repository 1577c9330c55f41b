"""The long count: pods come and go at random, the plugin is killed at random; nothing may be lost, stuck or given twice."""

from __future__ import annotations

import datetime
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.plugin import Plugin
from tests.e2e.process import REPOSITORY
from tests.e2e.stage import Stage, expect

_MACHINE = "dgx-h100"
_GPUS = 8
_SIZES = (1, 1, 1, 2, 2, 4)
_LIVES_S = (0.0, 6.0)
_KILL_EVERY_S = (3.0, 12.0)
_STUCK_S = 240.0
"""A pod that takes longer to run or to go is stuck: some kills fall into its prepare, and each costs a retry."""
_LOOK_S = 0.3


@dataclass(slots=True, kw_only=True)
class SoakPod:
    """One pod's life."""

    name: str
    gpus: int
    created_at: float
    running_at: float | None = None
    delete_at: float = 0.0
    deleted_at: float | None = None
    uuids: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Soak:
    """The state of a run, and its counts."""

    stage: Stage
    plugin: Plugin
    wanted: int
    dice: random.Random
    live: dict[str, SoakPod] = field(default_factory=dict)
    created: int = 0
    kills: int = 0
    starts_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    kill_at: float = 0.0

    def run(self) -> None:
        """Create, look, delete and kill until all pods have come and gone.

        Raises:
            NotAsExpected: a pod is stuck, or two pods have one GPU.
        """
        while self.created < self.wanted or self.live:
            self._create()
            self._look()
            self._delete()
            self._kill()
            time.sleep(_LOOK_S)

    def _create(self) -> None:
        free = _GPUS - sum(pod.gpus for pod in self.live.values())
        gpus = self.dice.choice(_SIZES)
        if self.created >= self.wanted or gpus > free:
            return
        self.created += 1
        pod = SoakPod(name=f"soak-{self.created}", gpus=gpus, created_at=time.monotonic())
        self.stage.api.create(objects.pod(pod.name, templated=f"soak-{gpus}"))
        self.live[pod.name] = pod

    def _look(self) -> None:
        found = {body["metadata"]["name"]: body for body in self.stage.api.find("Pod", NAMESPACE)}
        now = time.monotonic()
        for pod in list(self.live.values()):
            body = found.get(pod.name)
            if body is None:
                expect(pod.deleted_at is not None, f"pod {pod.name} vanished")
                self.ends_s.append(now - (pod.deleted_at or now))
                del self.live[pod.name]
            elif pod.running_at is None and objects.is_running(body):
                self._note_running(pod)
            since = pod.deleted_at or (now if pod.running_at else pod.created_at)
            expect(now - since < _STUCK_S, f"pod {pod.name} is stuck: {_describe(body)}")

    def _note_running(self, pod: SoakPod) -> None:
        pod.running_at = time.monotonic()
        self.starts_s.append(pod.running_at - pod.created_at)
        pod.delete_at = pod.running_at + self.dice.uniform(*_LIVES_S)
        view = self.stage.read_view(pod.name)
        self.stage.expect_own_devices(pod.name, view)
        pod.uuids = view.uuids
        for other in self.live.values():
            shared = set(other.uuids) & set(pod.uuids)
            expect(other is pod or not shared, f"{pod.name} and {other.name} both have {shared}")

    def _delete(self) -> None:
        now = time.monotonic()
        for pod in self.live.values():
            if pod.running_at is not None and pod.deleted_at is None and now >= pod.delete_at:
                self.stage.api.delete("Pod", NAMESPACE, pod.name)
                pod.deleted_at = now
                pod.uuids = ()  # its container may end, and the next pod begin, before it is seen to be gone

    def _kill(self) -> None:
        now = time.monotonic()
        if now < self.kill_at:
            return
        self.kill_at = now + self.dice.uniform(*_KILL_EVERY_S)
        if self.plugin.is_running():
            self.plugin.kill()
            self.kills += 1
        self.plugin.start()


def run_soak(stage: Stage, pods: int, seed: int) -> str:
    """Run ``pods`` pods; the report as Markdown.

    Raises:
        NotAsExpected: something is lost, stuck, left over or given twice.
    """
    began = time.monotonic()
    plugin = stage.start_plugin(_MACHINE)
    stage.wait_pool(devices=_GPUS)
    for gpus in sorted(set(_SIZES)):
        stage.api.create(objects.template(f"soak-{gpus}", objects.claim_spec([objects.exactly(count=gpus)])))
    soak = Soak(stage=stage, plugin=plugin, wanted=pods, dice=random.Random(seed))
    soak.run()
    if not plugin.is_running():
        plugin.start()
    is_clean = wait_until(lambda: not [*stage.folders.list_records(), *stage.folders.list_cdi_files()], timeout_s=60.0)
    expect(is_clean, f"left: {[*stage.folders.list_records(), *stage.folders.list_cdi_files()]}")
    claims = stage.api.wait("ResourceClaim", NAMESPACE, lambda found: not found, what="no claim left", timeout_s=60.0)
    expect(not claims, "claims are left")
    return build_report(soak, took_s=time.monotonic() - began, seed=seed)


def build_report(soak: Soak, *, took_s: float, seed: int) -> str:
    """The run in words and numbers."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    first_s, last_s = _KILL_EVERY_S
    rows = {
        "pods created, run and ended": f"{len(soak.ends_s)} of {soak.wanted}",
        "kills of the plugin": str(soak.kills),
        "pods that saw other devices than they were allocated": "0",
        "GPUs in two running pods at once": "0",
        f"pods stuck (not running or not gone within {_STUCK_S:.0f} s)": "0",
        "records, CDI files, claims left at the end": "0",
        "from created to running, s": _spread(soak.starts_s),
        "from deleted to gone, s": _spread(soak.ends_s),
        "whole run": f"{took_s / 60:.1f} min",
    }
    return (
        "# Soak of the node half\n\n"
        f"{today}; `make e2e-soak` (`hack/devcluster/e2e.sh --soak`): a real kubelet, scheduler and containerd,\n"
        f"Kubernetes {soak.stage.layout.kube_version}, one node, the mock machine {_MACHINE}.\n"
        "Pods with 1, 2 or 4 GPUs come and go at random; the plugin is killed with SIGKILL every "
        f"{first_s:.0f} to {last_s:.0f} s and\nstarted again at once. Seed {seed}.\n\n"
        "| what | result |\n| --- | --- |\n" + "".join(f"| {what} | {result} |\n" for what, result in rows.items()) + "\n"
        "Any other number in the lines with 0 ends the run as failed, and writes no report. The times include the kubelet's\n"
        "retries after a kill, and the machine's other work.\n"
    )


def write_report(text: str, name: str = "e2e-soak") -> Path:
    """Write the report into ``docs/reports``; the path."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    path = REPOSITORY / "docs" / "reports" / f"{date}-{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    return f"median {statistics.median(ordered):.1f}, p95 {p95:.1f}, longest {ordered[-1]:.1f}"


def _describe(body: Json | None) -> str:
    return "gone" if body is None else str(body.get("status", {}))[:1000]
