"""A node changes sides on a real cluster, while pods hang between the choice of devices and its writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hack.devcluster.processes import wait_until
from tests.e2e import manifests, objects
from tests.e2e.held_writes import held_writes
from tests.e2e.kube import Json
from tests.e2e.late_volume import late_volume
from tests.e2e.play import Play, is_allocated, is_ours, play
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.side_watch import KEY, SideWatch, read_side
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
MINOR = 36
_SIDES_IN = ("scheduler", "draining", "controller")
_SIDES_OUT = ("controller", "draining", "scheduler")
_HANG_S = 5.0
_EXAMPLES = {
    "required": {"main": 4},
    "preferred": {"main": 2},
    "policy-by-class": {"main": 2},
    "two-claims": {"train": 4, "serve": 1},
}
"""How many GPUs each container of an example sees."""


@SUITE.add("fence: a new node of the controller is fenced from its first slice on; an old Kubernetes refuses")
def run_new_node(stage: Stage) -> str:
    """Below 1.36 the taint would be dropped in silence: the node stays kube-scheduler's, and says why."""
    with SideWatch(stage.api, stage.pool_query) as watch:
        stage.start_plugin("dgx-h100", options=("--allocation", "controller"))
        stage.wait_pool(devices=8)
        is_able = stage.minor >= MINOR
        side = "controller" if is_able else "scheduler"
        expect(watch.sides == (side,), f"the devices were published as {watch.sides}, not as {side} alone")
    if is_able:
        stage.create_pod("plain", objects.claim_spec([objects.exactly()]))
        expect(is_waiting(stage.api, "plain"), "kube-scheduler gave a fenced GPU away")
        return "fenced; a pod without a controller waits"
    said = _wait_said(stage, "FenceRefused")
    return f"kube-scheduler's; said: {said}"


@SUITE.add("fence: a node goes over by its label, and back, with pods on both sides", needs_minor=MINOR)
def run_label(stage: Stage) -> str:
    """Pods go on over each change; each side gives only what is its own; the controller's word ends the drain."""
    with play(stage) as on, _labels(stage), SideWatch(stage.api, stage.pool_query) as watch:
        on.start_controller()
        stage.start_plugin("dgx-h100", options=("--drain-time", "3s"))
        before = stage.expect_own_devices("before", stage.run_pod("before", _plain(2)))
        in_s = _change(stage, "controller")
        between = stage.expect_own_devices("between", stage.run_pod("between", _topology(4)))
        expect(is_ours(stage.read_claim_of("between")), "the claim on the fenced node is not the controller's")
        stage.create_pod("waits", _plain(1))
        expect(is_waiting(stage.api, "waits"), "kube-scheduler gave a fenced GPU away")
        out_s = _change(stage, None)
        stage.wait_running("waits")
        after = stage.expect_own_devices("waits", stage.read_view("waits"))
        expect(len({*before, *between, *after}) == 7, f"{before}, {between} and {after} share GPUs")
        node = stage.api.get("Node", None, stage.layout.node) or {}
        expect(objects.DRAINED in node["metadata"].get("annotations", {}), "the node left without the controller's word")
        _expect_sides(watch, (*_SIDES_IN, *_SIDES_OUT[1:]))
        return f"to the controller in {in_s:.1f} s, back in {out_s:.1f} s"


@SUITE.add("fence: kube-scheduler hangs with a choice in its memory while the node goes over", needs_minor=MINOR)
def run_hang_in(stage: Stage) -> str:
    """R3: what it chose it writes on a draining node; the controller comes after it, and gives only the rest."""
    with play(stage) as on, _labels(stage):
        on.start_controller()
        stage.start_plugin("dgx-h100", options=("--drain-time", "30s"))
        return _go_over_while_hanging(on, lambda: _label(stage, "controller"))


@SUITE.add("fence: the same by an upgrade that changes the setting, two instances at a time", needs_minor=MINOR)
def run_hang_upgrade(stage: Stage) -> str:
    """The old instance lives on for a while, and the kubelet wipes the slices meanwhile: the fence stays up."""
    with play(stage) as on:
        on.start_controller()
        old = stage.start_plugin("dgx-h100")

        def upgrade() -> None:
            new = stage.new_plugin("dgx-h100", options=("--allocation", "controller", "--drain-time", "30s"))
            new.start()
            new.wait_registered()
            _wait_side(stage, "draining")
            for each in stage.api.find("ResourceSlice", query=stage.pool_query):
                stage.api.delete("ResourceSlice", None, each["metadata"]["name"])
            _wait_side(stage, "draining")
            _stop(old)

        return _go_over_while_hanging(on, upgrade)


