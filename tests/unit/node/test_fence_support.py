"""Whether an API server keeps a fence."""

from __future__ import annotations

import pytest

from driver.errors import ApiError
from driver.kube.client import KubeClient
from driver.names import PoolName
from driver.node.fence import REFUSED_AGAIN_S
from driver.node.fence_support import FenceSupport
from driver.resourceslice.diff import PoolIdentity
from tests.fakes.kube_api import FakeKubeApi, Fault

POOL = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def support(api: FakeKubeApi, clock: Clock | None = None) -> FenceSupport:
    return FenceSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock or Clock())


def test_a_server_that_keeps_taints_is_asked_once_and_stores_nothing() -> None:
    with FakeKubeApi() as api:
        asked = support(api)
        assert [asked.find_refusal(), asked.find_refusal()] == ["", ""]
        assert api.count("create", resource="resourceslices") == 1
        assert api.objects("resourceslices") == []


@pytest.mark.parametrize(
    ("minor", "gates_off", "says"),
    [
        pytest.param("34", (), "v1.34.4 keeps no device taints", id="too old, whatever its gates"),
        pytest.param("35", (), "v1.35.4 keeps no device taints", id="too old for kube-scheduler to heed them"),
        pytest.param("36+", ("DRADeviceTaints",), "feature gate DRADeviceTaints is off", id="the gate is off"),
    ],
)
def test_a_server_that_does_not_is_refused_with_the_reason(minor: str, gates_off: tuple[str, ...], says: str) -> None:
    with FakeKubeApi(gates_off=gates_off) as api:
        api.version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor.rstrip('+')}.4"}
        refusal = support(api).find_refusal()
    assert says in refusal
    assert "kube-scheduler's" in refusal


def test_a_refusal_is_asked_about_again_for_clusters_are_upgraded() -> None:
    with FakeKubeApi(gates_off=("DRADeviceTaints",)) as api:
        clock = Clock()
        asked = support(api, clock)
        assert asked.find_refusal()
        api.store.gates_off = frozenset()
        assert asked.find_refusal()
        clock.now_s = REFUSED_AGAIN_S
        assert asked.find_refusal() == ""


def test_a_fence_that_was_lost_counts_more_than_what_the_server_promised() -> None:
    with FakeKubeApi() as api:
        clock = Clock()
        asked = support(api, clock)
        assert asked.find_refusal() == ""
        asked.note_lost()
        assert "did not keep the fence's taint" in asked.find_refusal()
        clock.now_s = REFUSED_AGAIN_S
        assert asked.find_refusal() == ""


def test_a_server_that_does_not_answer_is_not_known() -> None:
    with FakeKubeApi() as api:
        api.fail(Fault(verb="create", resource="resourceslices", status=503, reason="ServiceUnavailable"))
        asked = support(api)
        with pytest.raises(ApiError):
            asked.find_refusal()
        assert asked.find_refusal() == ""
