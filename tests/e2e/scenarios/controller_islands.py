"""The controller chooses sets and nodes: the islands story, a mixed fleet, taints by rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping

from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import Play, gpus, is_allocated, play, policy
from tests.e2e.process import REPOSITORY
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
MINOR = 36
_ISLANDS = {f"island-{number}": "hgx-a100-4x2" for number in range(1, 6)}
_REQUIRED = policy(scope="nvlink", mode="required")
_PREFERRED = policy(scope="nvlink", mode="preferred")


@SUITE.add(
    "controller: 20 GPUs free and no island of four; the same arrivals through the controller leave five", needs_minor=MINOR
)
def run_islands_story(stage: Stage) -> str:
    """Five nodes of two NVLink islands. First as a first fit leaves them: two free in each of ten islands."""
    with play(stage, _ISLANDS) as on:
        on.start_controller()
        taken = _take_two_of_each(stage)
        on.create_pod("must", {"gpus": gpus(4, config=[_REQUIRED])})
        said = on.wait_event("must", "5 nodes, 20 free GPUs", "need 4 on one NVLink island", "largest free set is 2")
        explained = _explain(stage, "must")
        expect("20 free GPUs" in explained, f"explain says: {explained}")
        on.create_pod("likes", {"gpus": gpus(4, config=[_PREFERRED])})
        on.wait_bound("likes")
        expect(not any(is_allocated(each) for each in on.claims_of("must").values()), "four on no island were given")
        on.delete_pods("likes", "must")
        for name in taken:
            stage.api.delete("ResourceClaim", NAMESPACE, name)
        stage.wait_gone("ResourceClaim", taken)
        pairs = [f"pair-{number}" for number in range(10)]
        for name in pairs:
            on.create_pod(name, {"gpus": gpus(2, config=[_PREFERRED])})
        on.wait_bound(*pairs)
        free = _free_islands(on)
        expect(free == 5, f"ten pairs leave {free} whole islands, not 5")
        on.create_pod("now", {"gpus": gpus(4, config=[_REQUIRED])})
        on.wait_bound("now")
        return f"waits with: {said} | ten pairs through the controller leave {free} whole islands"


def _take_two_of_each(stage: Stage) -> list[str]:
    """Claims that somebody else allocated: two GPUs in each island."""
    names = []
    for node in _ISLANDS:
        for number, island in enumerate(_islands(stage, node).values()):
            name = f"taken-{node}-{number}"
            body = stage.api.create(objects.claim(name, gpus(2)))
            body["status"] = {"allocation": objects.allocation(island[:2], node=node)}
            stage.api.write_status(body)
            names.append(name)
    return names


def _islands(stage: Stage, node: str) -> Mapping[object, list[str]]:
    islands: dict[object, list[str]] = {}
    for name, device in stage.fleet.devices(node).items():
        islands.setdefault(objects.attribute(device, "nvlinkIsland"), []).append(name)
    expect([len(each) for each in islands.values()] == [4, 4], f"islands of {node}: {islands}")
    return islands


def _free_islands(on: Play) -> int:
    taken = {(pool, device) for devices in on.watch.allocated().values() for _, pool, device in devices}
    whole = [
        island
        for node in _ISLANDS
        for island in _islands(on.stage, node).values()
        if not any((node, device) in taken for device in island)
    ]
    return len(whole)


def _explain(stage: Stage, pod: str) -> str:
    """What ``kubectl gpu explain`` says of a pod, as the administrator."""
    command = [sys.executable, "-m", "driver.cli.gpu.main", "explain", f"pod/{pod}", "-n", NAMESPACE]
    command += ["--kubeconfig", str(stage.layout.admin_kubeconfig)]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@SUITE.add("controller: a mixed fleet keeps its newest islands whole, and respects a DeviceTaintRule", needs_minor=37)
def run_mixed_fleet(stage: Stage) -> str:
    """Small claims that only prefer NVLink go where they do least damage; a rule taints that node, and they go elsewhere."""
    fleet = {"a100": "dgx-a100", "h100": "dgx-h100", "b200": "hgx-b200", "l40s": "l40s"}
    with play(stage, fleet) as on:
        on.start_controller()
        names = [f"small-{number}" for number in range(4)]
        for number, name in enumerate(names):
            on.create_pod(name, {"gpus": gpus(1 + number % 2, config=[_PREFERRED])})
        nodes = Counter(on.wait_bound(*names).values())
        expect(not nodes.keys() & {"b200", "h100"}, f"small claims went to {dict(nodes)}")
        rule = _write_rule(stage, "l40s")
        try:
            _wait_rule_seen(on)
            on.create_pod("after", {"gpus": gpus(1, config=[_PREFERRED])})
            after = on.wait_bound("after")["after"]
        finally:
            stage.api.delete("DeviceTaintRule", None, rule)
        expect(after != "l40s", "a tainted device was given")
        on.create_pod("eight", {"gpus": gpus(8, config=[_REQUIRED])})
        eight = on.wait_bound("eight")["eight"]
        return f"small claims: {dict(nodes)}; with l40s tainted by rule: {after}; eight on one island: {eight}"


def _write_rule(stage: Stage, pool: str) -> str:
    name = f"no-{pool}"
    selector = {"driver": objects.DRIVER, "pool": pool}
    taint = {"key": "example.com/maintenance", "value": "yes", "effect": "NoSchedule"}
    body: Json = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}}
    stage.api.create({**body, "spec": {"deviceSelector": selector, "taint": taint}})
    return name


def _wait_rule_seen(on: Play) -> None:
    """The controller's figures follow a change within seconds: four tainted GPUs or more are not available."""
    controller = on.leader()
    seen = wait_until(lambda: controller.read_metric('gpu_dra_gpus{state="unavailable"}') >= 1, timeout_s=30.0)
    expect(seen, f"no GPU is unavailable though a rule taints a node: {json.dumps(controller.ask('/metrics')[1][:300])}")
