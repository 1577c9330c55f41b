"""A GPU gets sick under running pods: who is told, what is kept away, what goes on, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path

from driver.nvml.mock.faults import EccEvent, GpuLost, LinkDown, NeedsRecovery, XidEvent
from hack.devcluster.processes import wait_until
from tests.e2e import health_view, mig_view, objects
from tests.e2e.health_view import play, select, wait_condition, wait_event, wait_state, wait_tainted
from tests.e2e.identity import PLUGIN
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.rights import read_requests
from tests.e2e.runner import Suite
from tests.e2e.scenarios.metrics import find
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
TAINTS_SINCE = 36
"""An older API server drops taints, unless a gate is turned on."""
_XID_79 = {("xid", "79", "NoSchedule"), ("recovery", "node-reboot", "NoSchedule")}
_SAME_GPU = objects.same("parentUUID", "a", "b")
_GPU_PART = len("gpu-0000-06-00-0")
"""Of a device's name."""
_NOTHING_TO_DO = NeedsRecovery(gpu=3, action="none")
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def name_device(gpu: int) -> str:
    """The device of a DGX H200's GPU."""
    return f"gpu-0000-{('1b', '43', '52', '61', '9d', 'c3', 'd1', 'df')[gpu]}-00-0"


@SUITE.add("health: XID 79 on GPU 3 of a running fleet, a kill, and the recovery", needs_minor=TAINTS_SINCE)
def run_xid_79(stage: Stage) -> str:
    """All who must know are told, of this GPU alone; its pod stays; new claims avoid it; what is known survives kill -9."""
    plugin = stage.start_plugin("dgx-h200")
    stage.run_pod("ill", objects.claim_spec([select(stage, name_device(3))]))
    stage.run_pod("well", objects.claim_spec([objects.exactly(count=2)]))
    wait_state(stage, "ill", "Healthy")
    play(stage, XidEvent(gpu=3, xid=79))
    taints = wait_tainted(stage, {name_device(3): _XID_79})
    wait_state(stage, "ill", "Unhealthy")
    wait_condition(stage, "ill", {name_device(3): ("False", "Xid79")})
    said = wait_event(stage, "Pod", "ill", "GpuUnhealthy", "XID 79: the GPU fell off the bus")
    wait_event(stage, "Node", stage.layout.node, "GpuUnhealthy", f"{name_device(3)}: XID 79")
    others = stage.expect_own_devices("others", stage.run_pod("others", objects.claim_spec([objects.exactly(count=5)])))
    expect(name_device(3) not in others, "a new claim was given the sick GPU")
    stage.create_pod("last", objects.claim_spec([objects.exactly()]))
    expect(is_waiting(stage.api, "last"), "the last pod was given something")
    plugin.kill()
    plugin.start()
    plugin.wait_registered()
    wait_state(stage, "ill", "Unhealthy")
    now = health_view.read_taints(stage.wait_pool())
    expect(now == taints, f"after the kill the taints are {now}, before {taints}")
    health_view.recover(stage, 3, _NOTHING_TO_DO)
    wait_state(stage, "ill", "Healthy")
    wait_condition(stage, "ill", {name_device(3): ("True", "Recovered")})
    expect("devices" not in stage.read_claim_of("well")["status"], "a claim on other GPUs was written to")
    expect(health_view.count_restarts(stage, "ill") == 0, "the pod on the sick GPU was restarted")
    stage.delete_pods("ill")
    expect(stage.expect_own_devices("last", stage.wait_running("last")) == (name_device(3),), "the last pod got another GPU")
    return said[:150]


@SUITE.add("health: ECC evicts where the setting says so, a lost GPU harms no other", needs_minor=TAINTS_SINCE)
def run_ecc_and_lost(stage: Stage) -> str:
    """NoExecute by setting for one kind; a GPU that is gone stays published and tainted while its pod has it."""
    stage.start_plugin("dgx-h200", options=("--evict-for", "ecc"))
    for pod, gpu in (("ecc", 1), ("lost", 3), ("other", 5)):
        stage.run_pod(pod, objects.claim_spec([select(stage, name_device(gpu))]))
    ecc = EccEvent(gpu=1, bits="double")
    play(stage, ecc)
    reset = ("recovery", "gpu-reset", "NoSchedule")
    sick = {name_device(1): {("ecc", "uncorrected", "NoExecute"), reset}}
    wait_tainted(stage, sick)
    stage.wait_gone("Pod", ["ecc"])
    play(stage, ecc, GpuLost(gpu=3), XidEvent(gpu=3, xid=79))

    def is_lost(slices: list[Json]) -> bool:
        own = health_view.read_taints(slices).get(name_device(3), ())
        return any(each.key == "gpu-lost" and each.effect == "NoSchedule" for each in own)

    slices = stage.api.wait("ResourceSlice", None, is_lost, what="GPU 3 lost", query=stage.pool_query, timeout_s=60.0)
    expect(set(health_view.read_taints(slices)) == {name_device(1), name_device(3)}, "other GPUs are tainted, too")
    wait_state(stage, "lost", "Unhealthy")
    claim = stage.read_claim_of("lost")
    expect(wait_until(lambda: health_view.read_condition(stage.read_claim_of("lost")) != {}, timeout_s=30.0), f"{claim}")
    wait_state(stage, "other", "Healthy")
    for pod in ("lost", "other"):
        expect(health_view.count_restarts(stage, pod) == 0, f"{pod} was restarted")
    names = stage.expect_own_devices("new", stage.run_pod("new", objects.claim_spec([objects.exactly(count=5)])))
    expect(set(names).isdisjoint({name_device(1), name_device(3)}), f"a new claim got {names}")
    return f"evicted from {name_device(1)}, {name_device(3)} lost alone, {len(names)} given out"


