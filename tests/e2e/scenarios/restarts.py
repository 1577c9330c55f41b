"""Everything around a running pod is restarted; the pod, its devices and what the driver knows of them stay."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hack.devcluster.processes import wait_until
from tests.e2e import calls, objects
from tests.e2e.objects import NAMESPACE, ContainerView
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect, list_folder

SUITE = Suite()
TWO = objects.claim_spec([objects.exactly(count=2)], [objects.same("nvlinkIsland")])
MACHINE = "dgx-h100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A running pod, and all that must not change under it."""

    container_id: str
    view: ContainerView
    devices: tuple[str, ...]
    files: dict[str, bytes]
    """Records and CDI files, by name."""


def start_pod(stage: Stage, name: str = "before") -> Before:
    """Run a pod with two GPUs and remember what it has."""
    view = stage.run_pod(name, TWO)
    devices = stage.expect_own_devices(name, view)
    return Before(container_id=_container_id(stage, name), view=view, devices=devices, files=read_files(stage))


def expect_untouched(stage: Stage, before: Before, name: str = "before") -> None:
    """The same container runs, with the same devices, records and CDI files; a new pod gets other devices; both end cleanly."""
    expect(_container_id(stage, name) == before.container_id, f"the container of pod {name} is another")
    expect(read_files(stage) == before.files, f"records or CDI files changed: {sorted(read_files(stage))}")
    after = stage.expect_own_devices("after", stage.run_pod("after", TWO))
    expect(not set(after) & set(before.devices), f"{after} and {before.devices} are given at once")
    stage.delete_pods(name, "after")


def read_files(stage: Stage) -> dict[str, bytes]:
    """Records and CDI files with their content."""
    return {path.name: path.read_bytes() for path in [*stage.folders.list_records(), *stage.folders.list_cdi_files()]}


def _container_id(stage: Stage, name: str) -> str:
    body = stage.api.get("Pod", NAMESPACE, name) or {}
    return str([status.get("containerID") for status in body["status"]["containerStatuses"]])


def _restart_around_a_pod(restart: Callable[[Stage, Plugin], None]) -> Callable[[Stage], str]:
    def run(stage: Stage) -> str:
        plugin = stage.start_plugin(MACHINE)
        before = start_pod(stage)
        restart(stage, plugin)
        expect_untouched(stage, before)
        return f"container and CDI files the same ({', '.join(before.devices)}), a new pod runs beside it, both end"

    return run


def _restart_kubelet(stage: Stage, _plugin: Plugin) -> None:
    began = time.monotonic()
    stage.restart("kubelet")
    stage.wait_pool(devices=8)
    expect(time.monotonic() - began < 60, "the slices that the kubelet wiped took a minute to come back")


def _restart_containerd(stage: Stage, _plugin: Plugin) -> None:
    stage.restart("containerd")
    stage.wait_running("before")


def _restart_plugin(stage: Stage, plugin: Plugin) -> None:
    versions = _slice_versions(stage)
    status = plugin.stop()
    expect(status == 0, f"SIGTERM ended the plugin with {status}")
    expect(not stage.folders.list_sockets(), f"sockets left after SIGTERM: {stage.folders.list_sockets()}")
    plugin.start()
    plugin.wait_registered()
    stage.wait_pool(devices=8)
    expect(_slice_versions(stage) == versions, "slices were written again though nothing changed")


def _kill_plugin(stage: Stage, plugin: Plugin) -> None:
    plugin.kill()
    plugin.start()
    plugin.wait_registered()
    stage.wait_pool(devices=8)


def _slice_versions(stage: Stage) -> dict[str, str]:
    found = stage.api.find("ResourceSlice", query=stage.pool_query)
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


SUITE.add("the kubelet restarts under a running pod")(_restart_around_a_pod(_restart_kubelet))
SUITE.add("containerd restarts under a running pod")(_restart_around_a_pod(_restart_containerd))
SUITE.add("the plugin restarts: no socket left, no slice written")(_restart_around_a_pod(_restart_plugin))
SUITE.add("the plugin is killed with -9 under a running pod")(_restart_around_a_pod(_kill_plugin))


@SUITE.add("the plugin starts while the API server is down")
def start_without_api_server(stage: Stage) -> str:
    """It registers, and publishes once the API server is back; then pods run."""
    stage.stop_component("apiserver")
    plugin = stage.new_plugin(MACHINE)
    plugin.start()
    plugin.wait_registered()
    stage.start_component("apiserver")
    began = time.monotonic()
    stage.wait_pool(devices=8)
    published_s = time.monotonic() - began
    stage.expect_own_devices("pod", stage.run_pod("pod", TWO))
    return f"registered at once, published {published_s:.1f} s after the API server came"


