"""``docs/metrics.md``, from the registries that the two halves serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from driver.controller.metrics import ControllerMetrics
from driver.metrics.definition import LookedUp
from driver.metrics.registry import build_registry
from driver.node.metrics.counted import CountedFigures
from driver.node.metrics.view import DEFINITIONS

_HEAD = """\
# Metrics

<!-- Made by `python -m hack.docs` from driver/node/metrics and driver/controller/metrics.py. Change these, not this page. -->

Both halves serve `/metrics` over HTTP, in Prometheus' or OpenMetrics' text: the kubelet plugin at `--metrics-address` (in the
chart `kubeletPlugin.metricsPort`, 8081), the controller at `--health-address` (`controller.httpPort`, 8080).

| value of the chart | makes |
| --- | --- |
| `metrics.serviceMonitor=true` | a PodMonitor and a ServiceMonitor, for the Prometheus operator |
| `metrics.prometheusRule=true` | a PrometheusRule: alerts, and utilization by pod |
| `metrics.dashboards=true` | ConfigMaps with three dashboards, which Grafana's sidecar finds by `grafana_dashboard` |
| `metrics.labels` | labels on these, where an operator or a sidecar selects by some |

The files are `deploy/rules/gpu-dra.yaml`, a rule file of Prometheus as it is, and `deploy/dashboards/*.json`, which can be
imported by hand. They tell nodes apart by the label `node`, which the PodMonitor gives. To see the figures once:

```sh
kubectl -n gpu-dra port-forward daemonset/gpu-dra-kubelet-plugin 8081 &   # of one of the nodes
curl -s localhost:8081/metrics | grep ^gpu_dra_
```

What the dashboards show of a Prometheus, without Grafana, as one HTML page:

```sh
python -m hack.dashboards deploy/dashboards/health.json --prometheus http://127.0.0.1:9090 --out health.html
```

`hack/devcluster/e2e.sh --soak dashboard` plays XID 79 before a real Prometheus, and draws them before, during and after it
([report](reports/2026-12-02-e2e-dashboard.md)). It needs `prometheus` on the PATH, or in `$PROMETHEUS`.

Without the operator, scrape pods so:

```yaml
scrape_configs:
- job_name: gpu-dra-kubelet-plugin
  honor_labels: true # pod and namespace are those of the pod that holds a GPU
  kubernetes_sd_configs: [{role: pod, namespaces: {names: [gpu-dra]}}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_container_port_name], regex: metrics, action: keep}
  - {source_labels: [__meta_kubernetes_pod_node_name], target_label: node}
```

A scrape asks nobody who could be slow: what it serves is in memory or in the records on disk. Only what GPUs are busy with is
read from NVML, by a thread of its own. A GPU that hangs has no figures, and a scrape waits at most two seconds for the others.

## Who uses what

`gpu_dra_gpu_holder` has a line for each claim that holds a GPU or a part of it, and each pod that uses the claim; it goes with
the claim. The GPU's own figures have the GPU's label alone: their sums stay right where several pods share one. Together:

```promql
max without (instance) (gpu_dra_gpu_holder{type!="admin"})
  * on (node, gpu) group_left () max without (instance) (gpu_dra_gpu_utilization_ratio)
```

is the utilization by pod (a plugin that is updated is there twice for a moment), which the rules keep as
`gpu_dra:pod_gpu_utilization:ratio`. Utilization is the GPU's: two pods that share it have the same figure each. NVML tells none
for a GPU in MIG mode.

Pods are known from the claim's `status.reservedFor`: at prepare for claims made from a template, within a minute or two of
scrapes for named claims that further pods use. `pod` is empty until then. A claim has at most 8 lines, the page 1024.

No label's value comes from a user but `namespace`, `claim` and `pod` of what is held now.

"""
_NODE = "## Kubelet plugin\n\n"
_CONTROLLER = "\n## Controller\n\nOnly the leader has figures of claims and GPUs.\n\n"
_TABLE = "| metric | type | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n"
_TAIL = """
Besides these, `process_*` has memory, CPU, open files and start of each process. Histograms have `_bucket`, `_sum`, `_count`.

## Alerts

`deploy/rules/gpu-dra.yaml` has them, each with what to do and a page to read: `GpuDraNoLeader`,
`GpuDraDeviceInTwoClaims`, `GpuDraWritesRefused`, `GpuDraClaimsWaitLong`, `GpuDraFragmented`, `GpuDraNodeNotRegistered`,
`GpuDraSlicesNotPublished`, `GpuDraMachineUnread`, `GpuDraDevicePluginOnNode`, `GpuDraPrepareFails`, `GpuDraPrepareSlow`,
`GpuDraGpuTrouble`, `GpuDraGpuWarning`, `GpuDraXidStorm`, `GpuDraGpuUnwell`, `GpuDraGpuIdleButHeld`.
"""
_UNITS = ("seconds", "bytes", "ratio", "celsius", "watts", "gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A metric as it is served. ``name`` has a counter's ``_total``."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    @property
    def unit(self) -> str:
        """By its name, as Prometheus has it."""
        words = self.name.removesuffix("_total").split("_")
        if words[-2:] == ["timestamp", "seconds"]:
            return "seconds since 1970"
        return words[-1] if words[-1] in _UNITS and self.name != "gpu_dra_gpus" else ""

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query may have."""
        return tuple(f"{self.name}_{end}" for end in ("bucket", "sum", "count")) if self.kind == "histogram" else (self.name,)


def list_figures(registry: CollectorRegistry) -> tuple[Figure, ...]:
    """Everything of ours in a registry."""
    return tuple(sorted(_list(registry), key=lambda figure: figure.name))


def _list(registry: CollectorRegistry) -> Iterator[Figure]:
    for collector in registry._collector_to_names:
        if isinstance(collector, LookedUp):
            for each in DEFINITIONS:
                yield _build(each.name, each.kind, each.labels, each.text)
        elif isinstance(collector, MetricWrapperBase):
            yield _build(collector._name, str(collector._type), tuple(collector._labelnames), collector._documentation)


def _build(name: str, kind: str, labels: tuple[str, ...], text: str) -> Figure:
    return Figure(name=f"{name}_total" if kind == "counter" else name, kind=kind, labels=labels, text=text)


def list_node_figures() -> tuple[Figure, ...]:
    """The kubelet plugin's."""
    registry = build_registry("kubelet-plugin")
    CountedFigures(registry)
    registry.register(LookedUp(DEFINITIONS, tuple))
    return list_figures(registry)


def list_controller_figures() -> tuple[Figure, ...]:
    """The controller's."""
    return list_figures(ControllerMetrics().registry)


def render_metrics_page() -> str:
    """The page."""
    node, controller = _render(list_node_figures()), _render(list_controller_figures())
    return f"{_HEAD}{_NODE}{_TABLE}{node}{_CONTROLLER}{_TABLE}{controller}{_TAIL}"


def _render(figures: tuple[Figure, ...]) -> str:
    return "".join(
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.unit} | {each.text} |\n"
        for each in figures
    )