@SUITE.add("health: evicts, too, after kube-controller-manager missed that slices went", needs_minor=TAINTS_SINCE)
def run_missed_deletion(stage: Stage) -> str:
    """It keeps slices whose deletion it only finds out from a new list, and sees no slice of a lower generation beside them."""
    plugin = stage.start_plugin("dgx-h200")
    for number in range(3):  # each time the pool is wiped and comes back its generation rises
        before = _read_generation(stage)
        for each in stage.api.find("ResourceSlice", query=stage.pool_query):
            stage.api.delete("ResourceSlice", None, each["metadata"]["name"])
        expect(wait_until(lambda before=before: _read_generation(stage) > before, timeout_s=30.0), f"round {number}")  # type: ignore[misc]
    kept = _read_generation(stage)
    plugin.stop()
    missed = _count_missed(stage)
    with stage.frozen("kcm"):
        stage.restart("apiserver")  # what was sent to it before is read still, what comes now is not
        stage.forget_plugin_state()
        stage.forget_history()
    stage.start_plugin("dgx-h200", options=("--evict-for", "ecc"))
    stage.run_pod("ecc", objects.claim_spec([select(stage, name_device(1))]))
    expect(wait_until(lambda: _count_missed(stage) > missed, timeout_s=60.0), "kube-controller-manager saw the slices go")
    expect(_read_generation(stage) > kept, f"the pool began anew below generation {kept}")
    play(stage, EccEvent(gpu=1, bits="double"))
    stage.wait_gone("Pod", ["ecc"])
    return f"generation {kept} is kept by kube-controller-manager; {_read_generation(stage)} evicted the pod"


def _read_generation(stage: Stage) -> int:
    """Of the node's pool; 0 while nothing of it is there."""
    found = stage.api.find("ResourceSlice", query=stage.pool_query)
    return max((int(each["spec"]["pool"]["generation"]) for each in found), default=0)


def _count_missed(stage: Stage) -> int:
    log = stage.layout.home / "log" / "kcm.log"
    return log.read_text(errors="replace").count('"Expected ResourceSlice" actual="cache.DeletedFinalStateUnknown"')


@SUITE.add("health: a link goes down, its pair is none any more", needs_minor=TAINTS_SINCE)
def run_link_down(stage: Stage) -> str:
    """The GPUs can be given out alone; who has the pair keeps it; new claims for pairs get the others."""
    stage.start_plugin("a100-pcie-bridged")
    names = sorted(objects.slice_devices(stage.wait_pool(devices=8)))
    broken = (names[4], names[5])
    pair = objects.claim_spec([objects.exactly(count=2)], [objects.same("nvlinkPair")])
    pods = [f"pair-{number}" for number in range(4)]
    for pod in pods:
        stage.run_pod(pod, pair)
    holder = next(pod for pod in pods if set(broken) == set(objects.allocated_devices(stage.read_claim_of(pod))))
    play(stage, LinkDown(gpu=4), LinkDown(gpu=5), XidEvent(gpu=4, xid=13), XidEvent(gpu=5, xid=13))

    def is_apart(slices: list[Json]) -> bool:
        devices = objects.slice_devices(slices)
        return len({objects.attribute(devices[name], "nvlinkPair") for name in broken}) == len(broken)

    stage.api.wait("ResourceSlice", None, is_apart, what="no pair any more", query=stage.pool_query, timeout_s=60.0)
    expect(health_view.count_restarts(stage, holder) == 0, "the pair's pod was restarted")
    wait_event(stage, "Node", stage.layout.node, "GpuWarning", names[4])
    stage.delete_pods(holder)
    stage.create_pod("late", pair)
    expect(is_waiting(stage.api, "late"), "a pair was given out whose link is down")
    stage.expect_own_devices("alone", stage.run_pod("alone", objects.claim_spec([objects.exactly(count=2)])))
    return f"{' and '.join(broken)} are no pair any more, and were given out without a link"


