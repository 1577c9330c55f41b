"""What is broken is said, clearly and where people look; everybody else goes on. And both allocators at work at once."""

from __future__ import annotations

import copy
import os
import random
import statistics
import time

from tests.e2e import objects
from tests.e2e.churn import Churn, look_at_sides
from tests.e2e.kube import ApiRefused, Json
from tests.e2e.mock_fleet import build_slices
from tests.e2e.play import FENCED, SHORT_TIMES, gpus, is_allocated, play
from tests.e2e.runner import Suite
from tests.e2e.scenarios.controller_takeback import UNBOUND_S
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
_MIXED_S = 60.0


@SUITE.add("controller: broken selectors, missing classes, mixed drivers, 33 devices; others go on", needs_minor=MINOR)
def run_broken_claims(stage: Stage) -> str:
    """Each is told on pod and claim; a pod that is well is placed beside them."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        _add_wide_node(stage)
        on.start_controller()
        try:
            on.create_claim("garbled", gpus(1, selector="device.nonsense ==="))
            refused = "taken"
        except ApiRefused as err:
            refused = str(err.status)
        bare = f'{FENCED} && device.attributes["{objects.DRIVER}"].nonsense == "x"'
        uuid = f'device.attributes["{objects.DRIVER}"].uuid'
        slow = f"{FENCED} && {_nest(4, f'{uuid} != string(a + b + c + d)')}"
        broken = {
            "slow": (gpus(1, selector=slow), ("the selector is too slow", "loop over less")),
            "bare": (gpus(1, selector=bare), ("nonsense",)),
            "classless": (_of_classes("missing.example.com"), ("missing.example.com",)),
            "mixed": (_of_classes(objects.GPU_CLASS, "missing.example.com"), ("missing.example.com",)),
            "wide": (_all_devices(), ("a claim can have 32 at most",)),
            "many": (gpus(33), ("32",)),
        }
        for name, (spec, _) in broken.items():
            pinned = {"kubernetes.io/hostname": "wide"} if name == "wide" else {}
            on.create_pod(name, {"gpus": spec}, nodeSelector=pinned)
        on.create_pod("well", {"gpus": gpus(2)})
        on.wait_bound("well")
        said = {name: on.wait_event(name, *texts) for name, (_, texts) in broken.items()}
        for name in broken:
            expect(not any(is_allocated(each) for each in on.claims_of(name).values()), f"claim of {name} was allocated")
        return f"syntax refused with {refused}; " + "; ".join(f"{name}: {text[:90]}" for name, text in said.items())


def _nest(depth: int, body: str) -> str:
    """Legal, and slow: ten times as slow with each level."""
    for name in "abcd"[:depth]:
        body = f"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all({name}, {body})"
    return body


def _of_classes(*classes: str) -> Json:
    return objects.claim_spec(
        [{"name": f"r{number}", "exactly": {"deviceClassName": name}} for number, name in enumerate(classes)]
    )


def _all_devices() -> Json:
    request = {"deviceClassName": objects.GPU_CLASS, "allocationMode": "All", "selectors": [{"cel": {"expression": FENCED}}]}
    return objects.claim_spec([{"name": "gpus", "exactly": request}])


def _add_wide_node(stage: Stage) -> None:
    """A node with 48 devices: a claim can have 32."""
    stage.fleet.add({"wide": "dgx-2"})
    for body in stage.api.find("ResourceSlice", query="fieldSelector=spec.nodeName%3Dwide"):
        devices = body["spec"]["devices"]
        body["spec"]["devices"] = [
            {**copy.deepcopy(device), "name": f"{device['name']}-{number}"} for number in range(3) for device in devices
        ]
        body["spec"]["pool"]["generation"] += 1
        stage.api.request("PUT", stage.api.path("ResourceSlice", None, body["metadata"]["name"]), body)


@SUITE.add("controller: an incomplete pool, and a device that vanishes", needs_minor=MINOR)
def run_odd_pools(stage: Stage) -> str:
    """Nothing is given from a pool that is not whole; what vanished is not given again, and who has it keeps it."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        _add_half_a_pool(stage)
        on.start_controller()
        on.create_pod("early", {"gpus": gpus(1)}, nodeSelector={"kubernetes.io/hostname": "half"})
        said = on.wait_event("early", "half")
        on.create_pod("holder", {"gpus": gpus(2)})
        on.wait_bound("holder")
        held = objects.allocated_devices(on.claims_of("holder")["gpus"])
        _drop_device(stage, held[0])
        on.create_pod("rest", {"gpus": gpus(6)})
        on.wait_bound("rest")
        on.create_pod("more", {"gpus": gpus(1)}, nodeSelector={"kubernetes.io/hostname": "node-1"})
        on.wait_event("more", "need 1")
        expect(objects.allocated_devices(on.claims_of("holder")["gpus"]) == held, "the holder of a vanished device lost it")
        _complete_pool(stage)
        on.wait_bound("early")
        return f"incomplete: {said}; {held[0]} vanished: its holder keeps it, the other six are given, a ninth is not"


def _add_half_a_pool(stage: Stage) -> None:
    stage.fleet.add({"half": "dgx-a100"})
    for body in stage.api.find("ResourceSlice", query="fieldSelector=spec.nodeName%3Dhalf"):
        body["spec"]["pool"] |= {"resourceSliceCount": 2, "generation": 2}
        stage.api.request("PUT", stage.api.path("ResourceSlice", None, body["metadata"]["name"]), body)


def _complete_pool(stage: Stage) -> None:
    (body,) = build_slices("dgx-a100", "half", is_fenced=True)
    body["spec"]["pool"] |= {"resourceSliceCount": 2, "generation": 2}
    body["spec"]["devices"] = [{**each, "name": f"{each['name']}-late"} for each in body["spec"]["devices"]]
    stage.api.create(body)


def _drop_device(stage: Stage, name: str) -> None:
    for body in stage.api.find("ResourceSlice", query="fieldSelector=spec.nodeName%3Dnode-1"):
        body["spec"]["devices"] = [each for each in body["spec"]["devices"] if each["name"] != name]
        body["spec"]["pool"]["generation"] += 1
        stage.api.request("PUT", stage.api.path("ResourceSlice", None, body["metadata"]["name"]), body)


@SUITE.add("controller: both allocators busy for a minute, on fenced and unfenced nodes", needs_minor=MINOR)
def run_mixed_cluster(stage: Stage) -> str:
    """Claims for either side and for both; each allocation must be by the side whose device it is."""
    fenced, unfenced = {"fenced-1": "dgx-a100", "fenced-2": "hgx-a100-4x2"}, {"open-1": "dgx-a100", "open-2": "dgx-h100"}
    with play(stage, fenced) as on:
        stage.fleet.add(unfenced, is_fenced=False)
        on.start_controller(options=(*SHORT_TIMES, "--unbound-s", str(UNBOUND_S)))
        until = time.monotonic() + _MIXED_S
        churn = Churn(play=on, wanted=0, until=until, capacity=26, dice=random.Random(os.getpid()), is_mixed=True)
        sides = look_at_sides(churn, frozenset(fenced))
        churn.run()
        expect(len(sides) == 2, f"one side gave nothing: {dict(sides)}")
        return (
            f"{churn.ended} pods in {_MIXED_S:.0f} s, {on.watch.allocations} allocations, no double, each side its own devices"
            f" (seen: {dict(sides)}); creation to bound p50 {statistics.median(churn.bound_s):.1f} s"
        )
