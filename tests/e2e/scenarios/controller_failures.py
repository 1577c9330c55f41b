"""The controller dies, freezes, fights and is cut off at every moment; no device is given twice, no claim is stuck."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hack.devcluster.processes import wait_until
from tests.e2e.churn import Churn
from tests.e2e.controller import LEASE, Controller
from tests.e2e.identity import SYSTEM_NAMESPACE
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import SHORT_TIMES, Play, gpus, is_allocated, play
from tests.e2e.runner import Suite
from tests.e2e.scenarios.controller_takeback import UNBOUND_S, scheduler_stopped
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
LOST = 4
"""The exit code of a controller that lost its lease."""
_FLEET = {"node-1": "dgx-a100", "node-2": "dgx-a100"}
_LAUNCHER = ("-m", "tests.e2e.write_crash_launcher")
_MOST_WRITES = 12


@SUITE.add("controller: killed around every write of a decision", needs_minor=MINOR)
def run_killed_in_decision(stage: Stage) -> str:
    """A pod with two claims, so that guards are written too. Killed before and after each write, and started again."""
    with play(stage, _FLEET) as on:
        control = stage.layout.home / "write-crash"
        controller = _crashing(on, control)
        controller.start()
        died: list[str] = []
        for when in ("before", "after"):
            for number in range(1, _MOST_WRITES):
                name = f"{when}-{number}"
                controller.wait_leading()
                control.write_text(f"{when} {number}")
                on.create_pod(name, {"one": gpus(1), "two": gpus(2)})
                is_dead = _dies(on, controller, name)
                control.unlink()
                if is_dead:
                    died.append(_read_done(control))
                    controller.start()
                    on.wait_bound(name)
                    _expect_whole(on, name)
                on.delete_pods(name)
                if not is_dead:
                    break
        expect(len(died) >= 8, f"only {len(died)} writes were met: {died}")
        return f"killed {len(died)} times, each time the pod was bound after a restart: {_count(died)}"


def _crashing(on: Play, control: Path, options: Sequence[str] = SHORT_TIMES) -> Controller:
    return on.new_controller(launcher=_LAUNCHER, environment={"E2E_CRASH": str(control)}, options=options)


def _dies(on: Play, controller: Controller, pod: str) -> bool:
    """Wait until the controller was killed, or the pod has all it needs and the controller lives."""

    def is_over() -> bool:
        return not controller.is_running() or _is_whole(on.claims_of(pod))

    wait_until(is_over, timeout_s=60.0)
    return not wait_until(controller.is_running, timeout_s=0.1) or not _lives_on(controller)


def _lives_on(controller: Controller) -> bool:
    """A write that ends a decision may be the one: give it the time to die."""
    return not wait_until(lambda: not controller.is_running(), timeout_s=1.5)


def _is_whole(claims: dict[str, Json]) -> bool:
    return len(claims) == 2 and all(is_allocated(each) and not _guards(each) for each in claims.values())


def _guards(claim: Json) -> list[Json]:
    return [each for each in claim["status"].get("reservedFor", []) if each["resource"] != "pods"]


def _expect_whole(on: Play, pod: str) -> None:
    on.wait_claims(pod, lambda claim: is_allocated(claim) and not _guards(claim), what="allocated, without a guard")


def _read_done(control: Path) -> str:
    done = Path(f"{control}.done")
    line = done.read_text()
    done.unlink()
    verb, path, *_ = line.split()
    return f"{verb} {'status' if '/status' in path else 'claim'}"


def _count(lines: Sequence[str]) -> str:
    return ", ".join(f"{lines.count(each)} x {each}" for each in sorted(set(lines)))


@SUITE.add("controller: killed around every write of a take-back", needs_minor=MINOR)
def run_killed_in_take_back(stage: Stage) -> str:
    """A named claim whose pod waits for a scheduler that is stopped: it is withdrawn, cleared, unmarked."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        control = stage.layout.home / "write-crash"
        controller = _crashing(on, control, (*SHORT_TIMES, "--unbound-s", "2"))
        controller.start()
        died: list[str] = []
        with scheduler_stopped(stage):
            for when in ("before", "after"):
                for number in range(1, 4):
                    name = f"{when}-{number}"
                    controller.wait_leading()
                    on.create_claim(name, gpus(1))
                    on.create_pod(name, {"gpus": name})
                    on.wait_allocated(name)
                    control.write_text(f"{when} {number}")
                    code = controller.wait_ended(timeout_s=60.0)
                    expect(code == -signal.SIGKILL, f"the controller ended with {code}")
                    died.append(_read_done(control))
                    control.unlink()
                    controller.start()
                    on.wait_claim(name, _is_clean, what="free, without finalizer and annotation")
                    on.delete_pods(name)
        return f"killed {len(died)} times, each time the claim was free and clean after a restart: {_count(died)}"


def _is_clean(claim: Json) -> bool:
    meta, status = claim["metadata"], claim.get("status", {})
    return not (status.get("allocation") or status.get("reservedFor") or meta.get("finalizers") or meta.get("annotations"))


@SUITE.add("controller: two fight for the lease: killed, stopped, the lease deleted", needs_minor=MINOR)
def run_two_fight(stage: Stage) -> str:
    """One leads at a time; the other follows. Pods are placed all the while."""
    with play(stage, _FLEET) as on:
        first, second = on.new_controller(), on.new_controller()
        first.start()
        second.start()
        seen = [_time_change(on, "killed", lambda leader: leader.kill())]
        _restart_dead(on)
        seen.append(_time_change(on, "stopped", _stop_well))
        _restart_dead(on)
        seen.append(_time_change(on, "lease deleted", lambda leader: _delete_lease(stage, leader)))
        return "until the next pod was placed: " + ", ".join(seen)


