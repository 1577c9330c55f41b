"""Where a cluster's files lie, and what it is made of. Everything else is derived from these few values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

KUBE_VERSIONS = ("1.37.2", "1.36.3", "1.34.4")
"""Versions whose module files are committed; the first is the default."""

SOCKET_PATH_MAX_BYTES = 107
_LONGEST_SOCKET = "plugins_registry/gpu.nvidia.com-00000000-0000-0000-0000-000000000000-reg.sock"


class DevclusterError(Exception):
    """The cluster cannot do what was asked; the text says what to do next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One cluster: its folders, its version, its ports."""

    home: Path = Path("/run/gpu-dra-dev")
    """State of the running cluster. Short, so that the usual socket names of plugins fit into 107 bytes (R42)."""
    cache: Path = Path("/root/.cache/gpu-dra-devcluster")
    """Binaries, kept between clusters."""
    kube_version: str = KUBE_VERSIONS[0]
    node: str = "node-a"
    api_port: int = 6443
    etcd_port: int = 2379

    @property
    def kube_bin(self) -> Path:
        """Binaries of this Kubernetes version."""
        return self.cache / f"bin-v{self.kube_version}"

    @property
    def node_bin(self) -> Path:
        """Binaries that are the same for every Kubernetes version: etcd, containerd, CNI plugins under ``cni/``."""
        return self.cache / "bin-node"

    @property
    def pki(self) -> Path:
        """Certificates, keys and kubeconfigs."""
        return self.home / "pki"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a cluster administrator."""
        return self.pki / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        """One log and one process-id file a component."""
        return self.home / "log"

    @property
    def kubelet_root(self) -> Path:
        """What is ``/var/lib/kubelet`` on an ordinary node."""
        return self.home / "kubelet"

    @property
    def cdi_root(self) -> Path:
        """The only folder that this cluster's containerd reads CDI specs from."""
        return self.home / "cdi"

    @property
    def cgroup(self) -> str:
        """The cgroup below which this cluster's pods live: a kubelet ends what it does not know there."""
        return f"/{self.home.name}"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd and its CRI answer."""
        return self.home / "containerd" / "containerd.sock"

    @property
    def api_server(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.api_port}"

    def environment(self) -> Mapping[str, str]:
        """What a program needs to use the cluster, as variables (``status -o env``)."""
        return {
            "KUBECONFIG": str(self.admin_kubeconfig),
            "API_SERVER": self.api_server,
            "KUBE_VERSION": self.kube_version,
            "NODE_NAME": self.node,
            "KUBELET_ROOT": str(self.kubelet_root),
            "KUBELET_PLUGINS_REGISTRY": str(self.kubelet_root / "plugins_registry"),
            "KUBELET_PLUGINS": str(self.kubelet_root / "plugins"),
            "CDI_ROOT": str(self.cdi_root),
            "CONTAINERD_SOCKET": str(self.containerd_socket),
            "KUBECTL": str(self.kube_bin / "kubectl"),
            "CTR": str(self.node_bin / "ctr"),
        }


def read_layout(environ: Mapping[str, str] = os.environ) -> Layout:
    """The layout that the environment asks for: ``DEVCLUSTER_*`` and ``KUBE_VERSION``.

    Raises:
        DevclusterError: an unknown version, or a home so long that plugin sockets would not fit.
    """
    defaults = Layout()
    version = environ.get("KUBE_VERSION", defaults.kube_version).removeprefix("v")
    if version not in KUBE_VERSIONS:
        raise DevclusterError(
            f"KUBE_VERSION {version} has no module files here; use one of {', '.join(KUBE_VERSIONS)}, "
            f"or write them with: python3 -m hack.devcluster module {version}"
        )
    home = Path(environ.get("DEVCLUSTER_HOME", defaults.home)).absolute()
    longest = len(str(home / "kubelet" / _LONGEST_SOCKET).encode())
    if longest > SOCKET_PATH_MAX_BYTES:
        raise DevclusterError(
            f"DEVCLUSTER_HOME {home} makes socket paths of {longest} bytes, and {SOCKET_PATH_MAX_BYTES} is the limit; "
            "choose a shorter one"
        )
    user_cache = Path(environ.get("HOME", "/root")) / ".cache" / "gpu-dra-devcluster"
    return Layout(
        home=home,
        cache=Path(environ.get("DEVCLUSTER_CACHE", user_cache)).absolute(),
        kube_version=version,
        node=environ.get("DEVCLUSTER_NODE", defaults.node),
        api_port=int(environ.get("DEVCLUSTER_API_PORT", defaults.api_port)),
        etcd_port=int(environ.get("DEVCLUSTER_ETCD_PORT", defaults.etcd_port)),
    )


def write_started(layout: Layout) -> None:
    """Remember how the running cluster was started: later commands must not depend on the environment being the same."""
    values = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(layout).items()}
    (layout.home / "cluster.json").write_text(json.dumps(values, indent=1))


def read_started(layout: Layout) -> Layout | None:
    """The layout of the cluster that lives in this home, or None when there is none."""
    try:
        values = json.loads((layout.home / "cluster.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return Layout(**{**values, "home": Path(values["home"]), "cache": Path(values["cache"])})
