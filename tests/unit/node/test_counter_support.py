"""Whether the API server keeps shared counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from driver.errors import ApiError
from driver.kube.client import KubeClient
from driver.names import PoolName
from driver.node.counter_support import REFUSED_AGAIN_S, CounterSupport, ShareSupport
from driver.resourceslice.diff import PoolIdentity
from tests.fakes.kube_api import FakeKubeApi, Fault

POOL = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        yield server


def support(api: FakeKubeApi, clock: Clock) -> CounterSupport:
    return CounterSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock)


def test_a_server_of_today_keeps_them_and_nothing_is_stored_by_asking(api: FakeKubeApi, clock: Clock) -> None:
    asked = support(api, clock)
    assert asked.recall() is True
    assert asked.read() is True
    clock.now_s = 10 * REFUSED_AGAIN_S
    assert asked.read() is True
    assert api.objects("resourceslices") == []
    assert api.count("create", resource="resourceslices") == 1


@pytest.mark.parametrize("minor", ["34", "35"])
def test_an_older_server_is_not_even_tried(api: FakeKubeApi, clock: Clock, minor: str) -> None:
    api.version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.4"}
    asked = support(api, clock)
    assert asked.read() is False
    assert asked.recall() is False
    assert api.count("create", resource="resourceslices") == 0


def test_a_server_whose_gate_is_off_drops_them(clock: Clock) -> None:
    with FakeKubeApi(gates_off=["DRAPartitionableDevices"]) as api:
        assert support(api, clock).read() is False


def test_a_refusal_is_asked_about_again_later(api: FakeKubeApi, clock: Clock) -> None:
    """Clusters are upgraded."""
    api.version = {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
    asked = support(api, clock)
    assert asked.read() is False
    api.version = {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
    assert asked.read() is False
    clock.now_s = REFUSED_AGAIN_S
    assert asked.read() is True


def test_one_that_dropped_them_after_all_is_not_trusted(api: FakeKubeApi, clock: Clock) -> None:
    asked = support(api, clock)
    assert asked.read() is True
    asked.note_lost()
    assert (asked.read(), asked.recall()) == (False, False)


def test_a_server_that_does_not_answer_says_nothing(api: FakeKubeApi, clock: Clock) -> None:
    api.fail(Fault(verb="create", resource="resourceslices", status=500, times=1))
    asked = support(api, clock)
    with pytest.raises(ApiError):
        asked.read()
    assert asked.recall() is True
    assert asked.read() is True


COUNTERS = {"sharedCounters": [{"name": "gpu", "counters": {"memory-slice-0": {"value": "1"}}}]}
SHARES = {"devices": [{"name": "gpu", "allowMultipleAllocations": True}]}


def publish(api: FakeKubeApi, content: Mapping[str, object]) -> None:
    """A slice of this node, from before."""
    pool = {"name": POOL.pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": POOL.driver, "nodeName": POOL.node_name, "pool": pool, **content}
    api.create("resourceslices", {"metadata": {"name": "00000-one"}, "spec": spec})


@pytest.mark.parametrize(
    ("kind", "content"),
    [pytest.param(CounterSupport, COUNTERS, id="counters"), pytest.param(ShareSupport, SHARES, id="shares")],
)
def test_one_that_has_kept_them_is_not_tried_again(
    api: FakeKubeApi, clock: Clock, kind: type[CounterSupport], content: Mapping[str, object]
) -> None:
    """A restart writes nothing, not even on trial."""
    publish(api, content)
    assert kind(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock).read() is True
    assert api.count("create", resource="resourceslices") == 0


def test_that_it_keeps_counters_says_nothing_of_shares(clock: Clock) -> None:
    """Two feature gates: a GPU that is published as divided, and stored as whole, would be given to one claim."""
    with FakeKubeApi(gates_off=["DRAConsumableCapacity"]) as api:
        publish(api, COUNTERS)
        assert ShareSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock).read() is False


def test_shares_are_asked_about_in_the_same_way(api: FakeKubeApi, clock: Clock) -> None:
    """A device of which several claims may have a part, tried and not stored."""
    assert ShareSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock).read()
    assert api.objects("resourceslices") == []


def test_a_server_without_consumable_capacity_is_found_out(clock: Clock) -> None:
    with FakeKubeApi(gates_off=["DRAConsumableCapacity"]) as api:
        assert not ShareSupport(KubeClient(api.credentials(), timeout_s=5.0), POOL, clock).read()
