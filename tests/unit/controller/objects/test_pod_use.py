"""What a pod takes is what Kubernetes' PodRequests says."""

from __future__ import annotations

from typing import Any

import pytest

from driver.controller.objects.pod_use import HostPort, build_capacity, build_pod_use, is_counted, parse_billionths
from tests.unit.controller.fit_cases import asks_for, container, pod

GI = 1 << 30


def sidecar(cpu: str, memory: str = "") -> dict[str, Any]:
    return {**container(cpu, memory), "restartPolicy": "Always"}


REQUESTS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("nothing asked, nothing taken", {}, {}),
    (
        "containers add up",
        {"containers": [container("1", "1Gi"), container("500m", "512Mi")]},
        {"cpu": 1500, "memory": 3 * GI // 2},
    ),
    (
        "the largest init container counts where it is larger",
        {
            "containers": [container("2", "1Gi"), container("1", "1Gi")],
            "initContainers": [container("2", "1Gi"), container("2", "3Gi")],
        },
        {"cpu": 3000, "memory": 3 * GI},
    ),
    (
        "a sidecar runs beside the containers",
        {"containers": [container("1")], "initContainers": [sidecar("250m")]},
        {"cpu": 1250},
    ),
    (
        "an init container runs beside the sidecars before it",
        {"containers": [container("1")], "initContainers": [sidecar("1"), container("3"), sidecar("1")]},
        {"cpu": 4000},
    ),
    (
        "an init container does not run beside the sidecars after it",
        {"containers": [container("1")], "initContainers": [container("3"), sidecar("1"), sidecar("1")]},
        {"cpu": 3000},
    ),
    (
        "each resource has its own peak",
        {"containers": [container("1", "4Gi")], "initContainers": [sidecar("1", "1Gi"), container("2", "1Gi")]},
        {"cpu": 3000, "memory": 5 * GI},
    ),
    (
        "overhead comes on top",
        {"containers": [container("1", "1Gi")], "overhead": {"cpu": "250m", "memory": "128Mi", "example.com/x": "1"}},
        {"cpu": 1250, "example.com/x": 1, "memory": GI + (128 << 20)},
    ),
    (
        "what the pod asks as a whole replaces the sum, overhead comes on top",
        {
            "containers": [container("1", "1Gi")],
            "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": 4000, "hugepages-2Mi": 4 << 20, "memory": GI},
    ),
    (
        "the pod as a whole may ask less than its init containers",
        {"containers": [container("1")], "initContainers": [container("8")], "resources": {"requests": {"cpu": "2"}}},
        {"cpu": 2000},
    ),
    (
        "of the pod as a whole only cpu, memory and huge pages count",
        {"containers": [container("1")], "resources": {"requests": {"example.com/x": "2", "ephemeral-storage": "1Gi"}}},
        {"cpu": 1000},
    ),
    (
        "parts of a thousandth are added up before they are rounded up",
        {"containers": [container("500u"), container("500u")]},
        {"cpu": 1},
    ),
    ("what is rounded is rounded up", {"containers": [container("1500u", "100m")]}, {"cpu": 2, "memory": 1}),
    (
        "other resources count whatever they are called",
        {"containers": [container("", "", more={"example.com/fpga": "2", "hugepages-1Gi": "2Gi", "ephemeral-storage": "1k"})]},
        {"ephemeral-storage": 1000, "example.com/fpga": 2, "hugepages-1Gi": 2 * GI},
    ),
    ("zeros are left out", {"containers": [container("0", "0", more={"example.com/fpga": "0"})]}, {}),
]


@pytest.mark.parametrize(("spec", "expected"), [case[1:] for case in REQUESTS], ids=[case[0] for case in REQUESTS])
def test_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert dict(build_pod_use(pod(**spec)).requests) == expected


def test_equal_pods_have_equal_uses() -> None:
    assert build_pod_use(asks_for("a", cpu="1", memory="1Gi")) == build_pod_use(asks_for("b", memory="1024Mi", cpu="1000m"))


def test_ports_of_containers_and_sidecars_are_taken_those_of_init_containers_are_not() -> None:
    web = {"containerPort": 80, "hostPort": 8080}
    dns = {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}
    inner = {"containerPort": 9090}
    use = build_pod_use(
        pod(
            containers=[container(ports=[web, inner])],
            initContainers=[container(ports=[{"hostPort": 99}]), {**container(ports=[dns]), "restartPolicy": "Always"}],
        )
    )
    assert use.ports == (HostPort("10.0.0.1", "UDP", 53), HostPort("0.0.0.0", "TCP", 8080))


def test_the_priority_comes_along() -> None:
    assert build_pod_use(pod(priority=7)).priority == 7


def test_a_nodes_capacity_has_the_places_for_pods() -> None:
    given = {
        "cpu": "63500m",
        "memory": "1Gi",
        "pods": "110",
        "example.com/x": "3",
        "storage": "5",
        "requests.example.com/x": "1",
    }
    assert dict(build_capacity(given)) == {"cpu": 63500, "example.com/x": 3, "memory": GI, "pods": 110}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("memory", True),
        ("ephemeral-storage", True),
        ("example.com/x", True),
        ("kubernetes.io/batch", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi-x", True),
        ("pods", False),
        ("storage", False),
        ("requests.example.com/x", False),
        ("fpga", False),
    ],
)
def test_what_the_scheduler_counts(name: str, counted: bool) -> None:
    assert is_counted(name) is counted


@pytest.mark.parametrize(
    ("text", "billionths"),
    [
        ("1", 10**9),
        ("1m", 10**6),
        ("0.1n", 1),
        ("2Ki", 2048 * 10**9),
        ("1e3", 10**12),
        ("1e60", ((1 << 63) - 1) * 10**9),
        ("no number", ((1 << 63) - 1) * 10**9),
    ],
)
def test_quantities_are_read_to_the_billionth(text: str, billionths: int) -> None:
    assert parse_billionths(text) == billionths