def _time_change(on: Play, what: str, change: Callable[[Controller], None]) -> str:
    on.leader()
    name = what.replace(" ", "-")
    on.create_pod(f"{name}-1", {"gpus": gpus(1)})
    on.wait_bound(f"{name}-1")
    leader = on.leader()
    change(leader)
    began = time.monotonic()
    on.create_pod(f"{name}-2", {"gpus": gpus(1)})
    on.wait_bound(f"{name}-2")
    took_s = time.monotonic() - began
    expect(on.leader() is not leader, f"the leader that was {what} leads again")
    return f"{what} {took_s:.1f} s"


def _restart_dead(on: Play) -> None:
    for each in on.stage.controllers:
        if not each.is_running():
            each.start()
            ready = wait_until(lambda each=each: each.ask("/readyz")[0] == 200, timeout_s=60.0)  # type: ignore[misc]
            expect(ready, f"a controller that was started again is not ready: {each.ask('/readyz')}")


def _stop_well(leader: Controller) -> None:
    code = leader.stop()
    expect(code == 0, f"SIGTERM ended the controller with {code}")


def _delete_lease(stage: Stage, leader: Controller) -> None:
    stage.api.delete("Lease", SYSTEM_NAMESPACE, LEASE)
    code = leader.wait_ended(timeout_s=30.0)
    expect(code == LOST, f"the leader whose lease was deleted ended with {code}, not {LOST}")


@SUITE.add("controller: the leader freezes in the middle of its work and wakes up late", needs_minor=MINOR)
def run_frozen_leader(stage: Stage) -> str:
    """It must write nothing any more, notice, and end."""
    with play(stage, _FLEET) as on:
        first, second = on.start_controller(), on.new_controller()
        second.start()
        before = [f"before-{number}" for number in range(6)]
        for name in before:
            on.create_pod(name, {"gpus": gpus(1)})
        first.freeze()
        began = time.monotonic()
        second.wait_leading()
        followed_s = time.monotonic() - began
        after = [f"after-{number}" for number in range(6)]
        for name in after:
            on.create_pod(name, {"gpus": gpus(1)})
        on.wait_bound(*before, *after)
        written = on.watch.allocations
        first.thaw()
        code = first.wait_ended(timeout_s=30.0)
        expect(code == LOST, f"the leader that woke up late ended with {code}, not {LOST}")
        expect(on.watch.allocations == written, "allocations were made when the old leader woke up")
        on.check_doubles()
        return f"followed after {followed_s:.1f} s; 12 pods bound; it woke up, wrote nothing, and ended with {code}"


@SUITE.add("controller: the API server restarts while pods wait", needs_minor=MINOR)
def run_api_restart(stage: Stage) -> str:
    """With an operator's lease times a restart of seconds costs no leadership; an outage longer than them does."""
    with play(stage, _FLEET) as on:
        on.may_lose_place = True
        controller = on.start_controller(options=())
        on.create_pod("first", {"gpus": gpus(1)})
        on.wait_bound("first")
        stage.restart("apiserver")
        on.create_pod("second", {"gpus": gpus(1)})
        began = time.monotonic()
        deaths = _wait_bound_and_revive(on, controller, "second")
        second_s = time.monotonic() - began
        kept = "lost its lease, which a slow machine may, and was started again" if deaths else "kept its lease"
        stage.stop_component("apiserver")
        code = controller.wait_ended(timeout_s=40.0)
        expect(code == LOST, f"without an API server the leader ended with {code}, not {LOST}")
        controller.start()
        stage.start_component("apiserver")
        on.create_pod("third", {"gpus": gpus(1)})
        _wait_bound_and_revive(on, controller, "third")
        return f"restart: the leader {kept}, the next pod bound after {second_s:.1f} s; outage: it ended with {code}, came back"


def _wait_bound_and_revive(on: Play, controller: Controller, pod: str) -> int:
    """Wait until the pod is bound; start the controller again whenever it ended, as the kubelet does. How often it did."""
    deaths = 0

    def is_bound() -> bool:
        nonlocal deaths
        if not controller.is_running():
            code = controller.wait_ended()
            expect(code == LOST, f"the controller ended with {code}")
            controller.start()
            deaths += 1
        body = on.stage.api.get("Pod", NAMESPACE, pod) or {"spec": {}}
        return bool(body["spec"].get("nodeName"))

    expect(wait_until(is_bound, timeout_s=120.0), f"pod {pod} is not bound; {controller.ask('/readyz')}")
    return deaths


@SUITE.add("controller: 100 random pods, two controllers killed at random", needs_minor=MINOR)
def run_churn(stage: Stage) -> str:
    """Named and templated claims, one and two in a pod, all policies; some pods are deleted before they are bound."""
    with play(stage, {**_FLEET, "node-3": "hgx-a100-4x2"}) as on:
        for _ in range(2):
            on.new_controller(options=(*SHORT_TIMES, "--unbound-s", str(UNBOUND_S))).start()
        on.leader()
        dice = random.Random(os.getpid())
        churn = Churn(play=on, wanted=100, capacity=20, dice=dice, kill_every_s=(6.0, 12.0))
        began = time.monotonic()
        churn.run()
        took_s = time.monotonic() - began
        bound = statistics.median(churn.bound_s)
        return (
            f"{churn.ended} pods in {took_s:.0f} s, {churn.kills} kills, {on.watch.allocations} allocations, no double;"
            f" creation to bound p50 {bound:.1f} s"
        )
