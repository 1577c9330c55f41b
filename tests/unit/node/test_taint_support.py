"""Which taints the API server keeps, found out by slices that are only tried."""

from __future__ import annotations

import pytest

from driver.errors import ApiError
from driver.health.model import Kind
from driver.kube.client import KubeClient
from driver.names import PoolName
from driver.node.taint_support import REFUSED_AGAIN_S, TaintSupport
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.health_taints import TaintRules
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.unit.node.test_fence_support import Clock

POOL = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))
EVICTS = frozenset({Kind.ECC})


def support(api: FakeKubeApi, clock: Clock | None = None) -> TaintSupport:
    return TaintSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, EVICTS, clock or Clock())


def test_a_server_of_today_is_asked_once_and_stores_nothing() -> None:
    with FakeKubeApi() as api:
        asked = support(api)
        assert [asked.read(), asked.read()] == [TaintRules(evicts=EVICTS)] * 2
        assert api.count("create", resource="resourceslices") == 1
        assert api.objects("resourceslices") == []


def test_an_older_server_takes_four_and_no_warnings() -> None:
    with FakeKubeApi() as api:
        api.version = {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
        assert support(api).read() == TaintRules(evicts=EVICTS, keeps_warnings=False, limit=4)


def test_a_server_whose_gate_is_off_keeps_none_and_is_asked_again() -> None:
    with FakeKubeApi(gates_off=("DRADeviceTaints",)) as api:
        clock = Clock()
        asked = support(api, clock)
        assert asked.read() == TaintRules(evicts=EVICTS, keeps_taints=False, keeps_warnings=False)
        api.store.gates_off = frozenset()
        assert not asked.read().keeps_taints
        clock.now_s = REFUSED_AGAIN_S
        assert asked.read() == TaintRules(evicts=EVICTS)


def test_a_server_that_does_not_answer_leaves_it_open() -> None:
    with FakeKubeApi() as api:
        asked = support(api)
        api.fail(Fault(verb="create", resource="resourceslices", status=503, reason="ServiceUnavailable"))
        with pytest.raises(ApiError):
            asked.read()
