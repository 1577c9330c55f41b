"""Health streams: all at the start, all again on a change, few at once, and ended by whoever may end them."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from driver.names import DeviceName, PoolName
from driver.pb.dra_health.v1 import api_pb2 as v1
from driver.pb.dra_health.v1alpha1 import api_pb2 as v1alpha1
from driver.plugin.health import MAX_STREAMS, DeviceHealth, Health, HealthBoard, HealthStreams, HealthV1, HealthV1Alpha1
from tests.fakes.grpc_context import Aborted, FakeContext

LONG_S = 3600.0


def device(number: int, health: Health = Health.HEALTHY, *, at_s: int = 1, message: str = "") -> DeviceHealth:
    return DeviceHealth(
        pool=PoolName("node-a"), device=DeviceName(f"gpu-{number}"), health=health, last_updated_s=at_s, message=message
    )


def board_of(*devices: DeviceHealth) -> HealthBoard:
    board = HealthBoard()
    board.post(devices)
    return board


def test_a_board_wakes_its_watchers_on_a_change_only() -> None:
    """A look that finds all as it was, later, is no change."""
    board, wakes = board_of(device(0)), []
    forget = board.watch(lambda: wakes.append(board.snapshot()))
    board.post((device(0, at_s=99),))
    board.post((device(0, Health.UNHEALTHY, at_s=100),))
    forget()
    board.post(())
    assert wakes == [(device(0, Health.UNHEALTHY),)]
    assert board.snapshot() == ()


def test_a_board_keeps_the_time_of_the_last_look() -> None:
    board = board_of(device(0))
    board.post((device(0, at_s=99),))
    assert board.snapshot()[0].last_updated_s == 99


def test_a_stream_begins_with_everything_and_says_everything_on_a_change() -> None:
    board = board_of(device(0), device(1))
    stream = HealthStreams(board).watch(FakeContext().as_grpc(), LONG_S)
    first = next(stream)
    board.post((device(0), device(1, Health.UNHEALTHY)))
    assert (first, next(stream)) == ((device(0), device(1)), (device(0), device(1, Health.UNHEALTHY)))


def test_a_stream_repeats_itself_in_time() -> None:
    stream = HealthStreams(board_of(device(0))).watch(FakeContext().as_grpc(), 0.0)
    assert [next(stream), next(stream), next(stream)] == [(device(0),)] * 3


def test_a_cancelled_stream_ends_and_frees_its_slot() -> None:
    streams, context = HealthStreams(board_of()), FakeContext()
    stream = streams.watch(context.as_grpc(), LONG_S)
    next(stream)
    assert streams.count() == 1
    context.cancel()
    assert (list(stream), streams.count()) == ([], 0)


def test_a_slot_is_free_at_once_even_if_nobody_reads_the_stream_to_its_end() -> None:
    """GRPC drops the generator of a cancelled call where it stands."""
    streams, context = HealthStreams(board_of()), FakeContext()
    next(streams.watch(context.as_grpc(), LONG_S))
    context.cancel()
    assert streams.count() == 0


def test_a_call_that_was_over_before_it_began_gets_nothing() -> None:
    streams = HealthStreams(board_of(device(0)))
    assert list(streams.watch(FakeContext(is_active=False).as_grpc(), LONG_S)) == []
    assert streams.count() == 0


def test_one_stream_too_many_is_refused_and_served_once_another_has_gone() -> None:
    """R15: streams hold threads, so their number has an end."""
    streams, contexts = HealthStreams(board_of(device(0))), [FakeContext() for _ in range(MAX_STREAMS)]
    running = [streams.watch(each.as_grpc(), LONG_S) for each in contexts]
    assert [next(each) for each in running] == [(device(0),)] * MAX_STREAMS
    with pytest.raises(Aborted) as refusal:
        next(streams.watch(FakeContext().as_grpc(), LONG_S))
    assert refusal.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    contexts[0].cancel()
    assert next(streams.watch(FakeContext().as_grpc(), LONG_S)) == (device(0),)


def test_a_stop_ends_every_stream_and_lets_no_new_one_in() -> None:
    streams = HealthStreams(board_of(device(0)))
    running = [streams.watch(FakeContext().as_grpc(), LONG_S) for _ in range(2)]
    for each in running:
        next(each)
    streams.stop()
    assert [list(each) for each in running] == [[], []]
    with pytest.raises(Aborted):
        next(streams.watch(FakeContext().as_grpc(), LONG_S))


SICK = device(1, Health.UNHEALTHY, at_s=1_700_000_000, message="XID 79\nfell off the bus")


def first_v1(streams: HealthStreams) -> v1.NodeWatchResourcesResponse:
    answers: Iterator[v1.NodeWatchResourcesResponse] = HealthV1(streams).NodeWatchResources(
        v1.NodeWatchResourcesRequest(), FakeContext().as_grpc()
    )
    return next(answers)


def test_v1_says_how_long_its_word_counts() -> None:
    """R41: a kubelet that speaks v1 heeds the timeout, so a message every few minutes is enough."""
    assert first_v1(HealthStreams(board_of(SICK))) == v1.NodeWatchResourcesResponse(
        devices=[
            v1.DeviceHealth(
                device=v1.DeviceIdentifier(pool_name="node-a", device_name="gpu-1"),
                health=v1.UNHEALTHY,
                last_updated_time=1_700_000_000,
                health_check_timeout_seconds=300,
                message="XID 79 fell off the bus",
            )
        ]
    )


def test_v1alpha1_says_the_same_and_no_timeout() -> None:
    """A kubelet of 1.34 knows no timeout: its 30 seconds count."""
    servicer = HealthV1Alpha1(HealthStreams(board_of(SICK, device(2, Health.UNKNOWN))))
    answers = servicer.NodeWatchResources(v1alpha1.NodeWatchResourcesRequest(), FakeContext().as_grpc())
    assert next(answers) == v1alpha1.NodeWatchResourcesResponse(
        devices=[
            v1alpha1.DeviceHealth(
                device=v1alpha1.DeviceIdentifier(pool_name="node-a", device_name="gpu-1"),
                health=v1alpha1.UNHEALTHY,
                last_updated_time=1_700_000_000,
                message="XID 79 fell off the bus",
            ),
            v1alpha1.DeviceHealth(
                device=v1alpha1.DeviceIdentifier(pool_name="node-a", device_name="gpu-2"),
                health=v1alpha1.UNKNOWN,
                last_updated_time=1,
            ),
        ]
    )


def test_a_message_that_is_not_utf8_is_sent_without_what_cannot_be() -> None:
    assert first_v1(HealthStreams(board_of(device(0, message="bad \udcff")))).devices[0].message == "bad ?"


def test_what_was_said_is_said_again_on_demand() -> None:
    """The kubelet forgets a driver's devices when the stream of any of its instances ends."""
    board, woken = HealthBoard(), []
    board.watch(lambda: woken.append("one"))
    forget = board.watch(lambda: woken.append("two"))
    board.say_again()
    forget()
    board.say_again()
    assert sorted(woken) == ["one", "one", "two"]
