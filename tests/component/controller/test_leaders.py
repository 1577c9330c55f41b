"""Who leads, and what happens when another one does."""

from __future__ import annotations

from typing import Any

from driver.errors import LeadershipLost
from tests.component.controller.scene import Scene


def holder(cluster: Scene) -> str:
    leases = cluster.api.objects("leases")
    return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""


def test_one_leads_and_the_next_takes_over_at_once_after_a_graceful_stop(cluster: Scene) -> None:
    cluster.add_node("node-a")
    with cluster.life.live():
        first = cluster.start("first")
        cluster.wait(lambda: holder(cluster) == "first")
        cluster.start("second")
        cluster.add_job("one")
        cluster.wait(lambda: "one" in cluster.bound())
        cluster.stop(first)
        cluster.add_job("two")
        cluster.wait(lambda: "two" in cluster.bound())
    assert holder(cluster) == "second"
    assert len({device for devices in cluster.held().values() for device in devices}) == 2


def test_a_leader_whose_lease_is_taken_ends(cluster: Scene) -> None:
    cluster.add_node("node-a")
    first = cluster.start("first")
    cluster.wait(lambda: holder(cluster) == "first")

    def take(now: dict[str, Any]) -> dict[str, Any]:
        return now | {"spec": now["spec"] | {"holderIdentity": "somebody"}}

    cluster.api.edit("leases", "controller", take, namespace="gpu-dra")
    cluster.running.remove(first)
    first.thread.join(20.0)
    assert isinstance(first.error, LeadershipLost)
    first.controller.stop(1.0)


def test_a_leader_that_cannot_reach_the_server_ends(cluster: Scene) -> None:
    first = cluster.start("first")
    cluster.wait(lambda: holder(cluster) == "first")
    cluster.api.stop()
    cluster.running.remove(first)
    first.thread.join(20.0)
    assert isinstance(first.error, LeadershipLost)
    first.controller.stop(1.0)
    cluster.api.start()


def test_a_stop_gives_the_lease_back(cluster: Scene) -> None:
    first = cluster.start("first")
    cluster.wait(first.controller.may_write)
    cluster.stop(first)
    assert holder(cluster) == ""


def test_a_stand_by_is_stopped_and_writes_nothing(cluster: Scene) -> None:
    cluster.add_node("node-a")
    cluster.start("first")
    cluster.wait(lambda: holder(cluster) == "first")
    second = cluster.start("second")
    cluster.wait(lambda: second.controller.read_readiness().text.startswith("standby, first leads"))
    assert second.controller.read_readiness().is_ok
    cluster.stop(second)
    assert holder(cluster) == "first"
