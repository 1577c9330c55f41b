"""From a pod that waits to a claim that is allocated: the whole controller on a server, with everybody else alive."""

from __future__ import annotations

import urllib3

from tests.component.controller.scene import Running, Scene, quick_settings
from tests.fakes.kube_api import Fault
from tests.unit.controller.world import NAMESPACE


def ask(running: Running, page: str) -> tuple[int, str]:
    if not running.controller.probe_port:
        return 0, "not served yet"
    answer = urllib3.request("GET", f"http://127.0.0.1:{running.controller.probe_port}{page}", retries=False)
    return answer.status, answer.data.decode()


def test_a_pod_gets_its_devices_and_runs(cluster: Scene) -> None:
    cluster.add_node("node-a")
    cluster.add_job("train", 4)
    with cluster.life.live():
        running = cluster.start()
        cluster.wait(lambda: cluster.bound() == {"train": "node-a"})
    claim = cluster.claim("train")
    assert claim is not None
    assert len(cluster.devices("train")) == 4
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    assert cluster.reserved("train") == ["train"]
    cluster.wait(lambda: cluster.events("ClaimPlaced"))
    assert ask(running, "/healthz") == (200, "alive\n")
    assert ask(running, "/readyz") == (200, "leading; decides\n")
    assert "gpu_dra_leader 1.0" in ask(running, "/metrics")[1]


def test_forty_pods_come_and_go_and_nothing_is_left(cluster: Scene) -> None:
    """Eight of them hold 20 GPUs at most, so that one of five nodes always has four free for the one that is waited for."""
    for number in range(5):
        cluster.add_node(f"node-{number}")
    with cluster.life.live():
        cluster.start()
        for number in range(40):
            cluster.add_job(f"pod-{number}", 1 + number % 4)
            if number >= 8:
                cluster.wait_bound(f"pod-{number - 8}")
                cluster.delete_pod(f"pod-{number - 8}")
        for number in range(32, 40):
            cluster.wait_bound(f"pod-{number}")
            cluster.delete_pod(f"pod-{number}")
        cluster.wait(lambda: not cluster.held())
    cluster.check()


def test_what_waits_is_told_and_placed_when_there_is_room(cluster: Scene) -> None:
    cluster.add_node("node-a")
    cluster.add_job("filler", 6)
    with cluster.life.live():
        running = cluster.start()
        cluster.wait(lambda: "filler" in cluster.bound())
        cluster.add_job("large", 4)
        cluster.wait(lambda: any("need 4" in each for each in cluster.events("ClaimWaiting")))
        assert 'gpu_dra_waits_total{reason="full"}' in ask(running, "/metrics")[1]
        cluster.delete_pod("filler")
        cluster.wait(lambda: "large" in cluster.bound())


def test_a_server_in_trouble_delays_and_spoils_nothing(cluster: Scene) -> None:
    """Each kind of trouble meets writes and watches; then all is as it should be."""
    cluster.add_node("node-a")
    with cluster.life.live():
        cluster.start()
        cluster.add_job("first", 1)
        cluster.wait(lambda: "first" in cluster.bound())
        for fault in (
            Fault(verb="patch", resource="resourceclaims", status=500, times=2),
            Fault(verb="update", resource="resourceclaims", status=429, reason="TooManyRequests", times=2),
            Fault(verb="update", resource="resourceclaims", kind="drop", times=2),
            Fault(verb="update", resource="resourceclaims", kind="delay", delay_s=1.5, times=1),
            Fault(verb="watch", status=500, times=8),
            Fault(verb="list", status=429, reason="TooManyRequests", times=3),
            Fault(verb="watch", kind="stream", body=b"garbage\n", times=8),
        ):
            cluster.api.fail(fault)
        for number in range(6):
            cluster.add_job(f"pod-{number}", 1)
        cluster.api.compact()
        cluster.wait(lambda: len(cluster.bound()) == 7)
    assert len({device for devices in cluster.held().values() for device in devices}) == 7


def test_the_server_goes_away_and_comes_back(cluster: Scene) -> None:
    """For less than the lease; for longer, the leader ends (``test_leaders``)."""
    cluster.add_node("node-a")
    with cluster.life.live():
        cluster.start()
        cluster.add_job("first", 1)
        cluster.wait(lambda: "first" in cluster.bound())
        cluster.api.stop()
        cluster.add_job("second", 1)
        cluster.api.start()
        cluster.wait(lambda: "second" in cluster.bound())


def test_a_pod_that_is_not_bound_is_placed_elsewhere(cluster: Scene) -> None:
    cluster.add_node("node-a")
    cluster.add_node("node-b")
    cluster.life.refuses = {"node-a"}
    cluster.add_job("pod", 8)
    with cluster.life.live():
        cluster.start()
        cluster.wait(lambda: cluster.bound() == {"pod": "node-b"})
    cluster.wait(lambda: cluster.events("ClaimTakenBack") == ["taken back from node node-a: its pod was not bound"])


def test_configs_reach_the_allocation_byte_for_byte(cluster: Scene) -> None:
    """A merge patch would take out what is null."""
    parameters = {"apiVersion": "example.com/v1", "kind": "Any", "nothing": None, "list": [None, {"a": None}]}
    config = [{"opaque": {"driver": "other.example.com", "parameters": parameters}}]
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu"}}
    spec = {"devices": {"requests": [request], "config": config}}
    cluster.add_node("node-a")
    cluster.api.create("resourceclaims", {"metadata": {"name": "claim", "namespace": NAMESPACE}, "spec": spec})
    cluster.add_pod("pod", "claim")
    cluster.start()
    cluster.wait(lambda: cluster.devices("claim"))
    claim = cluster.claim("claim")
    assert claim is not None
    assert claim["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == parameters


def test_an_older_kubernetes_is_told_and_left_alone(cluster: Scene) -> None:
    cluster.api.version = {"major": "1", "minor": "35", "gitVersion": "v1.35.9"}
    cluster.add_node("node-a")
    cluster.add_job("pod", 1)
    running = cluster.start()
    cluster.wait(lambda: ask(running, "/readyz")[0] == 503)
    assert ask(running, "/readyz")[1].startswith("Kubernetes v1.35.9 is older than 1.36: devices cannot be fenced")
    assert ask(running, "/healthz") == (200, "alive\n")
    cluster.wait(lambda: cluster.events("KubernetesTooOld"))
    assert cluster.api.count(resource="resourceclaims") == 0
    assert cluster.api.count(resource="leases") == 0


def test_settings_of_these_tests_are_quick() -> None:
    assert quick_settings().idle.unbound_s == 1.0
