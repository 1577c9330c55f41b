"""Every setting of both halves, each declared once; ``controller_settings`` has the declarations of the controller's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from driver import log
from driver.config import controller_settings as controller
from driver.config import health_settings as health
from driver.config import values
from driver.config.setting import Setting, Value
from driver.host.roots import Roots

GROUPS: Mapping[str, str] = {
    "hardware": "where the GPUs are looked up",
    "health": "when a GPU is not fit to be given out",
    "cluster": "who this node is, and who allocates its devices",
    "folders": "where files and sockets go",
    "figures": "what is served for Prometheus",
    "controller": "who leads, and how long things may wait",
    "process": "logs and health",
}


def _folder(group: str, text: str, default: str) -> Setting:
    return Setting(group=group, parse=values.parse_path, metavar="DIR", help=text, default=Path(default))


def _derived_folder(group: str, text: str, derive: Callable[[Mapping[str, Any]], Value], shown: str) -> Setting:
    return Setting(group=group, parse=values.parse_path, metavar="DIR", help=text, derive=derive, default_shown=shown)


_NVML = Setting(
    group="hardware",
    parse=values.parse_nvml,
    metavar="real|mock:MACHINE[@SEED]",
    help="the machine's own NVML, or a mock: a named machine or a YAML file (docs/mock-machines.md); another seed makes another"
    " machine of the same kind",
    default="real",
)
_NVML_LIBRARY = Setting(
    group="hardware",
    parse=values.parse_path,
    metavar="FILE",
    help="libnvidia-ml.so.1 itself",
    default_shown="found below the driver root",
)
_MIG = Setting(
    group="hardware",
    parse=values.choice("auto", "static", "dynamic", "off"),
    metavar="auto|static|dynamic|off",
    help="MIG devices that are published: those that are there (static), those that claims can have made (dynamic; needs shared"
    " counters, Kubernetes 1.36), none (off); auto is dynamic where nobody else uses MIG and the mode needs no reset",
    default="auto",
)
_CONSUMABLE_SHARES = Setting(
    group="hardware",
    parse=values.parse_shares,
    metavar="disabled|memory|memory:GPU,...",
    help="GPUs that several claims may divide by memory (Kubernetes 1.36): none, all, or these (device names, PCI addresses or"
    " UUIDs); a claim that says no amount still gets a whole GPU (docs/sharing.md)",
    default="disabled",
    variable="CONSUMABLE_SHARES",
)
_NODE_NAME = Setting(
    group="cluster",
    parse=values.parse_node_name,
    metavar="NAME",
    help="this node, as `kubectl get nodes` names it; in a pod from fieldRef spec.nodeName",
    default="",
    variable="NODE_NAME",
)
_DRIVER_NAME = Setting(
    group="cluster",
    parse=values.parse_driver_name,
    metavar="NAME",
    help="the name that DeviceClasses select by",
    default="gpu.nvidia.com",
)
_ALLOCATION = Setting(
    group="cluster",
    parse=values.choice("scheduler", "controller"),
    metavar="scheduler|controller",
    help="who may give this node's devices away: kube-scheduler, or the gpu-dra controller (a taint then fences the devices);"
    " the node's label gpu.nvidia.com/allocator beats it, and is heeded at run time (docs/fence.md)",
    default="scheduler",
)
_DRAIN_TIME = Setting(
    group="cluster",
    parse=values.parse_seconds,
    metavar="TIME",
    help="how long devices are nobody's before they go from kube-scheduler to the controller, as 900, 900s or 15m: longer than"
    " kube-scheduler may take from choosing a device to writing it down (600 s for volumes, 300 s for gangs)",
    default=900,
)
_CONTROLLER_LEASE = Setting(
    group="cluster",
    parse=values.parse_object_name,
    metavar="NAMESPACE/NAME",
    help="the lease of the gpu-dra controller: where it was over for the drain time, a node leaves the controller without being"
    " let go",
    default="gpu-dra/gpu-dra-controller",
)
_KUBECONFIG = Setting(
    group="cluster",
    parse=values.parse_path,
    metavar="FILE",
    help="credentials for the API server",
    default_shown="the pod's service account; outside of a pod $KUBECONFIG, then ~/.kube/config",
)
_POD_UID = Setting(
    group="cluster",
    parse=values.parse_pod_uid,
    metavar="UID",
    help="uid of this process's pod, so that two instances may overlap in a rolling update; from fieldRef metadata.uid",
    default="",
    default_shown="none: a random name",
    variable="POD_UID",
)
_HEALTH_ADDRESS = Setting(
    group="process",
    parse=values.parse_address,
    metavar="ADDRESS",
    help="serve health here, for probes: HOST:PORT, :PORT or unix:/path; gRPC of the kubelet plugin, HTTP with metrics (and no"
    " unix socket) of the controller",
    default="",
    default_shown="not served",
)
_METRICS_ADDRESS = Setting(
    group="figures",
    parse=values.parse_address,
    metavar="ADDRESS",
    help="serve /metrics here over HTTP: HOST:PORT or :PORT (docs/metrics.md)",
    default="",
    default_shown="not served",
)
_LOG_FORMAT = Setting(
    group="process",
    parse=values.choice(*log.FORMATS),
    metavar="json|text",
    help="one event a line, for machines or for people",
    default="json",
)
_LOG_LEVEL = Setting(
    group="process",
    parse=values.choice(*log.LEVELS),
    metavar="LEVEL",
    help="debug, info, warning or error",
    default="info",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process, checked. The order is that of ``--help``."""

    nvml: Annotated[str, _NVML]
    nvml_library: Annotated[Path | None, _NVML_LIBRARY]
    dev_root: Annotated[Path, _folder("hardware", "device nodes", "/dev")]
    dev_root_on_host: Annotated[
        Path,
        _derived_folder(
            "hardware",
            "the same folder as the container runtime sees it: this goes into CDI files",
            lambda so_far: so_far["dev_root"],
            "the dev root",
        ),
    ]
    sys_root: Annotated[Path, _folder("hardware", "sysfs: PCIe roots and NUMA nodes", "/sys")]
    proc_root: Annotated[Path, _folder("hardware", "procfs: device majors and the boot id", "/proc")]
    driver_root: Annotated[Path, _folder("hardware", "the root below which the NVIDIA driver's files lie", "/")]
    driver_root_on_host: Annotated[
        Path,
        _derived_folder(
            "hardware",
            "the same root as the container runtime sees it: this goes into CDI files",
            lambda so_far: so_far["driver_root"],
            "the driver root",
        ),
    ]
    mig: Annotated[Literal["auto", "static", "dynamic", "off"], _MIG]
    consumable_shares: Annotated[str, _CONSUMABLE_SHARES]
    ignored_xids: Annotated[str, health.IGNORED_XIDS]
    evict_for: Annotated[str, health.EVICT_FOR]
    health_events: Annotated[Literal["on", "off"], health.HEALTH_EVENTS]
    node_name: Annotated[str, _NODE_NAME]
    driver_name: Annotated[str, _DRIVER_NAME]
    allocation: Annotated[Literal["scheduler", "controller"], _ALLOCATION]
    drain_time: Annotated[int, _DRAIN_TIME]
    controller_lease: Annotated[str, _CONTROLLER_LEASE]
    kubeconfig: Annotated[Path | None, _KUBECONFIG]
    pod_uid: Annotated[str, _POD_UID]
    kubelet_root: Annotated[Path, _folder("folders", "the kubelet's own root", "/var/lib/kubelet")]
    registry_dir: Annotated[
        Path,
        _derived_folder(
            "folders",
            "where the kubelet looks for plugins",
            lambda so_far: so_far["kubelet_root"] / "plugins_registry",
            "<kubelet root>/plugins_registry",
        ),
    ]
    plugin_dir: Annotated[
        Path,
        _derived_folder(
            "folders",
            "this driver's own folder: records of claims, locks, sockets; must survive a restart",
            lambda so_far: so_far["kubelet_root"] / "plugins" / so_far["driver_name"],
            "<kubelet root>/plugins/<driver name>",
        ),
    ]
    cdi_root: Annotated[Path, _folder("folders", "where the container runtime reads CDI files", "/var/run/cdi")]
    mps_dir: Annotated[
        Path,
        _folder(
            "folders",
            "folders of MPS daemons, of which containers get the pipes and the shared memory; in memory (tmpfs), and where"
            " the container runtime sees the same path",
            "/run/gpu-dra/mps",
        ),
    ]
    mock_state_dir: Annotated[
        Path,
        _derived_folder(
            "folders",
            "what a mock machine remembers, and its stand-in root",
            lambda so_far: so_far["plugin_dir"] / "mock",
            "<plugin dir>/mock",
        ),
    ]
    metrics_address: Annotated[str, _METRICS_ADDRESS]
    namespace: Annotated[str, controller.NAMESPACE]
    lease_name: Annotated[str, controller.LEASE_NAME]
    pod_name: Annotated[str, controller.POD_NAME]
    lease_s: Annotated[float, controller.LEASE_S]
    renew_s: Annotated[float, controller.RENEW_S]
    retry_s: Annotated[float, controller.RETRY_S]
    request_timeout_s: Annotated[float, controller.REQUEST_TIMEOUT_S]
    unbound_s: Annotated[float, controller.UNBOUND_S]
    schedulers: Annotated[str, controller.SCHEDULERS]
    hold: Annotated[Literal["on", "off"], controller.HOLD]
    health_address: Annotated[str, _HEALTH_ADDRESS]
    log_format: Annotated[Literal["json", "text"], _LOG_FORMAT]
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _LOG_LEVEL]
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where each value is from: ``default``, ``--nvml``, ``environment NODE_NAME``, ``/etc/gpu-dra.yaml:3 nodeName``."""

    @property
    def roots(self) -> Roots:
        """The folders that stand for the real machine; a mock brings its own."""
        return Roots(
            dev=self.dev_root,
            dev_on_host=self.dev_root_on_host,
            sys=self.sys_root,
            proc=self.proc_root,
            driver=self.driver_root,
            driver_on_host=self.driver_root_on_host,
        )

    def said(self) -> dict[str, str | None]:
        """Every setting as text, by name, the unset ones too: what the process logs at its start."""
        values_by_name = {each.name: getattr(self, each.name) for each in declared()}
        return {name: None if value is None else str(value) for name, value in values_by_name.items()}


@lru_cache(maxsize=1)
def declared() -> tuple[Setting, ...]:
    """All settings, in order."""
    hints = get_type_hints(Settings, include_extras=True)
    marked = ((name, getattr(hint, "__metadata__", ())) for name, hint in hints.items())
    return tuple(dataclasses.replace(mark[0], name=name) for name, mark in marked if mark)


def names_of(*groups: str) -> frozenset[str]:
    """The settings of these groups, for ``add_flags``."""
    return frozenset(each.name for each in declared() if each.group in groups)
