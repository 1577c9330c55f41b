"""What a pod takes of its node: requests by Kubernetes' own arithmetic, and ports of the host.

Sums are exact, in billionths, as Kubernetes' are; the sum over a pod is then rounded up, CPU to thousandths, all else to whole
units. Source: ``PodRequests`` of k8s.io/component-helpers v0.37.2, ``framework.Resource`` of kube-scheduler 1.37.2.

A bound pod counts with what its spec says. While it is being resized in place kube-scheduler also looks at its status; that is
not kept for 20,000 pods, and learned when the scheduler takes an allocation back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from driver.api.quantity import parse_quantity
from driver.controller.objects.model import Container, Pod

CPU = "cpu"
PODS = "pods"
OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""Begins the name of a resource that is a DeviceClass' devices, which kube-scheduler makes a claim for."""
_BILLION = 10**9
_MOST = (1 << 63) - 1
_PLAIN = frozenset({CPU, "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({CPU, "memory"})
_HUGE_PAGES = "hugepages-"
_ATTACHED = "attachable-volumes-"


class HostPort(NamedTuple):
    """A port of the host that a pod wants to itself."""

    address: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What one pod takes, beside one of the node's places for pods. Equal pods have equal uses, to be kept once."""

    requests: tuple[tuple[str, int], ...] = ()
    """By resource name, in order; CPU in thousandths, all else in units. Zeros are left out."""
    ports: tuple[HostPort, ...] = ()
    priority: int = 0


def build_pod_use(pod: Pod) -> PodUse:
    """What the pod takes of a node that it runs on."""
    sums = _sum_containers(pod.spec.containers, pod.spec.init_containers)
    if pod.spec.resources is not None:
        of_pod = pod.spec.resources.requests.items()
        sums.update((name, parse_billionths(text)) for name, text in of_pod if _is_pod_level(name))
    _add(sums, _parse(pod.spec.overhead))
    requests = ((name, round_up(name, amount)) for name, amount in sorted(sums.items()) if is_counted(name))
    return PodUse(
        requests=tuple((name, amount) for name, amount in requests if amount),
        ports=tuple(list_host_ports(pod)),
        priority=pod.spec.priority,
    )


def list_host_ports(pod: Pod) -> Iterable[HostPort]:
    """Ports of sidecars, then of containers. With ``hostNetwork`` the API server has filled in every ``hostPort``."""
    running = [each for each in pod.spec.init_containers if _is_sidecar(each)]
    for container in (*running, *pod.spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)


def build_capacity(allocatable: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """A node's ``allocatable`` in the units of ``PodUse.requests``; places for pods stand under ``pods``."""
    kept = (name for name in sorted(allocatable) if name == PODS or is_counted(name))
    return tuple((name, round_up(name, parse_billionths(allocatable[name]))) for name in kept)


def is_counted(name: str) -> bool:
    """True for resources that the scheduler counts: the others are none of a node's."""
    if name in _PLAIN:
        return True
    if "/" in name:
        return "kubernetes.io/" in name or not name.startswith("requests.")
    return name.startswith((_HUGE_PAGES, _ATTACHED))


def round_up(name: str, billionths: int) -> int:
    """Whole thousandths of a CPU, whole units of all else."""
    return -(-billionths // (10**6 if name == CPU else _BILLION))


@lru_cache(maxsize=8192)
def parse_billionths(text: str) -> int:
    """A quantity in billionths, rounded up as Kubernetes does. One too large for it is the largest it knows."""
    try:
        amount = parse_quantity(text) * _BILLION
    except ValueError:
        return _MOST * _BILLION
    return min(-(-amount.numerator // amount.denominator), _MOST * _BILLION)


def _sum_containers(containers: Iterable[Container], init_containers: Iterable[Container]) -> dict[str, int]:
    """Containers and sidecars run together; each init container runs beside the sidecars that come before it."""
    running: dict[str, int] = {}
    for container in containers:
        _add(running, _parse(container.resources.requests))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        amounts = _parse(container.resources.requests)
        if _is_sidecar(container):
            _add(running, amounts)
            _add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            _add(amounts, sidecars)
            _raise(peak, amounts)
    _raise(running, peak)
    return running


def _parse(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: parse_billionths(text) for name, text in amounts.items()}


def _add(sums: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0) + amount


def _raise(sums: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        sums[name] = max(sums.get(name, amount), amount)


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