@SUITE.add("deleted slices come back")
def delete_slices(stage: Stage) -> str:
    """All slices of the pool are deleted by hand; within two seconds they are there again."""
    stage.start_plugin(MACHINE)
    found = stage.api.find("ResourceSlice", query=stage.pool_query)
    began = time.monotonic()
    for each in found:
        stage.api.delete("ResourceSlice", None, each["metadata"]["name"])
    stage.wait_pool(devices=8)
    took_s = time.monotonic() - began
    expect(took_s < 10, f"the slices took {took_s:.1f} s")  # 2 s is the target; the machine may be busy
    return f"{len(found)} deleted, whole again after {took_s:.2f} s"


@SUITE.add("the CDI folder is wiped: a running plugin and a starting one write the files again")
def wipe_cdi_folder(stage: Stage) -> str:
    """A repeated prepare brings a missing file back, and so does a start."""
    plugin = stage.start_plugin(MACHINE)
    before = start_pod(stage)
    claim = calls.claim_message(stage.read_claim_of("before"))
    for path in stage.folders.list_cdi_files():
        path.unlink()
    answer = calls.call_prepare(plugin.service_socket, [claim])[claim.uid]
    expect(not answer.error, f"the repeated prepare failed: {answer.error}")
    expect(read_files(stage) == before.files, "the repeated prepare did not bring the same files back")
    plugin.stop()
    for path in stage.folders.list_cdi_files():
        path.unlink()
    plugin.start()
    plugin.wait_registered()
    is_back = wait_until(lambda: read_files(stage) == before.files, timeout_s=15.0)
    expect(is_back, f"the start brought back {list_folder(stage.folders.cdi_root)}")
    expect_untouched(stage, before)
    return f"the same {len(before.files)} files, byte by byte, both times"


@SUITE.add("a named claim is prepared again right after its unprepare")
def reuse_named_claim(stage: Stage) -> str:
    """Three pods one after the other, each created the moment its predecessor is gone, all on one named claim."""
    stage.start_plugin(MACHINE)
    stage.api.create(objects.claim("named", TWO))
    given: list[tuple[str, ...]] = []
    for number in range(3):
        name = f"user-{number}"
        stage.api.create(objects.pod(name, named="named"))
        given.append(stage.expect_own_devices(name, stage.wait_running(name)))
        stage.delete_pods(name)
    return f"3 pods in turn, each with {given[0]}"


@SUITE.add("a force-deleted pod whose container still runs keeps its GPUs")
def force_delete(stage: Stage) -> str:
    """The kubelet is away and the pod is deleted by force: nobody else gets its GPUs until its container has ended."""
    plugin = stage.start_plugin(MACHINE)
    all_gpus = objects.claim_spec([objects.exactly(count=8)])
    stage.expect_own_devices("old", stage.run_pod("old", all_gpus))
    devices = objects.allocated_devices(stage.read_claim_of("old"))
    stage.stop_component("kubelet")
    stage.delete_pods("old", grace_s=0)
    stolen = stage.create_allocated_claim("thief", devices[:1])
    message = calls.claim_message(stolen)
    answer = calls.call_prepare(plugin.service_socket, [message])[message.uid]
    expect(bool(answer.error), "a GPU was given away while the container of the force-deleted pod still ran")
    stage.api.delete("ResourceClaim", NAMESPACE, "thief")
    stage.create_pod("new", all_gpus)
    stage.start_component("kubelet")
    stage.expect_own_devices("new", stage.wait_running("new", timeout_s=180.0))
    return f"refused while it ran ({answer.error[:90]}...), given once it had ended"


@SUITE.add("a second instance takes over: rolling update")
def upgrade(stage: Stage) -> str:
    """Pods start before, while and after two instances overlap; none fails; the old one takes nothing of the new one along."""
    earlier = _failed_prepares(stage)
    old = stage.start_plugin(MACHINE)
    before = start_pod(stage)
    new = stage.new_plugin(MACHINE)
    new.start()
    new.wait_registered()
    one = objects.claim_spec([objects.exactly()])
    stage.expect_own_devices("while-both", stage.run_pod("while-both", one))
    status = old.stop()
    expect(status == 0, f"the old instance ended with {status}")
    sockets = {new.service_socket, new.registration_socket}
    expect(set(stage.folders.list_sockets()) == sockets, f"sockets after the update: {stage.folders.list_sockets()}")
    stage.delete_pods("while-both")
    expect_untouched(stage, before)
    failed = _failed_prepares(stage) - earlier
    expect(not failed, f"pods failed meanwhile: {failed}")
    return "pods before, between and after; no failed prepare; only the new instance's sockets are left"


def _failed_prepares(stage: Stage) -> set[str]:
    """What the kubelet said of failed prepares in which the driver had a part."""
    events = stage.api.find("Event", NAMESPACE, query="fieldSelector=reason%3DFailedPrepareDynamicResources")
    said = {f"{each['involvedObject']['name']} {each['involvedObject']['uid']}: {each['message']}" for each in events}
    return {text for text in said if "fetch ResourceClaim" not in text}  # the node authorizer is late at times
