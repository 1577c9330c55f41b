"""When the controller lets a node go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.allocator.pools import Pool
from driver.api.resource_v1 import Device, Taint
from driver.controller.objects.model import Node, NodeMeta
from driver.controller.writing.fence import (
    QUIET_S,
    Acknowledgement,
    PoolWrites,
    plan_acknowledgements,
    read_drain,
)

DRIVER = "gpu.nvidia.com"
SINCE = "2026-12-02T01:00:00Z"
BEFORE = "2026-12-01T01:00:00Z"


def device(name: str, value: str | None = "draining", *, since: str | None = SINCE, more: tuple[Taint, ...] = ()) -> Device:
    fence = Taint(key="gpu.nvidia.com/allocator", value=value or "", effect="NoSchedule", time_added=since)
    return Device(name=name, taints=((fence,) if value else ()) + more)


LOST = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule", time_added=BEFORE)
POOL = Pool(driver=DRIVER, name="node-a", node="node-a", devices=(device("a"), device("b", more=(LOST,))))


def nodes(acknowledged: str = "") -> dict[str, Node]:
    annotations = {"gpu.nvidia.com/allocator-drained": acknowledged} if acknowledged else {}
    return {"node-a": Node(metadata=NodeMeta(name="node-a", uid="uid-a", annotations=annotations))}


def quiet() -> PoolWrites:
    return PoolWrites(leads_since_s=0.0)


def plan(*pools: Pool, acknowledged: str = "", writes: PoolWrites | None = None, now_s: float = 100.0) -> object:
    return plan_acknowledgements(pools, nodes(acknowledged), writes or quiet(), now_s=now_s)


GO = (Acknowledgement(node="node-a", node_uid="uid-a", time_added=SINCE),)


def test_a_pool_that_drains_with_nothing_under_way_may_leave() -> None:
    """Health taints beside the fence do not matter; an older drain's acknowledgement neither."""
    assert plan(POOL) == GO
    assert plan(POOL, acknowledged=BEFORE) == GO


def test_it_is_acknowledged_once() -> None:
    assert plan(POOL, acknowledged=SINCE) == ()


@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(replace(POOL, devices=(device("a"), device("b", "controller"))), id="a device that is still ours"),
        pytest.param(replace(POOL, devices=(device("a"), device("b", None))), id="a device without a fence"),
        pytest.param(replace(POOL, devices=(device("a"), device("b", since=BEFORE))), id="devices of two drains"),
        pytest.param(replace(POOL, devices=(device("a", since=None),)), id="a drain without a moment"),
        pytest.param(replace(POOL, devices=()), id="no device"),
        pytest.param(replace(POOL, name="node-b", node="node-b"), id="a node that is not known"),
    ],
)
def test_it_is_not_acknowledged(pool: Pool) -> None:
    assert plan(pool) == ()


def test_one_node_does_not_wait_for_another() -> None:
    still_ours = replace(POOL, name="node-b", node="node-b", devices=(device("a", "controller"),))
    assert plan(still_ours, POOL) == GO


def test_nothing_is_acknowledged_while_a_write_is_under_way_nor_soon_after() -> None:
    """kube-scheduler must see the claim before it sees free devices: claims and slices are two watches."""
    writes = quiet()
    writes.begin("node-a")
    writes.begin("node-a")
    assert plan(POOL, writes=writes, now_s=1000.0) == ()
    writes.end("node-a", 1000.0)
    assert plan(POOL, writes=writes, now_s=1000.0 + QUIET_S) == ()
    writes.end("node-a", 1005.0)
    assert plan(POOL, writes=writes, now_s=1004.9 + QUIET_S) == ()
    assert plan(POOL, writes=writes, now_s=1005.0 + QUIET_S) == GO


def test_writes_of_other_pools_do_not_matter() -> None:
    writes = quiet()
    writes.begin("node-b")
    assert plan(POOL, writes=writes) == GO


def test_a_new_leader_waits_first() -> None:
    """What the leader before it wrote last may be news to kube-scheduler still."""
    writes = PoolWrites(leads_since_s=100.0)
    assert plan(POOL, writes=writes, now_s=100.0) == ()
    assert plan(POOL, writes=writes, now_s=100.0 + QUIET_S) == GO


def test_a_drain_is_read_from_all_devices_together() -> None:
    assert read_drain(POOL) == SINCE
    assert read_drain(replace(POOL, devices=(device("a", "controller"),))) is None
