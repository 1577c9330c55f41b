"""Which allocations are ours."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import AllocationResult
from driver.controller.objects.model import AllocatedDevices, Allocation, Claim, ClaimStatus, Consumer, Meta
from driver.controller.objects.ownership import (
    ALLOCATION_ANNOTATION,
    RESERVED_FOR_MAX,
    build_guard,
    digest_allocation,
    has_guard,
    is_guard,
    is_ours,
    is_pod,
    merge_consumers,
)

ONE = AllocationResult(request="gpus", driver="gpu.nvidia.com", pool="node-a", device="gpu-0")
TWO = AllocationResult(request="gpus", driver="gpu.nvidia.com", pool="node-a", device="gpu-1")
SHARED = AllocationResult(request="gpus", driver="gpu.nvidia.com", pool="node-a", device="gpu-0", share_id="8f0e")


def claim(*results: AllocationResult, mark: str | None = None, reserved: tuple[Consumer, ...] = ()) -> Claim:
    allocation = Allocation(devices=AllocatedDevices(results=results)) if results else None
    annotations = {} if mark is None else {ALLOCATION_ANNOTATION: mark}
    meta = Meta(name="claim", uid="uid", annotations=annotations)
    return Claim(metadata=meta, status=ClaimStatus(allocation=allocation, reserved_for=reserved))


def test_the_digest_is_of_the_devices_in_whatever_order() -> None:
    assert digest_allocation([ONE, TWO]) == digest_allocation([TWO, ONE])
    assert len(digest_allocation([ONE])) == 16
    assert len({digest_allocation(each) for each in ([ONE], [TWO], [ONE, TWO], [SHARED], [])}) == 5


def test_the_digest_does_not_change_between_releases() -> None:
    """A leader of the next version must know what this one wrote."""
    assert digest_allocation([ONE, TWO]) == "fc6c484bfb74cb2f"


def test_an_allocation_is_ours_only_where_the_mark_fits_it() -> None:
    mark = digest_allocation([ONE])
    assert is_ours(claim(ONE, mark=mark))
    assert not is_ours(claim(TWO, mark=mark)), "kube-scheduler was quicker"
    assert not is_ours(claim(ONE))
    assert not is_ours(claim(mark=mark)), "marked, and not allocated"


def test_a_guard_is_known_and_is_no_pod() -> None:
    guard = build_guard("uid")
    pod = Consumer(resource="pods", name="pod", uid="pod-uid")
    assert (is_guard(guard), is_pod(guard)) == (True, False)
    assert (is_guard(pod), is_pod(pod)) == (False, True)
    assert has_guard(claim(ONE, reserved=(pod, guard)))
    assert not has_guard(claim(ONE, reserved=(pod,)))


@pytest.mark.parametrize("group", ["scheduling.k8s.io", "gpu-dra.io"])
def test_another_consumer_is_neither(group: str) -> None:
    other = Consumer(api_group=group, resource="podgroups", name="group", uid="group-uid")
    assert not is_guard(other)
    assert not is_pod(other)


def test_each_consumer_is_there_once_and_no_more_than_the_api_takes() -> None:
    pods = [Consumer(resource="pods", name=f"pod-{number}", uid=f"uid-{number}") for number in range(300)]
    assert merge_consumers(pods[:2], pods[1:3]) == tuple(pods[:3])
    assert merge_consumers(pods, ()) == tuple(pods[:RESERVED_FOR_MAX])
