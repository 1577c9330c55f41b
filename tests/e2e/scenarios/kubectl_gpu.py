"""``kubectl gpu status`` and ``topology`` on a cluster: with all rights, and with hardly any."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from driver.nvml.mock.faults import XidEvent
from driver.nvml.mock.machine import write_faults
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.identity import SYSTEM_NAMESPACE, write_kubeconfig
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import gpus, play
from tests.e2e.process import REPOSITORY
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_VIEWER = "gpu-viewer"


@SUITE.add(
    "kubectl gpu status: fenced and unfenced nodes, who has what, MIG, a taint by rule; topology's pictures", needs_minor=37
)
def run_status(stage: Stage) -> str:
    """A fleet of three, pods on it by the controller and by kube-scheduler, and a rule that taints a GPU."""
    with play(stage, {"fenced": "dgx-h100"}) as on:
        stage.fleet.add({"open": "a100-pcie-bridged"}, is_fenced=False)
        stage.start_plugin("hgx-h100-4", mig="auto")
        cut = stage.layout.node
        on.start_controller()
        on.create_pod("train", {"gpus": gpus(2)}, nodeSelector={"kubernetes.io/hostname": "fenced"})
        on.create_pod("part", {"mig": _mig("1g.10gb")}, nodeSelector={"kubernetes.io/hostname": cut})
        on.create_pod("huge", {"gpus": gpus(9)})
        on.wait_bound("train", "part")
        sick = sorted(stage.fleet.devices("open"))[3]
        rule = _write_rule(stage, sick)
        try:
            seen = _read_fleet(stage)
            pictures = _check_pictures(stage)
            told = _check_viewer(stage)
        finally:
            stage.api.delete("DeviceTaintRule", None, rule)
        return f"{seen} | {pictures} | without rights: {told}"


@SUITE.add("kubectl gpu status: an XID 79 of a GPU is seen, with its pod", needs_minor=36)
def run_xid(stage: Stage) -> str:
    """The GPU that a pod holds falls off the bus."""
    plugin = stage.start_plugin("dgx-h100")
    stage.run_pod("holder", objects.claim_spec([objects.exactly()]))
    before = _status(stage, stage.layout.node)
    held = next(each["gpu"] for each in before["nodes"][0]["gpus"] if each["uses"])
    expect(not before["troubles"], f"troubles of a healthy node: {before['troubles']}")
    write_faults(stage.folders.mock_state, [XidEvent(gpu=held, xid=79, id="one")])
    found = wait_until(lambda: bool(_status(stage, stage.layout.node)["troubles"]), timeout_s=30.0)
    after = _status(stage, stage.layout.node)
    expect(found, f"no trouble is told after an XID 79; log: {plugin.log_path}")
    trouble = after["troubles"][0]
    expect((trouble["gpu"], trouble["key"], trouble["value"]) == (held, "gpu.nvidia.com/xid", "79"), f"trouble: {trouble}")
    gpu = after["nodes"][0]["gpus"][held]
    expect(not gpu["isHealthy"] and gpu["state"] == "allocated", f"GPU {held}: {gpu}")

    def has_condition() -> bool:
        claims = _status(stage, "pod/holder", "-n", NAMESPACE)["claims"]
        return any(each["type"] == "Healthy" and each["status"] == "False" for each in claims[0]["devices"][0]["conditions"])

    expect(wait_until(has_condition, timeout_s=30.0), "the claim of the pod has no condition Healthy=False")
    stage.delete_pods("holder")
    return f"GPU {held}: {trouble['text'][:60]}"


def _mig(profile: str) -> Json:
    selector = f'device.attributes["{objects.DRIVER}"].profile == "{profile}"'
    return objects.claim_spec([objects.exactly(selector=selector, deviceClassName="mig.nvidia.com")])


def _write_rule(stage: Stage, device: str) -> str:
    taint = {"key": "example.com/maintenance", "value": "yes", "effect": "NoSchedule"}
    selector = {"driver": objects.DRIVER, "pool": "open", "device": device}
    body: Json = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "maintenance"}}
    stage.api.create({**body, "spec": {"deviceSelector": selector, "taint": taint}})
    return "maintenance"


def _read_fleet(stage: Stage) -> str:
    found, cut = _status(stage), stage.layout.node
    nodes = {each["node"]: each for each in found["nodes"]}
    owners = {name: each["allocator"] for name, each in nodes.items()}
    expect(owners == {"fenced": "controller", "open": "scheduler", cut: "scheduler"}, f"allocators: {owners}")
    expect(nodes["fenced"]["counts"]["allocated"] == 2, f"held of fenced: {nodes['fenced']['counts']}")
    expect(nodes[cut]["migDevices"] == 1, f"MIG devices that are held: {nodes[cut]}")
    unfit = [each["gpu"] for each in nodes["open"]["gpus"] if each["state"] == "unfit"]
    expect(unfit == [3], f"unfit GPUs of open: {unfit}")
    troubles = [(each["node"], each["gpu"], each["source"]) for each in found["troubles"]]
    expect(troubles == [("open", 3, "maintenance")], f"troubles: {troubles}")
    expect(any(each["pods"] == ["huge"] for each in found["waiting"]), f"what waits: {found['waiting']}")
    table = _run(stage, "status")
    expect("example.com/maintenance=yes by DeviceTaintRule maintenance" in " ".join(table.split()), f"table: {table}")
    node = _run(stage, "status", cut)
    expect("1g.10gb" in node and "pod part" in node, f"table of node {cut}: {node}")
    return " / ".join(line.strip() for line in table.splitlines()[:1])


def _check_pictures(stage: Stage) -> str:
    drawn = []
    for name in ("fenced", "open", stage.layout.node, ""):
        file = Path(stage.folders.logs) / f"{name or 'fleet'}.svg"
        _run(stage, "topology", *([name] if name else []), "--picture", str(file))
        root = ET.fromstring(file.read_text())
        expect(root.tag.endswith("svg") and len(list(root.iter())) > 20, f"{file} is no picture")
        drawn.append(f"{file.name} {file.stat().st_size} bytes")
    return ", ".join(drawn)


def _check_viewer(stage: Stage) -> str:
    """An account that may list slices, and view one namespace, gets an answer that says what it lacks."""
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _VIEWER, "namespace": SYSTEM_NAMESPACE}}
    stage.api.apply(account)
    path = stage.layout.home / f"{_VIEWER}.kubeconfig"
    write_kubeconfig(stage.api, _VIEWER, stage.layout.admin_kubeconfig, None, path)
    refused = _call(stage, "status", kubeconfig=path)
    expect(refused.returncode == 1 and "which you must be allowed to list" in refused.stderr, f"without rights: {refused}")
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}]
    group = "rbac.authorization.k8s.io"
    meta = {"name": _VIEWER}
    subjects = [{"kind": "ServiceAccount", "name": _VIEWER, "namespace": SYSTEM_NAMESPACE}]
    bodies: list[Json] = [
        {"kind": "ClusterRole", "metadata": meta, "rules": rules},
        _bind("ClusterRoleBinding", {"name": _VIEWER}, _VIEWER, subjects),
        _bind("RoleBinding", {"name": _VIEWER, "namespace": NAMESPACE}, "view", subjects),
    ]
    made: list[tuple[str, str | None]] = []
    try:
        for body in bodies:
            stage.api.apply({"apiVersion": f"{group}/v1", **body})
            made.append((str(body["kind"]), body["metadata"].get("namespace")))
        done = _call(stage, "status", "-n", NAMESPACE, "-o", "json", kubeconfig=path)
    finally:
        for kind, namespace in made:
            stage.api.delete(kind, namespace, _VIEWER)
    expect(done.returncode == 0, f"with slices alone: {done}")
    found = json.loads(done.stdout)
    lacking = [each.split()[4] for each in found["notes"]]
    expect("resourceclaims.resource.k8s.io" in lacking and "nodes" in lacking, f"notes: {found['notes']}")
    expect(found["counts"]["free"] == 0 and found["counts"]["gpus"] > 0, f"nobody knows what is free: {found['counts']}")
    return f"{found['counts']['gpus']} GPUs, not listed: {', '.join(lacking)}"


def _bind(kind: str, meta: Json, role: str, subjects: list[Json]) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"kind": kind, "metadata": meta, "roleRef": reference, "subjects": subjects}


def _status(stage: Stage, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(stage, "status", *arguments, "-o", "json"))
    return found


def _run(stage: Stage, *arguments: str) -> str:
    done = _call(stage, *arguments, kubeconfig=stage.layout.admin_kubeconfig)
    expect(done.returncode == 0, f"kubectl gpu {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def _call(stage: Stage, *arguments: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "driver.cli.gpu.main", *arguments, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=60)