@SUITE.add("fence: a pod of the controller's hangs while the node goes back to kube-scheduler", needs_minor=MINOR)
def run_hang_out(stage: Stage) -> str:
    """Its claim is written already: kube-scheduler gives only the rest, and the pod runs when its volume is there."""
    with play(stage) as on, _labels(stage), late_volume(stage.api, stage.layout, "late") as volume:
        on.start_controller()
        stage.start_plugin("dgx-h100", options=("--allocation", "controller"))
        with SideWatch(stage.api, stage.pool_query) as watch:
            on.create_pod("hangs", {"gpus": _topology(4)}, **volume.pod_fields())
            volume.wait_chosen()
            on.wait_allocated("hangs")
            out_s = _change(stage, "scheduler")
            _expect_sides(watch, _SIDES_OUT)
        stage.create_pod("eight", _plain(8))
        rest = stage.expect_own_devices("rest", stage.run_pod("rest", _plain(4)))
        expect(is_waiting(stage.api, "eight"), "eight GPUs were given though four are held")
        volume.let_go()
        stage.wait_running("hangs")
        mine = stage.expect_own_devices("hangs", stage.read_view("hangs"))
        expect(not set(mine) & set(rest), f"{mine} and {rest} share GPUs")
        return f"back in {out_s:.1f} s; 4 held over it, 4 given by kube-scheduler"


@SUITE.add("fence: a node leaves a controller that is gone", needs_minor=MINOR)
def run_no_controller(stage: Stage) -> str:
    """Killed, and never started again: after its lease and the draining time, and not before."""
    with play(stage) as on, _labels(stage):
        controller = on.start_controller()
        stage.start_plugin("dgx-h100", options=("--allocation", "controller", "--drain-time", "5s"))
        controller.kill()
        took_s = _change(stage, "scheduler")
        said = _wait_said(stage, "FenceWithoutController")
        stage.expect_own_devices("after", stage.run_pod("after", _plain(8)))
        return f"after {took_s:.1f} s: {said}"


@SUITE.add("fence: the examples of topology claims do what they say", needs_minor=MINOR)
def run_examples(stage: Stage) -> str:
    """Required, preferred, by class, two claims of a pod: each on an empty DGX H100 of the controller's."""
    with play(stage) as on:
        on.start_controller()
        stage.start_plugin("dgx-h100", options=("--allocation", "controller"))
        seen = []
        for path in sorted((manifests.EXAMPLES / "topology").glob("*.yaml")):
            documents = manifests.read_documents(path)
            classes = [each for each in documents if each["kind"] == "DeviceClass"]
            others = [manifests.fit_example(each, objects.NAMESPACE) for each in documents if each not in classes]
            for each in (*classes, *others):
                stage.api.apply(each)
            (pod,) = (each for each in others if each["kind"] == "Pod")
            seen.append(f"{path.stem} {_check_example(on, pod, _EXAMPLES[path.stem])}")
            on.delete_pods(pod["metadata"]["name"])
            for each in classes:
                stage.api.delete("DeviceClass", None, each["metadata"]["name"])
        expect(len(seen) == len(_EXAMPLES), f"seen are {seen}")
        return ", ".join(seen)


@SUITE.add("fence: the controller names the claims that climb over it when it begins", needs_minor=MINOR)
def run_climbers(stage: Stage) -> str:
    """Claims that are older than the admission policy, or made where there is none."""
    with play(stage) as on:
        on.create_claim("climbs", objects.claim_spec([objects.exactly(tolerations=[{"operator": "Exists"}])]))
        on.start_controller()
        return on.wait_event("climbs", "tolerates gpu.nvidia.com/allocator", reason="FenceTolerated")[:60]


def _check_example(on: Play, pod: Json, expected: dict[str, int]) -> str:
    name = pod["metadata"]["name"]
    on.stage.wait_pod(name, objects.is_running, what="running")
    for claim in on.claims_of(name).values():
        expect(is_ours(claim), f"a claim of {name} is not the controller's")
    views = {each["name"]: on.stage.read_view(name, each["name"]) for each in pod["spec"]["containers"]}
    counts = {container: len(view.uuids) for container, view in views.items()}
    expect(counts == expected, f"{name}: containers see {counts} GPUs, not {expected}")
    every = [uuid for view in views.values() for uuid in view.uuids]
    expect(len(set(every)) == len(every), f"{name}: a GPU is in two claims")
    return "+".join(map(str, counts.values()))


