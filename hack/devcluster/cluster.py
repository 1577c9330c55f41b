"""Bring one cluster up and down, and start, stop and restart its parts."""

from __future__ import annotations

import http
import json
import os
import subprocess
import urllib.request
from collections.abc import Sequence

from hack.devcluster import cgroups, cleanup, components, images, network, pki, processes
from hack.devcluster.build import Say
from hack.devcluster.layout import DevclusterError, Layout, read_started, write_started

READY_WITHIN_S = 180.0
"""Generous: a shared two-core machine that also compiles needs a minute."""


def bring_up(layout: Layout, say: Say) -> None:
    """Start a cluster and wait until its node is Ready. One that runs whole is left as it is; a half-dead one is removed first.

    Raises:
        DevclusterError: a part did not come up; the text names its log.
    """
    if os.geteuid() != 0:
        raise DevclusterError("a node needs root: containers, mounts, network namespaces")
    started = read_started(layout)
    if started is not None and started.kube_version == layout.kube_version and _is_whole(started):
        say(f"already up: {started.admin_kubeconfig}")
        return
    if layout.home.exists():
        say(f"removing what an earlier cluster left in {layout.home}")
        cleanup.remove_cluster(layout)
    if not os.access(layout.node_bin / "ctr", os.X_OK):
        raise DevclusterError("the binaries are not built; run: hack/devcluster/devcluster build")
    layout.home.mkdir(parents=True, mode=0o755)
    pki.write_pki(layout)
    components.write_configuration(layout)
    write_started(layout)
    for name in ("etcd", "apiserver", "containerd"):
        start_component(layout, name)
    _wait(layout, "apiserver", lambda: is_api_ready(layout))
    for name in ("scheduler", "kcm"):
        start_component(layout, name)
    _wait(layout, "containerd", lambda: is_containerd_ready(layout))
    for archive in images.write_images(layout.home / "images"):
        images.load_image(layout, archive)
    network.open_service(layout)
    cgroups.make_cgroup(layout)
    start_component(layout, "kubelet")
    _wait(layout, "kubelet", lambda: is_node_ready(layout))
    _wait(layout, "kcm", lambda: run_kubectl(layout, "get", "serviceaccount", "default").returncode == 0)
    say(f"up: Kubernetes {layout.kube_version}, node {layout.node}, KUBECONFIG={layout.admin_kubeconfig}")


def bring_down(layout: Layout, say: Say) -> None:
    """End everything and remove all state. No cluster: nothing happens."""
    if not layout.home.exists():
        say("not up")
        return
    cleanup.remove_cluster(layout)
    say(f"down; {layout.home} is removed")


def start_component(layout: Layout, name: str) -> None:
    """Start one part; already running: nothing happens."""
    processes.start(layout.logs, name, components.build_component(layout, name).argv, cwd=layout.home)


def stop_component(layout: Layout, name: str) -> None:
    """Stop one part, and only it: pods outlive a stopped kubelet, and containers a stopped containerd."""
    processes.stop(layout.logs, name, patience_s=components.build_component(layout, name).patience_s)


def wait_for_component(layout: Layout, name: str) -> None:
    """Return when a started part answers.

    Raises:
        DevclusterError: it does not, or ended; the text names its log.
    """
    ready = {
        "apiserver": lambda: is_api_ready(layout),
        "containerd": lambda: is_containerd_ready(layout),
        "kubelet": lambda: is_kubelet_healthy() and is_node_ready(layout),
    }.get(name, lambda: True)
    _wait(layout, name, ready)


def write_mock_nodes(layout: Layout, names: Sequence[str]) -> None:
    """Make exactly these the mock nodes of the cluster; they are Ready within seconds."""
    (layout.home / "mock-nodes.json").write_text(json.dumps(sorted(names)))
    stop_component(layout, components.MOCK_NODES)
    start_component(layout, components.MOCK_NODES)


def is_api_ready(layout: Layout) -> bool:
    """The API server says that it is ready."""
    return run_kubectl(layout, "get", "--raw", "/readyz").returncode == 0


def is_containerd_ready(layout: Layout) -> bool:
    """The node's containerd answers."""
    if not layout.containerd_socket.exists():
        return False
    return subprocess.run([*images.ctr(layout), "version"], capture_output=True, check=False, timeout=20).returncode == 0


def is_kubelet_healthy() -> bool:
    """The kubelet itself says that it works; the node's condition alone may be of an earlier kubelet."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:10248/healthz", timeout=5) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except OSError:
        return False


def is_node_ready(layout: Layout) -> bool:
    """The kubelet's node is Ready."""
    condition = '{.status.conditions[?(@.type=="Ready")].status}'
    return run_kubectl(layout, "get", "node", layout.node, "-o", f"jsonpath={condition}").stdout == "True"


def run_kubectl(layout: Layout, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl as administrator; the caller looks at the exit status."""
    kubectl = [str(layout.kube_bin / "kubectl"), "--kubeconfig", str(layout.admin_kubeconfig), "--request-timeout=20s"]
    return subprocess.run([*kubectl, *arguments], capture_output=True, text=True, check=False, timeout=60)


def read_running(layout: Layout) -> dict[str, int | None]:
    """The process id of each part, None where it does not run."""
    names = [*components.START_ORDER]
    if (layout.home / "mock-nodes.json").exists():
        names.append(components.MOCK_NODES)
    return {name: processes.read_pid(layout.logs, name) for name in names}


def _is_whole(layout: Layout) -> bool:
    return None not in read_running(layout).values() and is_api_ready(layout) and is_node_ready(layout)


def _wait(layout: Layout, name: str, condition: processes.Condition) -> None:
    def is_settled() -> bool:
        return processes.read_pid(layout.logs, name) is None or condition()

    log = layout.logs / f"{name}.log"
    if not processes.wait_until(is_settled, timeout_s=READY_WITHIN_S, interval_s=0.2):
        raise DevclusterError(f"{name} is not ready after {READY_WITHIN_S:.0f} s; see {log}")
    if processes.read_pid(layout.logs, name) is None:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
        raise DevclusterError(f"{name} ended; the end of {log}:\n{tail}")
