"""Pods with parts of GPUs and whole ones come and go under kube-scheduler, while things go wrong."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from driver.nvml.mock.faults import CallFails
from driver.nvml.mock.machine import write_faults
from hack.devcluster.processes import wait_until
from tests.e2e import mig_view, objects
from tests.e2e.kube import Json
from tests.e2e.mig_view import Instance, request
from tests.e2e.objects import NAMESPACE
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.scenarios.mig import FIRST_MINOR
from tests.e2e.stage import Stage, expect

SUITE = Suite()
STEPS = 30
_SETTLES_WITHIN_S = 180.0
"""A prepare that fails is tried again after up to 15 s; the failures of one step come to some of these."""
_WISHES = {
    "1g.10gb": (request("1g.10gb"), 4),
    "2g.20gb": (request("2g.20gb"), 3),
    "3g.40gb": (request("3g.40gb"), 4),
    "4g.40gb": (request("4g.40gb"), 4),
    "whole": (objects.exactly(), 4),
}
"""What is asked for, and how often."""
_SIZES = {19: 1, 20: 1, 15: 2, 14: 2, 9: 4, 5: 4, 0: 8}
_FITTING = {"1g.10gb": (1, range(7)), "2g.20gb": (2, (0, 2, 4)), "3g.40gb": (4, (0, 4)), "4g.40gb": (4, (0,))}
_FAILING = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
    "nvmlDeviceGetUUID",
)


@dataclass(slots=True)
class Churn:
    """The pods that run, and what they were given."""

    stage: Stage
    plugin: Plugin
    devices: dict[str, Json]
    rng: random.Random
    running: dict[str, str] = field(default_factory=dict)
    """Wish by pod."""
    number: int = 0
    waited: int = 0
    placed: int = 0
    kills: int = 0
    wishes: Counter[str] = field(default_factory=Counter)
    """How often each was asked for."""

    def step(self, trouble: Callable[[], None]) -> None:
        """One pod comes or one goes, while ``trouble`` is made; then all is as it should be."""
        if self.running and self.rng.random() < 0.4:
            pod = self.rng.choice(sorted(self.running))
            self.stage.api.delete("Pod", NAMESPACE, pod)
            trouble()
            self.stage.wait_gone("Pod", [pod], timeout_s=_SETTLES_WITHIN_S)
            del self.running[pod]
        else:
            wish = self.rng.choices(list(_WISHES), [often for _, often in _WISHES.values()])[0]
            self.wishes[wish] += 1
            self.number += 1
            pod = f"pod-{self.number}"
            self.stage.create_pod(pod, objects.claim_spec([_WISHES[wish][0]]), command="exec sleep 100000")
            trouble()
            self._settle(pod, wish)
        self.expect_right()

    def expect_right(self) -> None:
        """The machine has what the running pods were given, and each record is one of theirs."""
        is_right = wait_until(self._is_right, timeout_s=30.0)
        if not is_right:
            mig_view.expect_equal(self.stage, self.running, self.devices)
        records = len(self.stage.folders.list_records())
        expect(records == len(self.running), f"{len(self.running)} pods run, and there are {records} records")

    def _is_right(self) -> bool:
        names = [name for pod in self.running for name in objects.allocated_devices(self.stage.read_claim_of(pod))]
        wanted = sorted(each for each in (mig_view.parse_instance(self.devices[name]) for name in names) if each)
        return mig_view.read_instances(self.stage.folders) == wanted and len(self.stage.folders.list_records()) == len(
            self.running
        )

    def _settle(self, pod: str, wish: str) -> None:
        """The pod runs, or is said to have no place, and then there is none."""

        def is_settled(body: Json) -> bool:
            conditions = body.get("status", {}).get("conditions", [])
            is_refused = any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
            return objects.is_running(body) or (is_refused and not body["spec"].get("nodeName"))

        body = self.stage.wait_pod(pod, is_settled, what="running or without a place", timeout_s=_SETTLES_WITHIN_S)
        if objects.is_running(body):
            self.running[pod] = wish
            self.placed += 1
            return
        free = self._find_place(wish)
        if free is not None and wait_until(lambda: self._runs(pod), timeout_s=30.0):
            self.running[pod] = wish
            self.placed += 1
            return
        expect(
            free is None,
            f"{wish} waits, and there is room for it: {free}; there is {mig_view.read_instances(self.stage.folders)}",
        )
        self.waited += 1
        self.stage.delete_pods(pod)

    def _runs(self, pod: str) -> bool:
        return objects.is_running(self.stage.api.get("Pod", NAMESPACE, pod) or {})

    def _find_place(self, wish: str) -> str | None:
        """A GPU on which ``wish`` fits beside what the running pods were given."""
        given = [name for pod in self.running for name in objects.allocated_devices(self.stage.read_claim_of(pod))]
        whole = {str(objects.attribute(self.devices[name], "uuid")) for name in given if "-mig-" not in name}
        parts = [each for each in (mig_view.parse_instance(self.devices[name]) for name in given) if each is not None]
        for name, device in self.devices.items():
            uuid = str(objects.attribute(device, "uuid"))
            if "-mig-" not in name and uuid not in whole and _fits(wish, [each for each in parts if each.gpu == uuid]):
                return name
        return None


def _fits(wish: str, parts: list[Instance]) -> bool:
    if wish == "whole":
        return not parts
    taken = {number for each in parts for number in range(each.start, each.start + _SIZES[each.profile])}
    size, starts = _FITTING[wish]
    return any(taken.isdisjoint(range(start, start + size)) for start in starts)


def start_churn(stage: Stage, seed: int) -> Churn:
    """A machine of four H100."""
    plugin = stage.start_plugin("hgx-h100-4", mig="auto")
    devices = dict(objects.slice_devices(stage.wait_pool(devices=4 * 26)))
    return Churn(stage, plugin, devices, random.Random(seed))


def run_steps(stage: Stage, seed: int, steps: int, trouble: Callable[[Churn], Callable[[], None]]) -> str:
    """So many steps, then the end of all pods; what was seen."""
    churn = start_churn(stage, seed)
    for _ in range(steps):
        churn.step(trouble(churn))
    write_faults(stage.folders.mock_state, [])
    stage.delete_pods(*churn.running)
    churn.running.clear()
    churn.expect_right()
    return f"{steps} steps, seed {seed}: {churn.placed} placed, {churn.waited} had no place, nothing left"


def _no_trouble(_churn: Churn) -> Callable[[], None]:
    return lambda: None


def _kill(churn: Churn) -> Callable[[], None]:
    """Half of the time the plugin dies within the next second, and is started again."""
    delay_s = churn.rng.random()
    is_killed = churn.rng.random() < 0.5

    def trouble() -> None:
        if is_killed:
            time.sleep(delay_s)  # the moment is what is tried, not a condition
            churn.kills += 1
            churn.plugin.kill()
            churn.plugin.start()
            churn.plugin.wait_registered()

    return trouble


def _fail_calls(churn: Churn) -> Callable[[], None]:
    """The next calls of one kind fail, some times."""
    call = churn.rng.choice(_FAILING)
    code = churn.rng.choice(("UNKNOWN", "IN_USE", "INSUFFICIENT_RESOURCES", "NO_PERMISSION"))
    times = churn.rng.randint(1, 3)
    write_faults(churn.stage.folders.mock_state, [CallFails(call=call, code=code, times=times)])
    return lambda: None


TROUBLES: Mapping[str, Callable[[Churn], Callable[[], None]]] = {
    "in peace": _no_trouble,
    "kill -9": _kill,
    "failing NVML calls": _fail_calls,
}
"""What is chosen before each step, and then made during it."""


@SUITE.add("MIG: 1g, 2g, 3g, 4g and whole GPUs come and go in random order", needs_minor=FIRST_MINOR)
def run_in_peace(stage: Stage) -> str:
    """After each step the machine's instances equal the claims that are prepared."""
    return run_steps(stage, 20261202, STEPS, _no_trouble)


@SUITE.add("MIG: the same while the plugin is killed with -9 at random moments", needs_minor=FIRST_MINOR)
def run_with_kills(stage: Stage) -> str:
    """Whatever was half made is finished or undone."""
    return run_steps(stage, 7, STEPS, _kill)


@SUITE.add("MIG: the same while NVML calls fail", needs_minor=FIRST_MINOR)
def run_with_failures(stage: Stage) -> str:
    """Each claim is tried again, and leaves nothing of the tries."""
    return run_steps(stage, 11, STEPS, _fail_calls)
