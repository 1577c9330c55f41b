"""What a scenario works with: the cluster, the API, plugins, and quick ways to say what is expected."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from hack.devcluster import cluster
from hack.devcluster.layout import Layout
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.controller import Controller
from tests.e2e.kube import ApiRefused, Json, KubeApi, TimedOut
from tests.e2e.mock_fleet import MockFleet
from tests.e2e.objects import NAMESPACE, ContainerView
from tests.e2e.plugin import Plugin, PluginFolders
from tests.e2e.process import ProcessFailed

POD_WITHIN_S = 120.0
"""A prepare that fails is tried again by the kubelet after 10 to 15 s; several may."""
_OURS = ("Pod", "ResourceClaimTemplate", "ResourceClaim")


class NotAsExpected(Exception):
    """The driver did something else than the scenario says."""


def expect(is_true: bool, what: str) -> None:
    """Fail the scenario with ``what`` unless it holds."""
    if not is_true:
        raise NotAsExpected(what)


@dataclass(slots=True, kw_only=True)
class Stage:
    """One for all scenarios; ``clear`` between them."""

    layout: Layout
    api: KubeApi
    folders: PluginFolders
    controller_kubeconfig: Path
    plugins: list[Plugin] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    fleet: MockFleet

    # -- plugins

    def start_plugin(self, machine: str, **more: object) -> Plugin:
        """Start a plugin and wait until the kubelet has it and its pool is whole."""
        plugin = self.new_plugin(machine, **more)
        plugin.start()
        plugin.wait_registered()
        self.wait_pool()
        return plugin

    def new_plugin(self, machine: str, **more: object) -> Plugin:
        """A plugin that is not started yet; it is ended with the scenario."""
        plugin = Plugin(machine=machine, **{"folders": self.folders, **more})  # type: ignore[arg-type]  # passed on as given
        self.plugins.append(plugin)
        return plugin

    def wait_pool(self, *, devices: int | None = None, timeout_s: float = 60.0) -> list[Json]:
        """Wait until the node's pool is whole (with so many devices); its slices."""

        def is_right(slices: list[Json]) -> bool:
            names = objects.slice_devices(slices)
            return objects.is_pool_complete(slices) and (devices is None or len(names) == devices)

        what = f"a complete pool of {'some' if devices is None else devices} devices"
        return self.api.wait("ResourceSlice", None, is_right, what=what, query=self.pool_query, timeout_s=timeout_s)

    @property
    def minor(self) -> int:
        """The cluster is Kubernetes 1.x: some gates are off in older ones."""
        return int(self.layout.kube_version.split(".")[1])

    @property
    def pool_query(self) -> str:
        """Selects this node's slices of this driver."""
        return f"fieldSelector=spec.nodeName%3D{self.layout.node},spec.driver%3D{objects.DRIVER}"

    # -- pods and claims

    def create_pod(self, name: str, spec: Json, **more: object) -> Json:
        """Create a template and a pod that uses it."""
        self.api.create(objects.template(name, spec))
        return self.api.create(objects.pod(name, templated=name, **more))  # type: ignore[arg-type]  # passed on as given

    def run_pod(self, name: str, spec: Json) -> ContainerView:
        """``create_pod``, wait until it runs, and read what it sees."""
        self.create_pod(name, spec)
        return self.wait_running(name)

    def wait_running(self, name: str, *, timeout_s: float = POD_WITHIN_S) -> ContainerView:
        """Wait until the pod runs and has said what it sees."""
        self.wait_pod(name, objects.is_running, what="running", timeout_s=timeout_s)
        return self.read_view(name)

    def wait_pod(self, name: str, condition: objects.PodCondition, *, what: str, timeout_s: float = POD_WITHIN_S) -> Json:
        """Wait until a condition holds for one pod."""
        found = self.api.wait(
            "Pod",
            NAMESPACE,
            lambda pods: bool(pods) and condition(pods[0]),
            what=f"pod {name} {what}",
            query=f"fieldSelector=metadata.name%3D{name}",
            timeout_s=timeout_s,
        )
        return found[0]

    def read_view(self, name: str, container: str = "main") -> ContainerView:
        """What a running container said that it sees."""
        log = ""

        def is_said() -> bool:
            nonlocal log
            try:
                log = self.api.read_log(NAMESPACE, name, container)
            except ApiRefused:
                return False
            return objects.END_OF_REPORT in log.splitlines()

        if not wait_until(is_said, timeout_s=30.0):
            raise NotAsExpected(f"pod {name} runs and has not reported; its log: {log[-1000:]!r}")
        return objects.parse_view(log)

    def delete_pods(self, *names: str, grace_s: int | None = None) -> None:
        """Delete pods and wait until they are gone."""
        for name in names:
            self.api.delete("Pod", NAMESPACE, name, grace_s=grace_s)
        self.wait_gone("Pod", names)

    def wait_gone(self, kind: str, names: Sequence[str], *, timeout_s: float = POD_WITHIN_S) -> None:
        """Wait until none of these is there."""

        def is_gone(found: list[Json]) -> bool:
            return not {each["metadata"]["name"] for each in found} & set(names)

        self.api.wait(kind, NAMESPACE, is_gone, what=f"{kind} {', '.join(names)} gone", timeout_s=timeout_s)

    def create_allocated_claim(self, name: str, devices: Sequence[str], **more: object) -> Json:
        """A claim that this test allocates itself, to be prepared by a direct call."""
        spec = objects.claim_spec([objects.exactly(count=max(1, len(devices)))])
        created = self.api.create(objects.claim(name, spec))
        node = self.layout.node
        created["status"] = {"allocation": objects.allocation(devices, node=node, **more)}  # type: ignore[arg-type]
        return self.api.write_status(created)

    def read_claim_of(self, pod: str) -> Json:
        """The claim that a pod uses (its first)."""
        body = self.api.get("Pod", NAMESPACE, pod) or {}
        statuses = body.get("status", {}).get("resourceClaimStatuses", [])
        named = body.get("spec", {}).get("resourceClaims", [{}])[0].get("resourceClaimName")
        name = statuses[0]["resourceClaimName"] if statuses else named
        found = self.api.get("ResourceClaim", NAMESPACE, name) if name else None
        if found is None:
            raise NotAsExpected(f"pod {pod} has no claim {name!r}")
        return found

    def expect_own_devices(self, pod: str, view: ContainerView) -> tuple[str, ...]:
        """The pod sees, in each of three ways, the devices that its claim was allocated and no other; their names."""
        devices = objects.slice_devices(self.wait_pool())
        names = objects.allocated_devices(self.read_claim_of(pod))
        uuids = tuple(sorted(str(objects.attribute(devices[name], "uuid")) for name in names))
        expect(bool(names), f"pod {pod} has no allocated device")
        expect(view.uuids == uuids, f"pod {pod} was allocated {uuids} and is told of {view.uuids}")
        expect(view.smi_uuids == uuids, f"pod {pod} was allocated {uuids} and nvidia-smi -L lists {view.smi_uuids}")
        expect(len(view.gpu_nodes) == len(names), f"pod {pod} has {len(names)} GPUs and the nodes {view.gpu_nodes}")
        return names

    # -- between scenarios

    def clear(self) -> None:
        """Remove every pod and claim, see that the driver released all, end the plugins, and forget their state.

        Raises:
            NotAsExpected: a pod does not end, or a record or a CDI file is left though every claim is gone.
        """
        self.restore_cluster()
        leftover = ""
        try:
            if self._is_inhabited():
                for processes in (self.plugins, self.controllers):
                    if processes and not any(each.is_running() for each in processes):
                        processes[-1].start()
                self._delete_all()
                leftover = self._describe_leftover()
        except (TimedOut, ProcessFailed) as err:
            leftover = str(err)
            self._delete_by_force()
        for process in (*self.controllers, *self.plugins):
            try:
                process.stop()
            except ProcessFailed as err:
                leftover = leftover or str(err)
        self.controllers.clear()
        self.plugins.clear()
        self.fleet.remove_all()
        self.forget_plugin_state()
        expect(not leftover, f"left behind: {leftover}")

    def forget_plugin_state(self) -> None:
        """A node that the driver was never on: no records, no mock state, no CDI files, no slices, no annotation."""
        shutil.rmtree(self.folders.plugin_dir, ignore_errors=True)
        for path in [*self.folders.cdi_root.iterdir(), *self.folders.list_sockets()]:
            path.unlink(missing_ok=True)
        for found in self.api.find("ResourceSlice", query=self.pool_query):
            self.api.delete("ResourceSlice", None, found["metadata"]["name"])
        node = self.api.get("Node", None, self.layout.node)
        if node is not None and objects.DRAINED in node["metadata"].get("annotations", {}):
            body: Json = {"metadata": {"annotations": {objects.DRAINED: None}}}
            self.api.request("PATCH", self.api.path("Node", None, self.layout.node), body, kind="application/merge-patch+json")

    def restore_cluster(self) -> None:
        """Start what a scenario has stopped."""
        for name, pid in cluster.read_running(self.layout).items():
            if pid is None:
                cluster.start_component(self.layout, name)
                cluster.wait_for_component(self.layout, name)

    def stop_component(self, component: str) -> None:
        """Stop one part of the cluster; it is started again with the scenario's end."""
        cluster.stop_component(self.layout, component)

    def start_component(self, component: str) -> None:
        """Start it again, and wait until it answers."""
        cluster.start_component(self.layout, component)
        cluster.wait_for_component(self.layout, component)

    def restart(self, component: str) -> None:
        """Restart one part of the cluster and wait until it answers."""
        self.stop_component(component)
        self.start_component(component)

    @contextlib.contextmanager
    def frozen(self, component: str) -> Iterator[None]:
        """SIGSTOP for one part of the cluster meanwhile: it does nothing, and does not know it."""
        pid = cluster.read_running(self.layout)[component]
        if pid is None:
            raise NotAsExpected(f"{component} does not run")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def forget_history(self) -> None:
        """Etcd forgets all that was until now, and the API server begins anew: who watches from before has to list again.

        Raises:
            NotAsExpected: etcd was not compacted.
        """
        version = self.api.request("GET", self.api.path("Pod", None) + "?limit=1")["metadata"]["resourceVersion"]
        where = f"http://127.0.0.1:{self.layout.etcd_port}/v3/kv/compaction"
        answer = urllib3.request("POST", where, json={"revision": version, "physical": True}, timeout=10.0, retries=False)
        expect(answer.status == 200, f"etcd was not compacted: {answer.status} {answer.data.decode(errors='replace')[:200]}")
        self.restart("apiserver")

    def _is_inhabited(self) -> bool:
        return any(self.api.find(kind, NAMESPACE) for kind in _OURS)

    def _delete_all(self) -> None:
        for kind in _OURS:
            for found in self.api.find(kind, NAMESPACE):
                is_on_mock_node = found["spec"].get("nodeName") in self.fleet.names  # no kubelet ends it there
                self.api.delete(kind, NAMESPACE, found["metadata"]["name"], grace_s=0 if is_on_mock_node else None)
        for kind in ("Pod", "ResourceClaim"):
            self.api.wait(kind, NAMESPACE, lambda found: not found, what=f"no {kind} left", timeout_s=POD_WITHIN_S)

    def _delete_by_force(self) -> None:
        """So that one failed scenario does not fail the next: without the driver, and the kubelet forgets its claims."""
        for found in self.api.find("Pod", NAMESPACE):
            self.api.delete("Pod", NAMESPACE, found["metadata"]["name"], grace_s=0)
        for found in self.api.find("ResourceClaim", NAMESPACE):
            where = self.api.path("ResourceClaim", NAMESPACE, found["metadata"]["name"])
            no_finalizers = {"metadata": {"finalizers": None}}
            with contextlib.suppress(ApiRefused):  # one whose parameters have white space: kube-controller-manager frees it
                self.api.request("PATCH", where, no_finalizers, kind="application/merge-patch+json")
        cluster.stop_component(self.layout, "kubelet")
        (self.layout.kubelet_root / "dra_manager_state").unlink(missing_ok=True)
        cluster.start_component(self.layout, "kubelet")
        cluster.wait_for_component(self.layout, "kubelet")

    def _describe_leftover(self) -> str:
        def is_clean() -> bool:
            return not self.folders.list_records() and not self.folders.list_cdi_files()

        if wait_until(is_clean, timeout_s=10.0):
            return ""
        return ", ".join(path.name for path in [*self.folders.list_records(), *self.folders.list_cdi_files()])


def is_waiting(api: KubeApi, name: str) -> bool:
    """The pod is not bound, and the scheduler has said that it cannot be."""

    def is_unschedulable(pods: list[Json]) -> bool:
        conditions = pods[0].get("status", {}).get("conditions", []) if pods else []
        return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)

    try:
        query = f"fieldSelector=metadata.name%3D{name}"
        api.wait("Pod", NAMESPACE, is_unschedulable, what=f"pod {name} unschedulable", query=query, timeout_s=30.0)
    except TimedOut:
        return False
    return True


def list_folder(folder: Path) -> list[str]:
    """Names in a folder, empty when it is not there."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
