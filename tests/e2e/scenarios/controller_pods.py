"""The controller gives fenced GPUs to pods that really run: all ways to name a claim, and every policy."""

from __future__ import annotations

import statistics
import time

from tests.e2e import objects
from tests.e2e.kube import Json
from tests.e2e.play import FENCED, Play, gpus, is_allocated, is_ours, play, policy
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
FENCED_PLUGIN = ("--allocation", "controller")
_PODS = 8


@SUITE.add("controller: fenced GPUs are allocated at once, and the pods run", needs_minor=MINOR)
def run_fenced_pods(stage: Stage) -> str:
    """One pod after the other, with the scheduler idle: from creation to the decision, and from there to running."""
    stage.start_plugin("dgx-h100", options=FENCED_PLUGIN)
    with play(stage) as on:
        on.start_controller()
        decided_s, ran_s = [], []
        for number in range(_PODS):
            name, began = f"pod-{number}", time.monotonic()
            stage.create_pod(name, gpus(1 + number % 2))
            stage.wait_pod(name, objects.is_running, what="running")
            running_at = time.monotonic()
            stage.expect_own_devices(name, stage.read_view(name))
            claim = stage.read_claim_of(name)
            expect(is_ours(claim), f"the claim of {name} was not allocated by the controller: {claim['metadata']}")
            allocated_at = on.watch.allocated_at(claim["metadata"]["uid"])
            expect(allocated_at is not None, f"the watcher did not see the claim of {name}")
            decided_s.append((allocated_at or 0.0) - began)
            ran_s.append(running_at - (allocated_at or 0.0))
            stage.delete_pods(name)
        decided, ran = statistics.median(decided_s), statistics.median(ran_s)
        expect(ran < 10.0, f"from decision to running takes {ran:.1f} s")
        return f"{_PODS} pods; creation to decision p50 {decided * 1000:.0f} ms, decision to running p50 {ran:.2f} s"


@SUITE.add("controller: templates, named claims, two claims in a pod, a claim that pods share", needs_minor=MINOR)
def run_ways_to_name(stage: Stage) -> str:
    """Eight GPUs are all given, each to one claim; who shares a claim sees the same."""
    stage.start_plugin("dgx-h100", options=FENCED_PLUGIN)
    with play(stage) as on:
        on.start_controller()
        on.create_claim("named", gpus(1))
        on.create_claim("shared", gpus(2))
        on.create_pod("templated", {"gpus": gpus(2)})
        on.create_pod("naming", {"gpus": "named"})
        on.create_pod("two", {"one": gpus(1), "more": gpus(2)})
        on.create_pod("share-1", {"gpus": "shared"})
        on.create_pod("share-2", {"gpus": "shared"})
        pods = ("templated", "naming", "two", "share-1", "share-2")
        views = {name: stage.wait_running(name) for name in pods}
        for name in ("templated", "naming", "share-1", "share-2"):
            stage.expect_own_devices(name, views[name])
        expect(views["share-1"].uuids == views["share-2"].uuids, "the pods that share a claim see other GPUs")
        counts = {name: len(view.uuids) for name, view in views.items()}
        expect(counts == {"templated": 2, "naming": 1, "two": 3, "share-1": 2, "share-2": 2}, f"GPUs: {counts}")
        distinct = {uuid for name in pods for uuid in views[name].uuids}
        expect(len(distinct) == 8, f"{len(distinct)} GPUs were given, not 8")
        shared = on.wait_claim("shared", lambda claim: len(_pods_of(claim)) == 2, what="reserved for both pods")
        _expect_no_guard(on, "two")
        return f"{counts}; the shared claim is reserved for {', '.join(sorted(_pods_of(shared)))}"


def _pods_of(claim: Json) -> set[str]:
    return {each["name"] for each in claim["status"].get("reservedFor", []) if each["resource"] == "pods"}


def _expect_no_guard(on: Play, pod: str) -> None:
    for entry, claim in on.claims_of(pod).items():
        guards = [each for each in claim["status"].get("reservedFor", []) if each["resource"] != "pods"]
        expect(not guards, f"claim {entry} of pod {pod} still has {guards}")


@SUITE.add("controller: required waits for an island, preferred does not, a DeviceClass can say it", needs_minor=MINOR)
def run_policies(stage: Stage) -> str:
    """Two islands of four. One GPU of each is taken; four that must be on NVLink then wait, four that would like to do not."""
    stage.start_plugin("hgx-a100-4x2", options=FENCED_PLUGIN)
    required, preferred = policy(scope="nvlink", mode="required"), policy(scope="nvlink", mode="preferred")
    with play(stage) as on:
        on.start_controller()
        islands = _islands(stage)
        expect(sorted(len(each) for each in islands) == [4, 4], f"the islands are {islands}")
        for number, island in enumerate(islands):
            selector = f'device.attributes["{objects.DRIVER}"].uuid == "{island[0]}"'
            stage.run_pod(f"pin-{number}", gpus(1, selector=f"{FENCED} && {selector}"))
        on.create_pod("must", {"gpus": gpus(4, config=[required])})
        said = on.wait_event("must", "6 free GPU", "need 4")
        stage.expect_own_devices("likes", stage.run_pod("likes", gpus(4, config=[preferred])))
        expect(not _is_allocated(on, "must"), "the pod that must have NVLink was given something")
        stage.delete_pods("likes")
        _create_class(stage, required)
        try:
            on.create_pod("by-class", {"gpus": _of_class(4)})
            on.wait_event("by-class", "need 4")
            stage.delete_pods("pin-0", "pin-1")
            for name in ("must", "by-class"):
                uuids = stage.wait_running(name).uuids
                expect(
                    set(uuids) in [set(each) for each in islands], f"pod {name} has {uuids}, which is no island of {islands}"
                )
        finally:
            stage.api.delete("DeviceClass", None, "island.example.com")
        return f"waits with: {said}; by claim and by class a whole island each"


def _islands(stage: Stage) -> list[list[str]]:
    islands: dict[object, list[str]] = {}
    for device in objects.slice_devices(stage.wait_pool(devices=8)).values():
        islands.setdefault(objects.attribute(device, "nvlinkIsland"), []).append(str(objects.attribute(device, "uuid")))
    return list(islands.values())


def _is_allocated(on: Play, pod: str) -> bool:
    return any(is_allocated(claim) for claim in on.claims_of(pod).values())


def _create_class(stage: Stage, config: Json) -> None:
    selector = f'device.driver == "{objects.DRIVER}" && {FENCED}'
    stage.api.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "island.example.com"},
            "spec": {"selectors": [{"cel": {"expression": selector}}], "config": [config]},
        }
    )


def _of_class(count: int) -> Json:
    request = {"name": "gpus", "exactly": {"deviceClassName": "island.example.com", "count": count}}
    return objects.claim_spec([request])
