"""Who holds a device that the node has no longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Allocation, AllocationResult, ClaimStatus, DeviceAllocation, ResourceClaim
from driver.errors import StateUnwritable
from driver.kube.client import KubeClient
from driver.names import DeviceName, PoolName
from driver.node.holders import Holders, find_allocated_devices
from driver.resourceslice.diff import PoolIdentity
from tests.fakes.kube_api import FakeKubeApi, Fault

POOL = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))
GPU = DeviceName("gpu-0000-01-00-0")


def result(device: str, *, driver: str = "gpu.nvidia.com", pool: str = "node-a") -> AllocationResult:
    return AllocationResult(request="gpus", driver=driver, pool=pool, device=device)


def claim(*results: AllocationResult) -> ResourceClaim:
    allocation = Allocation(devices=DeviceAllocation(results=results)) if results else None
    return ResourceClaim(metadata=ObjectMeta(name="claim"), status=ClaimStatus(allocation=allocation))


def test_only_results_of_our_driver_in_our_pool_hold_a_device() -> None:
    """Another node's GPU of the same address, and another driver's device, are not ours."""
    claims = [claim(), claim(result(GPU)), claim(result("a", pool="node-b")), claim(result("b", driver="other.example.com"))]
    assert find_allocated_devices(claims, POOL) == frozenset({GPU})


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as made:
        yield made


def test_records_and_allocations_both_hold(api: FakeKubeApi) -> None:
    """A claim that is prepared, and one that is only allocated."""
    status = {
        "allocation": {"devices": {"results": [{"request": "r", "driver": POOL.driver, "pool": "node-a", "device": GPU}]}}
    }
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": POOL.driver}}]}}
    api.create("resourceclaims", {"metadata": {"name": "one", "namespace": "team"}, "spec": spec, "status": status})
    api.edit("resourceclaims", "one", lambda now: now | {"status": status}, namespace="team", is_status=True)
    recorded = DeviceName("gpu-0000-02-00-0")
    holders = Holders(KubeClient(api.credentials()), POOL, lambda: frozenset({recorded}))
    assert holders.read() == frozenset({GPU, recorded})


def test_it_cannot_be_known_while_the_api_server_fails(api: FakeKubeApi) -> None:
    """Nothing may be withdrawn then."""
    api.fail(Fault(verb="list", resource="resourceclaims", status=500, times=10))
    assert Holders(KubeClient(api.credentials()), POOL, frozenset).read() is None


def test_it_cannot_be_known_while_the_records_cannot_be_read(api: FakeKubeApi) -> None:
    """A folder that is gone is not an empty one."""

    def unreadable() -> frozenset[DeviceName]:
        raise StateUnwritable("reading the records: Input/output error")

    assert Holders(KubeClient(api.credentials()), POOL, unreadable).read() is None
