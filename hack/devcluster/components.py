"""The cluster's processes: their order, their command lines, and the configuration files that they read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster import network
from hack.devcluster.layout import DevclusterError, Layout

START_ORDER = ("etcd", "apiserver", "containerd", "scheduler", "kcm", "kubelet")
MOCK_NODES = "mock-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A process of the cluster."""

    argv: tuple[str, ...]
    patience_s: float
    """How long it may take to end by itself. The API server waits for its watches, which have no end."""


def build_component(layout: Layout, name: str) -> Component:
    """The command of one component.

    Raises:
        DevclusterError: there is none of this name.
    """
    patience_s = {"apiserver": 2.0}.get(name, 10.0)
    builders = {
        "etcd": _etcd,
        "apiserver": _apiserver,
        "scheduler": _scheduler,
        "kcm": _controller_manager,
        "containerd": _containerd,
        "kubelet": _kubelet,
        MOCK_NODES: _mock_nodes,
    }
    if name not in builders:
        raise DevclusterError(f"there is no component {name!r}; there are {', '.join(builders)}")
    return Component(argv=tuple(builders[name](layout)), patience_s=patience_s)


def _etcd(layout: Layout) -> Sequence[str]:
    client, peer = (f"http://127.0.0.1:{layout.etcd_port + offset}" for offset in (0, 1))
    return [
        str(layout.node_bin / "etcd"),
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def _apiserver(layout: Layout) -> Sequence[str]:
    return [
        str(layout.kube_bin / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={layout.api_port}",
        "--tls-cert-file=pki/apiserver.crt",
        "--tls-private-key-file=pki/apiserver.key",
        "--client-ca-file=pki/ca.crt",
        "--service-account-key-file=pki/sa.pub",
        "--service-account-signing-key-file=pki/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        "--kubelet-client-certificate=pki/admin.crt",
        "--kubelet-client-key=pki/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--endpoint-reconciler-type=none",  # a loopback address is no legal endpoint
        "--shutdown-delay-duration=0s",
        "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",  # policies are tried in every version
        "--audit-policy-file=audit-policy.json",
        "--audit-log-path=audit.log",
    ]


def _scheduler(layout: Layout) -> Sequence[str]:
    return [str(layout.kube_bin / "kube-scheduler"), "--config=scheduler.yaml", "--bind-address=127.0.0.1"]


def _controller_manager(layout: Layout) -> Sequence[str]:
    return [
        str(layout.kube_bin / "kube-controller-manager"),
        "--kubeconfig=pki/kcm.kubeconfig",
        "--leader-elect=false",
        "--use-service-account-credentials",
        "--service-account-private-key-file=pki/sa.key",
        "--root-ca-file=pki/ca.crt",
        "--kube-api-qps=500",  # it takes the taint of each new node away, and the usual 20 a second are for all that it does
        "--kube-api-burst=1000",
        "--node-monitor-grace-period=300s",  # thousands of mock nodes renew their leases slowly on a busy machine
        "--bind-address=127.0.0.1",
    ]


def _containerd(layout: Layout) -> Sequence[str]:
    # containerd looks for its shim in PATH.
    path = f"PATH={layout.node_bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ["env", path, str(layout.node_bin / "containerd"), "--config=containerd.toml"]


def _kubelet(layout: Layout) -> Sequence[str]:
    return [
        str(layout.kube_bin / "kubelet"),
        "--config=kubelet.yaml",
        f"--kubeconfig=pki/{layout.node}.kubeconfig",
        f"--hostname-override={layout.node}",
        f"--root-dir={layout.kubelet_root}",
        "-v=2",
    ]


def _mock_nodes(layout: Layout) -> Sequence[str]:
    return ["python3", str(Path(__file__).parent / "mock_nodes.py"), str(layout.home)]


def write_configuration(layout: Layout) -> None:
    """Write the files that the components read, and the folders that they expect."""
    for folder in (layout.logs, layout.kubelet_root, layout.cdi_root, layout.home / "cni"):
        folder.mkdir(parents=True, exist_ok=True)
    (layout.home / "containerd.toml").write_text(_containerd_toml(layout))
    for name, values in {
        "kubelet.yaml": _kubelet_configuration(layout),
        "scheduler.yaml": _scheduler_configuration(layout),
        "audit-policy.json": _audit_policy(),
        "cni/10-bridge.conflist": _network_configuration(),
    }.items():
        (layout.home / name).write_text(json.dumps(values, indent=1))  # JSON is YAML


def _kubelet_configuration(layout: Layout) -> Mapping[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "podLogsDir": str(layout.home / "podlogs"),
        "tlsCertFile": str(layout.pki / f"{layout.node}.crt"),
        "tlsPrivateKeyFile": str(layout.pki / f"{layout.node}.key"),
        "healthzBindAddress": "127.0.0.1",
        "resolvConf": "",
        # The machine may be nearly full, and images made on the spot cannot be pulled again.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        # Quick, so that tests are.
        "syncFrequency": "1s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
    }


def _scheduler_configuration(layout: Layout) -> Mapping[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(layout.pki / "scheduler.kubeconfig"), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }


def _audit_policy() -> Mapping[str, object]:
    """Who of the accounts that are no part of Kubernetes asked for what: ``audit.log`` in the cluster's folder."""
    kubernetes = {"level": "None", "userGroups": ["system:serviceaccounts:kube-system", "system:nodes", "system:masters"]}
    accounts = {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],  # a watch is told when it begins
        "rules": [kubernetes, accounts, {"level": "None"}],
    }


def _network_configuration() -> Mapping[str, object]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}
    bridge = {"type": "bridge", "bridge": network.BRIDGE, "isDefaultGateway": True, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "devcluster", "plugins": [bridge]}


def _containerd_toml(layout: Layout) -> str:
    home = layout.home
    return f"""version = 3
root = "{home}/containerd/root"
state = "{home}/containerd/state"
[grpc]
  address = "{layout.containerd_socket}"
[plugins.'io.containerd.cri.v1.runtime']
  enable_cdi = true
  cdi_spec_dirs = ["{layout.cdi_root}"]
  restrict_oom_score_adj = true      # works without CAP_SYS_RESOURCE
  netns_mounts_under_state_dir = true  # so that clean-up finds them
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{layout.node_bin}/cni"]
    conf_dir = "{home}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      Root = "{home}/containerd/runc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "localhost/pause:1"
"""
