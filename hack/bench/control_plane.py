"""A real control plane with nodes that exist only as objects: etcd, kube-apiserver, kube-scheduler, kube-controller-manager.

No kubelet and no containerd run. The controllers that look after nodes' health are off, so nodes stay Ready without heartbeats,
and hundreds of them cost nothing while something is measured.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hack.bench.processes import BenchFailed, read_cpu_s
from hack.devcluster import cleanup, cluster, components, pki, processes
from hack.devcluster.layout import Layout, write_started
from hack.devcluster.mock_nodes import build_node
from tests.e2e import manifests
from tests.e2e.controller import LEASE, Controller
from tests.e2e.kube import Json, KubeApi
from tests.e2e.mock_fleet import build_slices
from tests.e2e.objects import NAMESPACE

CREATORS = 8
_WAIT_S = 90.0
_HEALTH_PORT = 18080
_OWN_NAMESPACE = "gpu-dra"
_NO_NODE_HEALTH = ("--controllers=*,-node-lifecycle-controller,-taint-eviction-controller", "--kube-api-qps=200")
_MERGE = "application/merge-patch+json"


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """What runs, and how to ask it."""

    layout: Layout
    api: KubeApi
    controller: Controller

    def create_all(self, bodies: Sequence[Json]) -> None:
        """Create objects, several at a time, in about this order."""
        with ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(self.api.create, bodies))

    def add_nodes(self, names: Sequence[str], machine: str, *, is_fenced: bool) -> None:
        """Have these nodes, each with the GPUs of a mock machine."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.create_all([dict(build_node(name, now)) for name in names])
        for name in names:  # new nodes are tainted until somebody has seen them Ready
            self.api.request("PATCH", self.api.path("Node", None, name), {"spec": {"taints": None}}, kind=_MERGE)
        self.create_all([each for name in names for each in build_slices(machine, name, is_fenced=is_fenced)])

    def set_scheduler_rate(self, qps: float | None) -> None:
        """Start kube-scheduler anew with so many requests a second (and bursts of twice as many); None is its own default."""
        cluster.stop_component(self.layout, "scheduler")
        path = self.layout.home / "scheduler.yaml"
        configuration = json.loads(path.read_text())
        connection = configuration["clientConnection"]
        for key in ("qps", "burst"):
            connection.pop(key, None)
        if qps is not None:
            connection |= {"qps": qps, "burst": round(qps * 2)}
        path.write_text(json.dumps(configuration, indent=1))
        cluster.start_component(self.layout, "scheduler")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Both allocators are stopped meanwhile, in the middle of whatever they do."""
        pids = [self._pid("scheduler"), self.controller.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def read_cpu_s(self) -> dict[str, float]:
        """How long each process has run so far, ours that create and watch among them."""
        pids = {name: self._pid(name) for name in ("apiserver", "etcd", "scheduler", "kcm")}
        pids |= {"controller": self.controller.pid, "bench": os.getpid()}
        return {name: read_cpu_s(pid) for name, pid in pids.items()}

    def _pid(self, component: str) -> int:
        pid = processes.read_pid(self.layout.logs, component)
        if pid is None:
            raise BenchFailed(f"{component} does not run; see {self.layout.logs / component}.log")
        return pid


@contextlib.contextmanager
def run_control_plane(layout: Layout, *, fenced: int, unfenced: int, machine: str, **more: Any) -> Iterator[ControlPlane]:
    """Start everything, with so many nodes and a controller that leads; end it, and leave nothing.

    Raises:
        DevclusterError: a part did not come up.
    """
    try:
        _start(layout)
        api = KubeApi(layout.admin_kubeconfig)
        for body in [manifests.namespace(NAMESPACE), *manifests.read_device_classes(with_extended_resource=False)]:
            api.apply(body)
        plane = ControlPlane(layout=layout, api=api, controller=_build_controller(layout, **more))
        plane.add_nodes([f"open-{number}" for number in range(unfenced)], machine, is_fenced=False)
        plane.add_nodes([f"fenced-{number}" for number in range(fenced)], machine, is_fenced=True)
        _write_account(api, layout)
        api.create(_build_free_lease())
        api.wait("ServiceAccount", NAMESPACE, bool, what="an account for pods", timeout_s=_WAIT_S)
        plane.controller.start()
        try:
            plane.controller.wait_leading()
            yield plane
        finally:
            plane.controller.stop()
    finally:
        cleanup.remove_cluster(layout)


def _build_free_lease() -> Json:
    """As a leader leaves it that went in good order: who comes need not wait."""
    metadata = {"name": LEASE, "namespace": _OWN_NAMESPACE}
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _write_account(api: KubeApi, layout: Layout) -> None:
    """A service account for the controller, so that the server ranks its requests as such; it may do everything."""
    metadata = {"name": LEASE, "namespace": _OWN_NAMESPACE}
    subject = {"kind": "ServiceAccount", **metadata}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    api.apply(manifests.namespace(_OWN_NAMESPACE))
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": LEASE}}
    api.apply({**binding, "subjects": [subject], "roleRef": role})
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    answer = api.request("POST", api.path("ServiceAccount", _OWN_NAMESPACE, LEASE, "token"), request)
    config = json.loads(layout.admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = layout.home / "controller.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def _build_controller(layout: Layout, **more: Any) -> Controller:
    """As it is installed, but for the place where it says how it is, and a lease that outlasts being ``held``."""
    return Controller(
        kubeconfig=layout.home / "controller.kubeconfig",
        logs=layout.logs,
        namespace=_OWN_NAMESPACE,
        port=_HEALTH_PORT,
        options=("--log-level", "info", "--log-format", "json", "--lease-s", "600", "--renew-s", "500"),
        **more,
    )


def _start(layout: Layout) -> None:
    layout.home.mkdir(parents=True, mode=0o755)
    pki.write_pki(layout)
    components.write_configuration(layout)
    write_started(layout)
    for name in ("etcd", "apiserver"):
        cluster.start_component(layout, name)
    if not processes.wait_until(lambda: cluster.is_api_ready(layout), timeout_s=_WAIT_S):
        raise BenchFailed(f"the API server is not ready; see {layout.logs}")
    cluster.start_component(layout, "scheduler")
    manager = components.build_component(layout, "kcm").argv
    processes.start(layout.logs, "kcm", [*manager, *_NO_NODE_HEALTH], cwd=layout.home)
