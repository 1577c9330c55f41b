"""Health streams over a real socket, beside the calls about claims."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from driver.pb.dra_health.v1 import api_pb2 as v1
from driver.pb.dra_health.v1 import api_pb2_grpc as v1_grpc
from driver.plugin.health import MAX_STREAMS, Health
from driver.plugin.listener import build_target
from tests.component.plugin.node import DRIVER, PluginNode, build_health, make_board
from tests.fakes.claim_service import make_claim
from tests.fakes.kubelet import FakeKubelet, Manners


@pytest.fixture
def channel(node: PluginNode) -> Iterator[grpc.Channel]:
    """A connection to a plugin with one healthy GPU."""
    server = node.start(board=make_board(Health.HEALTHY))
    with grpc.insecure_channel(build_target(server.paths.service)) as one:
        yield one


def watch(channel: grpc.Channel) -> Any:
    return v1_grpc.DRAResourceHealthStub(channel).NodeWatchResources(v1.NodeWatchResourcesRequest())


def states(message: v1.NodeWatchResourcesResponse) -> list[str]:
    return [v1.HealthStatus.Name(each.health) for each in message.devices]


def test_a_change_reaches_the_kubelet_at_once(node: PluginNode) -> None:
    board = make_board(Health.HEALTHY, Health.UNKNOWN)
    node.start(board=board)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(
            lambda: kubelet.health(DRIVER) == {("node-a", "gpu-0"): ("HEALTHY", ""), ("node-a", "gpu-1"): ("UNKNOWN", "")}
        )
        board.post(build_health(Health.UNHEALTHY, Health.HEALTHY))
        assert kubelet.wait(
            lambda: kubelet.health(DRIVER) == {("node-a", "gpu-0"): ("UNHEALTHY", ""), ("node-a", "gpu-1"): ("HEALTHY", "")}
        )


def test_a_stream_is_opened_again_after_a_restart_of_the_plugin(node: PluginNode) -> None:
    first = node.start(node.settings("pod-1"))
    with FakeKubelet(node.registry_dir, Manners(health_retry_s=0.1)) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(lambda: bool(kubelet.health(DRIVER)))
        node.stop(first)
        assert kubelet.wait(lambda: not kubelet.health(DRIVER))
        node.start(node.settings("pod-1"), board=make_board(Health.UNHEALTHY))
        assert kubelet.wait(lambda: kubelet.health(DRIVER) == {("node-a", "gpu-0"): ("UNHEALTHY", "")})


def test_calls_are_served_beside_as_many_streams_as_there_may_be(node: PluginNode) -> None:
    """R15: four streams on a small pool starved every call."""
    server = node.start()
    with FakeKubelet(node.registry_dir) as kubelet, grpc.insecure_channel(build_target(server.paths.service)) as channel:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(lambda: bool(kubelet.health(DRIVER)))
        streams = [watch(channel) for _ in range(MAX_STREAMS - 1)]
        assert [states(next(each)) for each in streams] == [["HEALTHY"]] * (MAX_STREAMS - 1)
        assert kubelet.prepare(DRIVER, [make_claim()])


def test_a_stream_too_many_is_refused(channel: grpc.Channel) -> None:
    streams = [watch(channel) for _ in range(MAX_STREAMS)]
    assert [states(next(each)) for each in streams] == [["HEALTHY"]] * MAX_STREAMS
    with pytest.raises(grpc.RpcError) as refusal:
        next(watch(channel))
    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_cancelled_stream_frees_its_slot(channel: grpc.Channel) -> None:
    """Its thread waits for a change that may never come; the cancellation wakes it."""
    for _ in range(3):
        streams = [watch(channel) for _ in range(MAX_STREAMS)]
        assert [states(next(each)) for each in streams] == [["HEALTHY"]] * MAX_STREAMS
        for each in streams:
            each.cancel()
        assert is_served_soon(channel)


def is_served_soon(channel: grpc.Channel) -> bool:
    """Whether a stream gets a slot within a few tries: the server hears of a cancellation a moment after the caller."""
    for _ in range(100):
        stream = watch(channel)
        with contextlib.suppress(grpc.RpcError):
            return states(next(stream)) == ["HEALTHY"]
        stream.cancel()
    return False


def test_a_caller_that_reads_nothing_does_not_hold_up_the_others(node: PluginNode) -> None:
    """A stream whose caller is stuck fills its window; changes still reach the other streams."""
    board = make_board(Health.HEALTHY)
    server = node.start(board=board)
    with (
        grpc.insecure_channel(build_target(server.paths.service)) as stuck,
        grpc.insecure_channel(build_target(server.paths.service), options=(("grpc.use_local_subchannel_pool", 1),)) as well,
    ):
        _never_read = watch(stuck)
        stream = watch(well)
        next(stream)
        for health in itertools.islice(itertools.cycle((Health.UNHEALTHY, Health.HEALTHY)), 50):
            board.post(build_health(*[health] * 100))
        assert any(states(message)[-1:] == ["HEALTHY"] and len(message.devices) == 100 for message in stream)
        _never_read.cancel()
        stream.cancel()