@SUITE.add("health: a storm of 10,000 XIDs, most of them of programs", needs_minor=TAINTS_SINCE)
def run_storm(stage: Stage) -> str:
    """All are counted; the program's own taint nothing; API writes, time and memory stay small."""
    port = 9641
    plugin = stage.start_plugin("dgx-h200", options=("--metrics-address", f"127.0.0.1:{port}"))
    stage.run_pod("pod", objects.claim_spec([select(stage, name_device(3))]))
    audit, status = stage.layout.home / "audit.log", Path(f"/proc/{plugin.pid}/status")
    before, cpu_s, memory = _count_writes(audit), _read_cpu_s(plugin.pid), _read_rss_mib(status)
    for batch in range(10):
        events = [(0, 13)] * 450 + [(1, 31)] * 450 + [(3, 48)] * 100
        play(stage, *(XidEvent(gpu=gpu, xid=xid, id=f"{batch}-{n}") for n, (gpu, xid) in enumerate(events)))
        wanted = (batch + 1) * 1000
        is_counted = wait_until(lambda wanted=wanted: _count_xids(port) >= wanted, timeout_s=30.0)  # type: ignore[misc]
        expect(is_counted, f"{_count_xids(port)} XIDs are counted of {wanted}")
    wait_tainted(stage, {name_device(3): {("xid", "48", "NoSchedule"), ("recovery", "gpu-reset", "NoSchedule")}})
    wait_condition(stage, "pod", {name_device(3): ("False", "Xid48")})
    writes, used_s = _count_writes(audit) - before, _read_cpu_s(plugin.pid) - cpu_s
    grown = _read_rss_mib(status) - memory
    expect(writes <= 25, f"{writes} writes to the API server")
    expect(used_s < 20.0, f"{used_s:.1f} s of CPU")
    expect(grown < 30, f"{grown} MiB more memory")
    return f"{_count_xids(port):.0f} counted; {writes} writes, {used_s:.1f} s of CPU, {grown} MiB more memory"


def _count_xids(port: int) -> float:
    return sum(each.value for each in find(port, "gpu_dra_gpu_xids_total"))


def _count_writes(audit: Path) -> int:
    return sum(each.account == PLUGIN and each.verb in _WRITES for each in read_requests(audit))


def _read_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_rss_mib(status: Path) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024


@SUITE.add("health: an XID of a MIG instance is that instance's, one of the GPU is all its parts'", needs_minor=TAINTS_SINCE)
def run_mig(stage: Stage) -> str:
    """Two parts of one GPU: first one of them is sick, then the GPU; the other GPUs never."""
    stage.start_plugin("hgx-h100-4", mig="auto")
    devices = objects.slice_devices(stage.wait_pool(devices=4 * 26))
    spec = objects.claim_spec([mig_view.request("3g.40gb", "a"), mig_view.request("3g.40gb", "b")], [_SAME_GPU])
    stage.run_pod("pod", spec)
    names = objects.allocated_devices(stage.read_claim_of("pod"))
    gpus = sorted({name[:_GPU_PART] for name in devices})
    parts = {name for name in devices if name.startswith(names[0][:_GPU_PART])}
    gpu = gpus.index(names[0][:_GPU_PART])
    nothing = NeedsRecovery(gpu=gpu, action="none")
    sick, well = names
    instance = mig_view.read_instance_id(stage.folders, devices[sick])
    play(stage, nothing, XidEvent(gpu=gpu, xid=95, gpu_instance=instance))
    wait_condition(stage, "pod", {sick: ("False", "Xid95")})
    tainted = health_view.wait_among_tainted(stage, {sick})  # claims and slices are written side by side
    expect(well not in tainted, f"tainted are {sorted(tainted)}")
    expect(tainted < parts, f"tainted are {sorted(tainted)}")
    play(stage, nothing, XidEvent(gpu=gpu, xid=95, id="whole"))
    wait_condition(stage, "pod", {sick: ("False", "Xid95"), well: ("False", "Xid95")})
    now = health_view.wait_among_tainted(stage, parts)
    expect(now == parts, f"tainted are {sorted(now)}")
    wait_state(stage, "pod", "Unhealthy")
    body = stage.api.get("Pod", NAMESPACE, "pod") or {}
    expect(objects.is_running(body), "the pod does not run any more")
    return f"{len(tainted)} devices of {sick}'s place, then {len(now)}"
