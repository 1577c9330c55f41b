"""Every feature on one node at the same time: none switches another off, and a sick GPU is nobody else's trouble."""

from __future__ import annotations

import json
from collections.abc import Mapping

from driver.nvml.mock.compute_modes import read_time_slice
from driver.nvml.mock.faults import NeedsRecovery, XidEvent
from hack.devcluster.processes import wait_until
from tests.e2e import config_cases, health_view, manifests, mig_view, objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.runner import Suite
from tests.e2e.scenarios.mig import FIRST_MINOR
from tests.e2e.scenarios.sharing import ASK_MPS, for_driver, list_daemons, mps_dir, read_said
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_GPUS, _DEVICES = 4, 4 * 26
_GPU_PART = len("gpu-0000-06-00-0")
"""Of a device's name."""
_METADATA = "echo METADATA $(cat /var/run/kubernetes.io/dra-device-attributes/*/*/*/gpu.nvidia.com-metadata.json | head -n 1);"
_PARTS: Json = {"capacity": {"requests": {"memory": "20000Mi"}}}
_WITHIN_S = 30.0
_LABELLED = {
    **manifests.namespace(NAMESPACE),
    "metadata": {"name": NAMESPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
}
"""Without it the API server refuses admin access."""


@SUITE.add("MIG, MPS, time slices, shares, admin access, metadata and health on one node", needs_minor=FIRST_MINOR)
def run_together(stage: Stage) -> str:
    """A MIG device by MPS, a GPU by time slices, one by memory, a monitor of all; then two of these GPUs get sick."""
    plugin = stage.start_plugin(
        "hgx-h100-4", mig="auto", options=("--mps-dir", str(mps_dir(stage)), "--consumable-shares=memory")
    )
    devices = dict(objects.slice_devices(stage.wait_pool(devices=_DEVICES)))
    uuids = _run_all(stage, devices)
    gpus = sorted({name[:_GPU_PART] for name in devices})
    divided, sliced = (gpus.index(_gpu_of(stage, pod)) for pod in ("part", "sliced-1"))
    nothing = [NeedsRecovery(gpu=gpu, action="none") for gpu in (divided, sliced)]
    health_view.play(stage, *nothing, XidEvent(gpu=divided, xid=95), XidEvent(gpu=sliced, xid=95))
    sick = {name for name in devices if name[:_GPU_PART] in {gpus[divided], gpus[sliced]}}
    health_view.wait_tainted(stage, {name: {("xid", "95", "NoSchedule")} for name in sick})
    expect(len(sick) == _DEVICES // 2, f"{len(sick)} devices are sick")
    plugin.kill()
    plugin.start()
    plugin.wait_registered()
    _expect_going_on(stage, uuids)
    _run_beside(stage, sick)
    _end(stage)
    return f"{len(uuids)} pods go on, {len(sick)} devices of 2 GPUs tainted, new ones on the other {_GPUS - 2}"


def _run_all(stage: Stage, devices: Mapping[str, Json]) -> dict[str, str]:
    """One pod of each kind; the uid of each."""
    _run_monitor(stage, devices)
    by_mps = for_driver({**config_cases.MIG, "sharing": {"strategy": "MPS"}})
    stage.create_pod("part", objects.claim_spec([mig_view.request("3g.40gb")], config=[by_mps]), command=_report(ASK_MPS))
    stage.api.create(objects.claim("sliced", _by_time()))
    for name in ("sliced-1", "sliced-2"):
        stage.api.create(objects.pod(name, named="sliced", command=_report()))
    for name in ("share-1", "share-2"):
        stage.create_pod(name, objects.claim_spec([objects.exactly(**_PARTS)]), command=_report())
    views = {name: stage.wait_running(name) for name in ("part", "sliced-1", "sliced-2", "share-1", "share-2")}
    expect(views["part"].uuids[0].startswith("MIG-"), f"the part is {views['part'].uuids}")
    expect(views["sliced-1"].uuids == views["sliced-2"].uuids, "the pods by time slices do not share a GPU")
    expect(views["share-1"].uuids == views["share-2"].uuids, "the pods by memory do not share a GPU")
    expect(len({_gpu_of(stage, pod) for pod in ("part", "sliced-1", "share-1")}) == 3, "two kinds are on one GPU")
    for name in views:
        told = _read_metadata(stage, name)
        expect(told == list(objects.allocated_devices(stage.read_claim_of(name))), f"{name}'s metadata tells {told}")
    _expect_applied(stage, views["sliced-1"].uuids[0])
    return {name: _read_uid(stage, name) for name in (*views, "monitor")}


def _run_monitor(stage: Stage, devices: Mapping[str, Json]) -> None:
    """The first of all: kube-scheduler wants the counters of a GPU free for admin access, too, and takes none of them."""
    stage.api.apply(_LABELLED)
    monitor = {"deviceClassName": objects.GPU_CLASS, "allocationMode": "All", "adminAccess": True}
    watched = stage.run_pod("monitor", objects.claim_spec([{"name": "gpus", "exactly": monitor}]))
    whole = {str(objects.attribute(device, "uuid")) for name, device in devices.items() if "-mig-" not in name}
    expect(set(watched.uuids) == whole, f"the monitor sees {watched.uuids}")


def _expect_applied(stage: Stage, sliced: str) -> None:
    expect(read_said(stage, "part") == "100.0", f"MPS said {read_said(stage, 'part')!r}")
    expect(read_time_slice(stage.folders.mock_state / "root", sliced) == 3, "the time slice is not set")
    expect(len(list_daemons(stage)) == 1, f"the daemons are {list_daemons(stage)}")
    expect(len(mig_view.read_instances(stage.folders)) == 1, f"there is {mig_view.read_instances(stage.folders)}")


def _expect_going_on(stage: Stage, uids: Mapping[str, str]) -> None:
    """The same pods, none of which began anew, with all that was set for them."""
    for name, uid in uids.items():
        body = stage.api.get("Pod", NAMESPACE, name) or {}
        expect(bool(body) and objects.is_running(body), f"{name} does not run any more")
        expect(_read_uid(stage, name) == uid and health_view.count_restarts(stage, name) == 0, f"{name} began anew")
    (sliced,) = stage.read_view("sliced-1").uuids
    _expect_applied(stage, sliced)


def _run_beside(stage: Stage, sick: set[str]) -> None:
    """What comes now is given the GPUs that are well: a part, a share, and no whole one, since none is left."""
    stage.run_pod("part-2", objects.claim_spec([mig_view.request("3g.40gb")]))
    stage.run_pod("share-3", objects.claim_spec([objects.exactly(**_PARTS)]))
    for name in ("part-2", "share-3"):
        given = objects.allocated_devices(stage.read_claim_of(name))
        expect(sick.isdisjoint(given), f"{name} was given {given}, which is sick")
    expect(_gpu_of(stage, "share-3") == _gpu_of(stage, "share-1"), "the third share is on another GPU")
    expect(len(mig_view.read_instances(stage.folders)) == 2, f"there is {mig_view.read_instances(stage.folders)}")


def _end(stage: Stage) -> None:
    """All go, those of sick GPUs too, and leave nothing."""
    stage.delete_pods(*(each["metadata"]["name"] for each in stage.api.find("Pod", NAMESPACE)))
    expect(wait_until(lambda: not list_daemons(stage), timeout_s=_WITHIN_S), "the daemon's folder stays")
    expect(wait_until(lambda: not mig_view.read_instances(stage.folders), timeout_s=_WITHIN_S), "an instance stays")


def _by_time() -> Json:
    return objects.claim_spec([objects.exactly()], config=[for_driver(config_cases.time_slicing("Long"))])


def _report(first: str = "") -> str:
    return first + _METADATA + objects.REPORT


def _read_metadata(stage: Stage, pod: str) -> list[str]:
    """The devices that the file in the container tells."""
    log = stage.api.read_log(NAMESPACE, pod, "main")
    line = next(line for line in log.splitlines() if line.startswith("METADATA "))
    requests = json.loads(line.removeprefix("METADATA "))["requests"]
    return [device["name"] for request in requests for device in request["devices"]]


def _gpu_of(stage: Stage, pod: str) -> str:
    return objects.allocated_devices(stage.read_claim_of(pod))[0][:_GPU_PART]


def _read_uid(stage: Stage, pod: str) -> str:
    return str((stage.api.get("Pod", NAMESPACE, pod) or {})["metadata"]["uid"])