def _go_over_while_hanging(on: Play, go_over: Callable[[], None]) -> str:
    stage = on.stage
    with SideWatch(stage.api, stage.pool_query) as watch, late_volume(stage.api, stage.layout, "late") as volume:
        on.create_pod("written", {"gpus": _plain(1)}, **volume.pod_fields())
        on.wait_allocated("written")
        with held_writes(stage.api) as held:
            on.create_pod("hangs", {"gpus": _plain(3)})
            held.wait_hanging()
            go_over()
            _wait_side(stage, "draining")
            on.create_pod("eight", {"gpus": _topology(8)})
            on.create_pod("four", {"gpus": _topology(4)})
            time.sleep(_HANG_S)  # it hangs on: nobody may take its devices now
            for pod in ("hangs", "four"):
                expect(not is_allocated(on.claims_of(pod)["gpus"]), f"a draining GPU was given to {pod}")
            held.let_go()
            on.wait_allocated("hangs")
            expect(_read_side(stage) == "draining", f"the node was {_read_side(stage)} before kube-scheduler had written")
        _wait_side(stage, "controller")
        stage.wait_running("four")
        volume.let_go()
        given = [_wait_own(stage, pod) for pod in ("hangs", "written", "four")]
        expect(len({*given[0], *given[1], *given[2]}) == 8, f"GPUs are shared: {given}")
        expect(not is_allocated(on.claims_of("eight")["gpus"]), "eight GPUs were given though all are held")
        _expect_sides(watch, _SIDES_IN)
    return (
        "3 GPUs in kube-scheduler's memory over the change, 1 with a pod that is not bound, 4 given by the controller after it"
    )


def _wait_own(stage: Stage, pod: str) -> tuple[str, ...]:
    return stage.expect_own_devices(pod, stage.wait_running(pod))


def _plain(count: int) -> Json:
    return objects.claim_spec([objects.exactly(count=count)])


def _topology(count: int) -> Json:
    return objects.claim_spec([{"name": "gpus", "exactly": {"deviceClassName": "topology.gpu.nvidia.com", "count": count}}])


def _stop(plugin: Plugin) -> None:
    expect(plugin.stop() == 0, "the old instance did not end in order")


def _change(stage: Stage, label: str | None) -> float:
    """Label the node and wait until it is there; the seconds."""
    began = time.monotonic()
    _label(stage, label)
    _wait_side(stage, label or "scheduler")
    return time.monotonic() - began


def _label(stage: Stage, value: str | None) -> None:
    where = stage.api.path("Node", None, stage.layout.node)
    stage.api.request("PATCH", where, {"metadata": {"labels": {KEY: value}}}, kind="application/merge-patch+json")


@contextmanager
def _labels(stage: Stage) -> Iterator[None]:
    """The node has no label afterwards."""
    try:
        yield
    finally:
        _label(stage, None)


def _read_side(stage: Stage) -> str:
    sides = {read_side(device) for device in objects.slice_devices(stage.wait_pool()).values()}
    return ", ".join(sorted(sides))


def _wait_side(stage: Stage, side: str) -> None:
    def is_there(slices: list[Json]) -> bool:
        devices = objects.slice_devices(slices).values()
        return objects.is_pool_complete(slices) and bool(devices) and {read_side(device) for device in devices} == {side}

    stage.api.wait("ResourceSlice", None, is_there, what=f"all devices {side}", query=stage.pool_query, timeout_s=90.0)


def _expect_sides(watch: SideWatch, sides: tuple[str, ...]) -> None:
    wait_until(lambda: len(watch.sides) >= len(sides), timeout_s=10.0)  # its watch is another than ours
    expect(watch.sides == sides, f"the devices were published as {watch.sides}, not as {sides}")


def _wait_said(stage: Stage, reason: str) -> str:
    def is_said(events: list[Json]) -> bool:
        return any(each.get("reason") == reason for each in events)

    found = stage.api.wait("Event", None, is_said, what=f"event {reason}", timeout_s=30.0)
    return next(str(each.get("message") or each.get("note")) for each in found if each.get("reason") == reason)
